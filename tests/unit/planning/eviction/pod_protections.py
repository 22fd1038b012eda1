"""What protects a pod, as a table: its own properties, its node, the policy, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.planning.reasons import Reason
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.state.run_state import RunState
from tests.builders import a_budget, a_node, a_pod
from tests.unit.planning.builders import Workload, a_past_move, a_policy, a_workload, at
from tests.unit.planning.eviction.protected_pods import (
    CLAIM,
    DISK,
    LEAVING,
    Case,
    a_taint,
    case,
    the_pod,
    volume,
)
from tests.unit.planning.landing.alike_nodes import alike

IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
ON_HOT: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "hot"}}
AN_UNSURE_MOVE = a_past_move(
    from_node="hot", workload="Job/other", controller_uid="other", result="Unknown", load={}
)


def a_node_being_deleted(name: str) -> dict[str, Any]:
    node = a_node(name)
    node["metadata"]["deletionTimestamp"] = at(-5)
    return node


def debugged(workload: Workload) -> None:
    running = {"name": "debugger-x7k2p", "state": {"running": {"startedAt": at(-60)}}}
    workload.pods[0]["status"]["ephemeralContainerStatuses"] = [running]


def alone(**changes: Any) -> Case:
    return {"workloads": [], "pods": [a_pod("web-0", node="hot", cpu="3900m", **changes)]}


def sampled() -> Case:
    """Two pods that each land badly with a chance of 2 %, where the plan may fail in 2.5 %."""
    others = [f"n{number:03}" for number in range(249)]
    in_pool = {"nodeSelector": {"pool": "x"}}
    return {
        "nodes": [
            a_node("hot"),
            a_node("hotter"),
            *(a_node(name, cpu=8, labels={"pool": "x"}) for name in others),
        ],
        "workloads": [
            the_pod(spec=in_pool),
            a_workload("other", ["hotter"], cpu="3950m", replicas=2, spec=in_pool),
        ],
        "load": dict.fromkeys(others[:5], float("nan")),
        "configuration": alike(0),
        "policy": a_policy(planning={"confidence": 0.975}),
    }


def owned_by_other(kind: str) -> Case:
    workload = the_pod()
    workload.pods[0]["metadata"]["ownerReferences"][0]["kind"] = kind
    return case(workload)


def terminating() -> Case:
    workload = the_pod()
    workload.pods[0]["metadata"]["deletionTimestamp"] = at(-5000)
    return case(workload)


def asked_for(kind: str = "evictionrequests", *, conditions: Any = (), **spec: Any) -> Case:
    """Somebody's object of the EvictionRequest API that names the pod."""
    target = {"pod": {"name": "web-0", "uid": the_pod().pods[0]["metadata"]["uid"]}}
    item = {
        "metadata": {"namespace": "default", "name": "drain"},
        "spec": {"target": target, **spec},
        "status": {"conditions": list(conditions)},
    }
    return case(the_pod(), **{kind: [item]})


def over(kind: str, status: str = "True") -> Mapping[str, str]:
    return {"type": kind, "status": status, "reason": "x"}


BEING_EVICTED: list[tuple[str, Case]] = [
    ("asked for", asked_for(intent="Eviction", requester="example.com/drain")),
    ("by its name", asked_for(intent="Eviction", target={"pod": {"name": "web-0"}})),
    ("of an intent we do not know", asked_for(intent="Replace")),
    ("under way", asked_for("evictions")),
    ("not failed", asked_for("evictions", conditions=[over("Failed", "False")])),
    ("malformed", asked_for(target=7)),
]
NOT_BEING_EVICTED: list[tuple[str, Case]] = [
    ("withdrawn", asked_for(intent="Withdrawn")),
    ("evicted before", asked_for(conditions=[over("TargetEvicted")])),
    ("failed", asked_for("evictions", conditions=[over("Failed")])),
    ("another pod", asked_for(target={"pod": {"name": "web-0", "uid": "its-predecessor"}})),
    ("no pod", asked_for(target={})),
]


def protecting(kind: str) -> RebalancePolicy:
    return a_policy(evictable={"protect": [kind]})


def whose_controller_is_gone() -> Case:
    return case(Workload("replicasets", the_pod().item | {"metadata": {"uid": "other"}}, the_pod().pods))


ALWAYS: list[tuple[Reason, str, Case]] = [
    (Reason.STATIC_POD, "mirror", case(the_pod(annotations={"kubernetes.io/config.mirror": "x"}))),
    (Reason.STATIC_POD, "from a file", case(the_pod(annotations={"kubernetes.io/config.source": "file"}))),
    (Reason.STATIC_POD, "owned by its node", owned_by_other("Node")),
    (Reason.DAEMON_SET, "", case(the_pod(kind="DaemonSet"))),
    (Reason.TERMINATING, "", terminating()),
    (Reason.TERMINATING, "moved in the background", case(the_pod(annotations={IN_PROGRESS: "true"}))),
    *((Reason.TERMINATING, name, given) for name, given in BEING_EVICTED),
    (Reason.NO_CONTROLLER, "none", alone()),
    (Reason.NO_CONTROLLER, "unknown kind", owned_by_other("Rollout")),
    (Reason.NO_CONTROLLER, "gone", whose_controller_is_gone()),
    (
        Reason.OVERLAPPING_BUDGETS,
        "",
        case(
            poddisruptionbudgets=[
                a_budget(name, labels={"app": "web"}, allowed=1) for name in ("one", "another")
            ]
        ),
    ),
    (Reason.NODE_NOT_READY, "", case(nodes=[a_node("hot", ready=False), a_node("cool")])),
    *(
        (
            Reason.NODE_NOT_READY,
            key,
            case(nodes=[a_node("hot", taints=[a_taint(key, "NoExecute")]), a_node("cool", cpu=8)]),
        )
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ),
    *(
        (Reason.NODE_LEAVING, key, case(nodes=[a_node("hot", taints=[a_taint(key)]), a_node("cool", cpu=8)]))
        for key in LEAVING
    ),
    (Reason.NODE_LEAVING, "deleted", case(nodes=[a_node_being_deleted("hot"), a_node("cool", cpu=8)])),
    (Reason.SYSTEM_COMPONENT, "this program", case(own_pod="default/web-0")),
    (Reason.SYSTEM_COMPONENT, "a scheduler", case(system_workloads=["default/ReplicaSet/web"])),
]
IN_TEAM = a_policy(evictable={"namespaceSelector": {"matchLabels": {"team": "a"}}})
BY_POLICY: list[tuple[Reason, str, Case]] = [
    (Reason.NAMESPACE, "", case(policy=a_policy(evictable={"namespaces": {"exclude": ["default"]}}))),
    (
        Reason.NAMESPACE,
        "not included",
        case(policy=a_policy(evictable={"namespaces": {"include": ["shop"], "exclude": []}})),
    ),
    *(
        (Reason.NAMESPACE, f"by its labels, {name}", case(policy=IN_TEAM, **namespaces))
        for name, namespaces in (
            (
                "which are others",
                {"namespaces": [{"metadata": {"name": "default", "labels": {"team": "b"}}}]},
            ),
            ("which it has none of", {"namespaces": [{"metadata": {"name": "default"}}]}),
            ("which are unknown", {"namespaces": [{"metadata": {"name": "other", "labels": {"team": "a"}}}]}),
            ("which were not read", {"left_out": ["namespaces"], "unread": ["namespaces"]}),
        )
    ),
    (Reason.WITHOUT_BUDGET, "", case(policy=protecting("WithoutBudget"))),
    (
        Reason.WITHOUT_BUDGET,
        "of others only",
        case(
            policy=protecting("WithoutBudget"),
            poddisruptionbudgets=[a_budget("api", labels={"app": "api"}, allowed=1)],
        ),
    ),
    (Reason.TOO_YOUNG, "", case(the_pod(created=at(-599)), policy=a_policy(evictable={"minAge": "10m"}))),
    (
        Reason.TOO_YOUNG,
        "age unknown",
        case(the_pod(created=""), policy=a_policy(evictable={"minAge": "10m"})),
    ),
    (
        Reason.PRIORITY,
        "",
        case(the_pod(spec={"priority": 1000}), policy=a_policy(evictable={"priorityBelow": 1000})),
    ),
    (
        Reason.LOCAL_STORAGE,
        "emptyDir",
        case(the_pod(spec=volume(emptyDir={})), policy=protecting("LocalStorage")),
    ),
    (
        Reason.LOCAL_STORAGE,
        "hostPath",
        case(the_pod(spec=volume(hostPath={"path": "/var"})), policy=protecting("LocalStorage")),
    ),
    (
        Reason.PERSISTENT_VOLUMES,
        "claim",
        case(
            the_pod(spec=volume(persistentVolumeClaim={"claimName": "data"})),
            policy=protecting("PersistentVolumes"),
            persistentvolumeclaims=[CLAIM],
            persistentvolumes=[DISK],
        ),
    ),
    (Reason.SINGLE_REPLICA, "", case(the_pod(replicas=1), policy=protecting("SingleReplica"))),
    (Reason.JOB, "", case(the_pod(kind="Job"))),
    (Reason.DEBUGGED, "", case(change=debugged)),
    (Reason.RESTARTS_TOGETHER, "", case(the_pod(labels={"leaderworkerset.sigs.k8s.io/name": "llm"}))),
    *(
        (Reason.ANNOTATION, f"{name}={value}", case(the_pod(annotations={name: value})))
        for name, value in (
            ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            ("karpenter.sh/do-not-disrupt", "true"),
            ("karpenter.sh/do-not-disrupt", "100000h"),
            ("karpenter.sh/do-not-disrupt", "soon"),
        )
    ),
]
UNKNOWN_OR_NOT_NOW: list[tuple[Reason, str, Case]] = [
    (
        Reason.SCHEDULER_NOT_ALIVE,
        "not alive",
        case(not_alive="the scheduler default-scheduler is not alive: nobody renews its lease"),
    ),
    (Reason.OTHER_SCHEDULER, "not configured", case(the_pod(spec={"schedulerName": "volcano"}))),
    (
        Reason.OTHER_SCHEDULER,
        "not acted for",
        case(policy=a_policy(scheduler={"profiles": ["another"]})),
    ),
    (
        Reason.OTHER_SCHEDULER,
        "of what comes back",
        {
            "workloads": [
                a_workload("web", ["hot", "cool"], cpu="3900m", schedulerName="default-scheduler"),
            ],
            "change": lambda workload: [
                workload.item["spec"]["template"]["spec"].update(schedulerName="volcano"),
                workload.pods[1]["spec"].update(schedulerName="volcano"),
            ],
            "nodes": [a_node("hot"), a_node("cool", cpu=40)],
        },
    ),
    (Reason.UNPREDICTABLE, "budgets not read", case(unread=["poddisruptionbudgets"])),
    (Reason.UNPREDICTABLE, "controllers not read", case(unread=["replicasets"])),
    (
        Reason.UNPREDICTABLE,
        "resource claims",
        case(the_pod(spec={"resourceClaims": [{"name": "gpu"}]})),
    ),
    (
        Reason.UNPREDICTABLE,
        "scheduling gates",
        case(the_pod(spec={"schedulingGates": [{"name": "wait"}]})),
    ),
    (Reason.UNPREDICTABLE, "another template", case(the_pod(template={"nodeSelector": {"disk": "ssd"}}))),
    (
        Reason.UNKNOWN_LOAD,
        "",
        case(
            pod_load={"web-0": float("nan")},
            load={"hot": (float("nan"), float("nan"))},
            policy=a_policy(hotNodes={"forRuns": 1, "any": [{"utilization": {"pods": 0.5}}]}),
        ),
    ),
    (
        Reason.SETTLING,
        "",
        case(state=RunState(moves=(AN_UNSURE_MOVE,)), window=900.0),
    ),
    (Reason.BUDGET, "", case(poddisruptionbudgets=[a_budget("web", labels={"app": "web"}, allowed=0)])),
    (Reason.COOLDOWN, "", case(state=RunState(moves=(a_past_move(from_node="x", to_node="y"),)))),
    (
        Reason.HOT_TOO_BRIEFLY,
        "",
        case(policy=a_policy(hotNodes={"forRuns": 2}), state=RunState()),
    ),
    (Reason.NO_LANDING, "", case(nodes=[a_node("hot"), a_node("cool", unschedulable=True)])),
    (Reason.NO_BETTER_LANDING, "", case(nodes=[a_node("hot"), a_node("cool")], load={"cool": 50})),
    (
        Reason.ROOM_TAKEN,
        "",
        case(pods=[a_pod("waiting", cpu="4", **ON_HOT)]),
    ),
    (Reason.LIMIT, "", case(policy=a_policy(limits={"perRun": 0}))),
    (
        Reason.NOT_NEEDED,
        "",
        {"workloads": [a_workload("big", ["hot"], cpu="3"), a_workload("web", ["hot"], cpu="900m")]},
    ),
    (
        Reason.CANNOT_COOL,
        "",
        {
            "workloads": [
                a_workload("agent", ["hot"], kind="DaemonSet", cpu="3500m"),
                a_workload("web", ["hot"], cpu="400m"),
            ],
            "policy": a_policy(planning={"partialRelief": False}),
        },
    ),
    (
        Reason.LITTLE_RELIEF,
        "",
        {
            "workloads": [
                a_workload("big", ["hot"], cpu="3800m", spec=ON_HOT),
                a_workload("web", ["hot"], cpu="10m"),
            ],
        },
    ),
    (
        Reason.NO_RELIEF,
        "",
        {
            "workloads": [
                a_workload("big", ["hot"], cpu="3800m", spec=ON_HOT),
                a_workload("web", ["hot"], cpu="100m"),
            ],
            "pod_load": {"web-0": 0.0},
        },
    ),
    (Reason.CONFIDENCE, "", sampled()),
]
