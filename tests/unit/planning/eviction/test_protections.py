"""Each way a pod may be protected, as a table: a pod of a hot node, and the code it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rebalancer.planning.reasons import Reason
from rebalancer.policy import RebalancePolicy
from rebalancer.state import RunState
from tests.builders import a_budget, a_node, a_pod
from tests.unit.planning.builders import (
    Workload,
    a_past_move,
    a_policy,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)
from tests.unit.planning.landing.test_sampled_clusters import alike

EVICT = "descheduler.alpha.kubernetes.io/evict"
IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
ON_HOT: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "hot"}}
CLAIM = {
    "metadata": {
        "name": "data",
        "namespace": "default",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "disk", "accessModes": ["ReadWriteMany"]},
    "status": {"phase": "Bound"},
}
DISK = {"metadata": {"name": "disk"}, "spec": {"claimRef": {"namespace": "default", "name": "data"}}}
AN_UNSURE_MOVE = a_past_move(
    from_node="hot", workload="Job/other", controller_uid="other", result="Unknown", load={}
)
Case = Mapping[str, Any]


def the_pod(**changes: Any) -> Workload:
    """A pod of a workload of two, whose leaving would be enough."""
    return a_workload("web", ["hot"], **{"cpu": "3900m", "replicas": 2, **changes})


# As those who remove nodes write them.
LEAVING = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.cloudprovider.kubernetes.io/shutdown",
    "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination",
    "node.kubernetes.io/out-of-service",
)


def a_taint(key: str, effect: str = "PreferNoSchedule") -> dict[str, str]:
    return {"key": key, "value": "", "effect": effect}


def a_node_being_deleted(name: str) -> dict[str, Any]:
    node = a_node(name)
    node["metadata"]["deletionTimestamp"] = at(-5)
    return node


def case(workload: Workload | None = None, **inputs: Any) -> Case:
    return {"workloads": [workload or the_pod()], **inputs}


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
            a_workload("other", ["hotter"], cpu="3950m", spec=in_pool),
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
    workload.pods[0]["metadata"]["deletionTimestamp"] = at(-5)
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


@pytest.mark.parametrize("told", [pytest.param(told, id=name) for name, told in NOT_BEING_EVICTED])
def test_an_eviction_that_is_over_or_meant_for_another_protects_nothing(told: Case) -> None:
    assert moved(plan_for(told)) == {"web-0": "cool"}


def test_who_asks_for_the_eviction_is_named() -> None:
    told = asked_for(intent="Eviction", requester="example.com/drain")
    assert because(plan_for(told), "web-0") == (
        "is being evicted already: EvictionRequest drain asks for its eviction by example.com/drain"
    )


def protecting(kind: str) -> RebalancePolicy:
    return a_policy(evictable={"protect": [kind]})


def volume(**source: Any) -> Mapping[str, Any]:
    return {"volumes": [{"name": "data", **source}]}


def whose_controller_is_gone() -> Case:
    return case(Workload("replicasets", the_pod().item | {"metadata": {"uid": "other"}}, the_pod().pods))


ALWAYS: list[tuple[Reason, str, Case]] = [
    (Reason.STATIC_POD, "mirror", case(the_pod(annotations={"kubernetes.io/config.mirror": "x"}))),
    (Reason.STATIC_POD, "from a file", case(the_pod(annotations={"kubernetes.io/config.source": "file"}))),
    (Reason.STATIC_POD, "owned by its node", owned_by_other("Node")),
    (Reason.DAEMON_SET, "", case(the_pod(kind="DaemonSet"))),
    (Reason.TERMINATING, "", terminating()),
    (Reason.TERMINATING, "moved in the background", case(the_pod(annotations={IN_PROGRESS: "true"}))),
    *((Reason.TERMINATING, name, told) for name, told in BEING_EVICTED),
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
        (Reason.NODE_LEAVING, key, case(nodes=[a_node("hot", taints=[a_taint(key)]), a_node("cool", cpu=8)]))
        for key in LEAVING
    ),
    (Reason.NODE_LEAVING, "deleted", case(nodes=[a_node_being_deleted("hot"), a_node("cool", cpu=8)])),
    (Reason.SYSTEM_COMPONENT, "this program", case(own_pod="default/web-0")),
    (Reason.SYSTEM_COMPONENT, "a scheduler", case(system_workloads=["default/ReplicaSet/web"])),
]
BY_POLICY: list[tuple[Reason, str, Case]] = [
    (Reason.NAMESPACE, "", case(policy=a_policy(evictable={"namespaces": {"exclude": ["default"]}}))),
    (
        Reason.NAMESPACE,
        "not included",
        case(policy=a_policy(evictable={"namespaces": {"include": ["shop"], "exclude": []}})),
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
    (Reason.UNKNOWN_LOAD, "", case(pod_load={"web-0": float("nan")}, load={"hot": 95})),
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
    (Reason.SEARCH_ENDED, "", case(policy=a_policy(planning={"maxPlacements": 1}))),
    (Reason.CONFIDENCE, "", sampled()),
]
EVERY = [*ALWAYS, *BY_POLICY, *UNKNOWN_OR_NOT_NOW]


def table(rows: list[tuple[Reason, str, Case]]) -> Callable[..., Any]:
    return pytest.mark.parametrize(
        ("reason", "told"), [pytest.param(row[0], row[2], id=f"{row[0]}-{row[1]}") for row in rows]
    )


def plan_for(told: Case, **annotations: str) -> Any:
    values: dict[str, Any] = {"nodes": [a_node("hot"), a_node("cool", cpu=8)], **told}
    change = values.pop("change", None)
    nodes = values.pop("nodes")
    if change:
        change(values["workloads"][0])
    for workload in values["workloads"]:
        for pod in workload.pods:
            pod["metadata"]["annotations"] = {**pod["metadata"]["annotations"], **annotations}
    return plan_of(planning_inputs(nodes, values.pop("workloads"), **values))


def test_the_pod_of_the_table_moves_when_nothing_protects_it() -> None:
    assert moved(plan_for(case())) == {"web-0": "cool"}


@table(EVERY)
def test_a_protected_pod_gets_its_code(reason: Reason, told: Case) -> None:
    assert kept(plan_for(told))["web-0"] == reason


@table(EVERY)
def test_a_protected_pod_gets_a_sentence_of_its_own(reason: Reason, told: Case) -> None:
    assert len(because(plan_for(told), "web-0").split()) >= 2


@table(BY_POLICY)
def test_an_annotation_lifts_what_the_policy_protects(reason: Reason, told: Case) -> None:
    assert moved(plan_for(told, **{EVICT: "true"})) == {"web-0": "cool"}


@table([row for row in (*ALWAYS, *UNKNOWN_OR_NOT_NOW) if row[1] != "none"])
def test_an_annotation_lifts_nothing_else(reason: Reason, told: Case) -> None:
    assert kept(plan_for(told, **{EVICT: "true"}))["web-0"] == reason


def test_the_annotation_said_to_be_false_lifts_nothing() -> None:
    assert kept(plan_for(case(the_pod(kind="Job")), **{EVICT: "false"})) == {"web-0": "Job"}


def test_every_reason_says_what_it_means() -> None:
    assert all(len(reason.meaning) > 10 for reason in Reason)


@pytest.mark.parametrize(
    "annotations",
    [
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        {"karpenter.sh/do-not-disrupt": "false"},
        {"karpenter.sh/do-not-disrupt": "1h"},
    ],
    ids=str,
)
def test_an_annotation_that_does_not_ask_to_stay_protects_nothing(annotations: dict[str, str]) -> None:
    assert moved(plan_for(case(the_pod(annotations=annotations)))) == {"web-0": "cool"}


def test_a_cordoned_hot_node_is_cooled_as_any_other() -> None:
    told = case(nodes=[a_node("hot", unschedulable=True), a_node("cool", cpu=8)])
    assert moved(plan_for(told)) == {"web-0": "cool"}


def test_a_hot_node_under_memory_pressure_is_cooled_as_any_other() -> None:
    taint = a_taint("node.kubernetes.io/memory-pressure", "NoSchedule")
    told = case(nodes=[a_node("hot", taints=[taint]), a_node("cool", cpu=8)])
    assert moved(plan_for(told)) == {"web-0": "cool"}


@pytest.mark.parametrize("key", LEAVING)
def test_no_landing_counts_on_a_node_that_is_about_to_be_removed(key: str) -> None:
    told = case(nodes=[a_node("hot"), a_node("cool", cpu=8, taints=[a_taint(key)])])
    assert kept(plan_for(told)) == {"web-0": "NoBetterLanding"}
    assert f"is about to be removed ({key})" in because(plan_for(told), "web-0")


def test_jobs_may_be_moved_where_the_policy_says_so() -> None:
    assert moved(plan_for(case(the_pod(kind="Job"), policy=a_policy(evictable={"jobs": True}))))


def test_what_cannot_be_predicted_moves_where_the_policy_allows_it() -> None:
    told = case(
        the_pod(template={"nodeSelector": {"disk": "ssd"}}),
        policy=a_policy(scheduler={"allowUnpredictable": True}),
    )
    assert moved(plan_for(told)) == {"web-0": "cool"}


def test_a_cooldown_ends() -> None:
    past = a_past_move(from_node="x", to_node="y")
    told = case(state=RunState(moves=(past,)), policy=a_policy(planning={"cooldown": "9m"}))
    assert moved(plan_for(told)) == {"web-0": "cool"}


def test_pods_whose_verdict_needs_a_kind_that_was_not_read_stay_and_say_which() -> None:
    nodes = [a_node("a", cpu="4"), a_node("b", cpu="8")]
    own = {"maxSkew": 5, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    plan = plan_of(
        planning_inputs(
            nodes,
            [
                a_workload("spread", ["a", "a"], cpu="900m", spec={"topologySpreadConstraints": [own]}),
                a_workload("web", ["a", "a"], cpu="900m"),
            ],
            unread={"services"},
        )
    )
    assert kept(plan)["web-0"] == "Unpredictable"
    assert because(plan, "web-0") == "where it would land depends on what was not read: services"
    assert any(name.startswith("spread") for name in moved(plan))


def test_what_was_not_read_keeps_nobody_when_the_policy_allows_the_unpredictable() -> None:
    inputs = planning_inputs(
        [a_node("a", cpu="4"), a_node("b", cpu="8")],
        [a_workload("web", ["a", "a", "a", "a"], cpu="900m")],
        unread={"services"},
        policy=a_policy(scheduler={"allowUnpredictable": True}),
    )
    assert moved(plan_of(inputs))
