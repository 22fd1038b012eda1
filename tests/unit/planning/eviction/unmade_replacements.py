"""Pods of which no replacement comes, or another one than they are, as tables: Jobs, endings, admission."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from rebalancer.planning.reasons import Reason
from tests.unit.planning.builders import Workload, a_policy, a_workload, at
from tests.unit.planning.eviction.protected_pods import Case, case, the_pod

Item = Mapping[str, Any]


def job(
    spec: Item | None = None,
    status: Item | None = None,
    annotations: Mapping[str, str] | None = None,
    timeout: str = "5m",
) -> Case:
    """A pod of a Job of two."""
    workload = the_pod(kind="Job", annotations=annotations)
    workload.item["spec"].update(spec or {})
    workload.item["status"].update(status or {})
    policy = a_policy(evictable={"jobs": True}, execution={"waveTimeout": timeout})
    return case(workload, policy=policy)


def rules(*given: Item, failed: int = 0, timeout: str = "5m", **spec: Any) -> Case:
    policy: dict[str, Any] = {"podFailurePolicy": {"rules": list(given)}}
    return job({**policy, **spec}, {"failed": failed}, timeout=timeout)


def on_disruption(action: str, status: str = "True") -> Item:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": status}]}


def on_exit(action: str, operator: str = "In", values: Sequence[int] = (42,), container: str = "") -> Item:
    codes = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": codes | ({"containerName": container} if container else {})}


def on_condition(kind: str, status: str = "True") -> Item:
    return {"action": "FailJob", "onPodConditions": [{"type": kind, "status": status}]}


def with_condition(kind: str) -> Case:
    """A pod that somebody gave this condition, of a Job that fails by one named Config."""
    given = rules(on_condition("Config"))
    given["workloads"][0].pods[0]["status"]["conditions"].append({"type": kind, "status": "True"})
    return given


def indexed(per_index: int, failures: str | None, **spec: Any) -> Case:
    annotations = {"batch.kubernetes.io/job-completion-index": "0"}
    if failures is not None:
        annotations["batch.kubernetes.io/job-index-failure-count"] = failures
    wanted: dict[str, Any] = {"completionMode": "Indexed", "completions": 2, "backoffLimit": 2**31 - 1}
    return job({**wanted, "backoffLimitPerIndex": per_index, **spec}, annotations=annotations)


def condition(kind: str, status: str = "True") -> Item:
    return {"conditions": [{"type": kind, "status": status}]}


def deleted(kind: str = "ReplicaSet") -> Case:
    workload = the_pod(kind=kind)
    workload.item["metadata"] |= {"deletionTimestamp": at(-60), "finalizers": ["foregroundDeletion"]}
    return case(workload, policy=a_policy(evictable={"jobs": True}))


def owned_by_deployment(record: Item | None) -> Case:
    workload = the_pod()
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "top", "controller": True}
    workload.item["metadata"]["ownerReferences"] = [owner]
    status = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "observedGeneration": 1}
    metadata = {"name": "web", "namespace": "default", "uid": "top", "generation": 1, **(record or {})}
    top = {"metadata": metadata, "spec": {"replicas": 2}, "status": status}
    return case(workload, deployments=[] if record is None else [top])


def scaled_to(replicas: int, kind: str = "ReplicaSet") -> Case:
    workload = a_workload("web", ["hot", "cool"], cpu="1900m", kind=kind, replicas=replicas)
    workload.item["status"] |= {"replicas": 2, "readyReplicas": 2}
    return case(workload, load={"hot": 95.0})


def beyond_ordinals() -> Case:
    """A pod before the first that its StatefulSet wants."""
    workload = the_pod(kind="StatefulSet")
    workload.item["spec"]["ordinals"] = {"start": 1}
    return case(workload)


def beside_one_that_ends(limit: int = 9) -> Case:
    """A pod of a Job with four failures, and one being deleted that will be the fifth."""
    given = job({"backoffLimit": limit}, {"failed": 4})
    ending = copy.deepcopy(given["workloads"][0].pods[0])
    ending["metadata"] |= {"name": "web-1", "uid": "ending", "deletionTimestamp": at(-5)}
    given["workloads"][0].pods.append(ending)
    return given


def in_namespace(**item: Any) -> Case:
    return case(namespaces=[{"metadata": {"name": "default", **item.pop("metadata", {})}, **item}])


def limited(kind: str = "Container", *, workload: Workload | None = None, **limits: Any) -> Case:
    spec = {"limits": [{"type": kind, **limits}]}
    return case(
        workload, limitranges=[{"metadata": {"name": "bounds", "namespace": "default"}, "spec": spec}]
    )


def with_resources(resources: Item, template: Item | None = None, **pod: Any) -> Workload:
    """The pod with these resources; its template asks for something else, if given."""
    workload = the_pod(**pod)
    for spec in (workload.pods[0]["spec"], workload.item["spec"]["template"]["spec"]):
        spec["containers"][0]["resources"] = dict(resources)
    if template is not None:
        workload.item["spec"]["template"]["spec"]["containers"][0]["resources"] = dict(template)
    return workload


def in_quota(
    hard: Mapping[str, str],
    used: Mapping[str, str] | None,
    workload: Workload | None = None,
    status_hard: Mapping[str, str] | None = None,
    **spec: Any,
) -> Case:
    status = {} if used is None else {"hard": dict(status_hard or hard), "used": dict(used)}
    quota = {"metadata": {"name": "small", "namespace": "default"}, "spec": {"hard": dict(hard), **spec}}
    return case(workload, resourcequotas=[{**quota, "status": status}])


def scoped(*scopes: str, workload: Workload | None = None) -> Case:
    """A quota that admits no pod of these scopes."""
    return in_quota({"pods": "0"}, {"pods": "0"}, workload, scopes=list(scopes))


def of_classes(operator: str, *values: str, workload: Workload | None = None) -> Case:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return in_quota({"pods": "0"}, {"pods": "0"}, workload, scopeSelector={"matchExpressions": [expression]})


SIDECAR = [{"name": "proxy", "image": "p", "restartPolicy": "Always", "resources": {"limits": {"cpu": "2"}}}]
CROSS = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "namespaces": ["x"]}}
        ]
    }
}
ONE_CORE = {"requests": {"cpu": "3900m", "memory": "1Mi"}, "limits": {"cpu": "4", "memory": "1Mi"}}
FROM_LIMIT_RANGER = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container main"}
EPHEMERAL = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}

JOBS_THAT_WOULD_FAIL: list[tuple[Reason, str, Case]] = [
    (Reason.JOB_WOULD_FAIL, name, given)
    for name, given in (
        ("FailJob", rules(on_disruption("FailJob"))),
        ("FailIndex", rules(on_disruption("FailIndex"))),
        (
            "FailJob after Ignore of another status",
            rules(on_disruption("Ignore", "False"), on_disruption("FailJob")),
        ),
        ("FailJob on a code before Ignore", rules(on_exit("FailJob"), on_disruption("Ignore"))),
        ("FailJob on all codes but one", rules(on_exit("FailJob", "NotIn", [0, 1]))),
        ("FailJob on a code of its container", rules(on_exit("FailJob", container="main"))),
        ("FailJob on a condition of all that end", rules(on_condition("Ready", "False"))),
        ("FailJob on a condition that it has", with_condition("Config")),
        ("a code may count before Ignore", rules(on_exit("Count"), on_disruption("Ignore"), backoffLimit=0)),
        ("Ignore comes after Count", rules(on_disruption("Count"), on_disruption("Ignore"), backoffLimit=0)),
        ("no failure per index left", indexed(0, None)),
        ("the index has failed", indexed(2, "2")),
        ("the index cannot be read", indexed(2, "two")),
        (
            "failures not counted yet",
            job({"backoffLimit": 1}, {"uncountedTerminatedPods": {"failed": ["u1"]}}),
        ),
        ("one that ends takes the last failure", beside_one_that_ends(5)),
    )
]
NOT_REPLACED: list[tuple[Reason, str, Case]] = [
    (Reason.NO_REPLACEMENT, name, given)
    for name, given in (
        ("suspended", job({"suspend": True})),
        ("complete", job(status=condition("Complete"))),
        ("failing", job(status=condition("FailureTarget"))),
        ("succeeding", job(status=condition("SuccessCriteriaMet"))),
        ("all but the others have completed", job({"completions": 4}, {"succeeded": 4})),
        (
            "the last have completed and are not counted yet",
            job({"completions": 4}, {"succeeded": 2, "uncountedTerminatedPods": {"succeeded": ["u1", "u2"]}}),
        ),
        ("one of a work queue has succeeded", job(status={"succeeded": 1})),
        ("Job being deleted", deleted("Job")),
        ("ReplicaSet being deleted", deleted()),
        ("StatefulSet being deleted", deleted("StatefulSet")),
        ("ReplicationController being deleted", deleted("ReplicationController")),
        ("Deployment being deleted", owned_by_deployment({"deletionTimestamp": at(-60)})),
        ("Deployment gone", owned_by_deployment(None)),
        ("namespace being deleted", in_namespace(metadata={"deletionTimestamp": at(-60)})),
        ("namespace terminating", in_namespace(status={"phase": "Terminating"})),
        *((f"{kind} scaled down", scaled_to(1, kind)) for kind in ("ReplicaSet", "ReplicationController")),
        ("StatefulSet scaled down", scaled_to(1, "StatefulSet")),
        ("not among those of its StatefulSet", beyond_ordinals()),
        ("beyond the LimitRange's max", limited(max={"cpu": "2"}, workload=with_resources(ONE_CORE))),
        ("below the LimitRange's min", limited(min={"memory": "1Gi"}, workload=with_resources(ONE_CORE))),
        ("beyond its ratio", limited(maxLimitRequestRatio={"cpu": "1"}, workload=with_resources(ONE_CORE))),
        ("without a limit for the ratio", limited(maxLimitRequestRatio={"cpu": "2"})),
        ("beyond the max of pods", limited("Pod", max={"cpu": "3"}, workload=with_resources(ONE_CORE))),
        (
            "beyond the max of pods with its sidecar",
            limited(
                "Pod",
                max={"cpu": "5"},
                workload=with_resources(ONE_CORE, spec={"initContainers": SIDECAR}),
            ),
        ),
    )
]
ADMITTED_OTHERWISE: list[tuple[Reason, str, Case]] = [
    (Reason.NO_CONTROLLER, "managed by another", job({"managedBy": "kueue.x-k8s.io/multikueue"})),
    (Reason.GRACE_PERIOD, "its Job backs off for one that ends", beside_one_that_ends()),
    (Reason.GRACE_PERIOD, "its Job backs off", job({"backoffLimit": 9}, {"failed": 5})),
    (
        Reason.GRACE_PERIOD,
        "its Job backs off after it",
        rules(on_disruption("Ignore"), failed=4, timeout="190s", backoffLimit=9),
    ),
    (Reason.UNPREDICTABLE, "a new default request", limited(defaultRequest={"ephemeral-storage": "1Gi"})),
    (Reason.UNPREDICTABLE, "a new default limit", limited(default={"memory": "1Gi"})),
    (Reason.UNPREDICTABLE, "max as a default", limited(max={"memory": "1Gi"})),
    (
        Reason.UNPREDICTABLE,
        "another default",
        limited(
            defaultRequest={"cpu": "9"},
            workload=with_resources({"requests": {"cpu": "3900m"}}, {}, annotations=FROM_LIMIT_RANGER),
        ),
    ),
    (
        Reason.UNPREDICTABLE,
        "a default that is no more",
        case(
            a_workload(
                "web",
                ["hot", "far"],
                cpu="3900m",
                template={"containers": [{"name": "main", "image": "app:v1"}]},
                annotations=FROM_LIMIT_RANGER,
            ),
            policy=a_policy(),
        ),
    ),
    (
        Reason.UNPREDICTABLE,
        "two defaults",
        case(
            limitranges=[
                {
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": name}}]},
                }
                for name in ("1", "2")
            ]
        ),
    ),
    (
        Reason.UNPREDICTABLE,
        "a limit of ephemeral claims",
        limited("PersistentVolumeClaim", max={"storage": "1Gi"}, workload=the_pod(spec=EPHEMERAL)),
    ),
    (Reason.UNPREDICTABLE, "limit ranges not read", case(unread=["limitranges"])),
    (Reason.UNPREDICTABLE, "namespaces not read", case(unread=["namespaces"])),
    (Reason.UNPREDICTABLE, "defaults of priority not read", case(unread=["priorityclasses"])),
    *(
        (Reason.QUOTA, name, given)
        for name, given in (
            (
                "limits with a sidecar",
                in_quota(
                    {"limits.cpu": "17"},
                    {"limits.cpu": "12"},
                    with_resources(ONE_CORE, spec={"initContainers": SIDECAR}),
                ),
            ),
            ("no limit where it must have one", in_quota({"limits.cpu": "99"}, {"limits.cpu": "1"})),
            ("no figure yet", in_quota({"pods": "10"}, None)),
            (
                "no figure of its newest bound",
                in_quota({"pods": "10", "cpu": "50"}, {"pods": "1"}, status_hard={"pods": "10"}),
            ),
            (
                "a lower bound than its status has",
                in_quota({"pods": "2"}, {"pods": "2"}, status_hard={"pods": "9"}),
            ),
            (
                "lowered below what there is",
                in_quota({"pods": "5"}, {"pods": "8"}, the_pod(kind="StatefulSet")),
            ),
            ("NotTerminating", scoped("NotTerminating")),
            ("Terminating", scoped("Terminating", workload=the_pod(spec={"activeDeadlineSeconds": 99999}))),
            ("NotBestEffort", scoped("NotBestEffort", "NotTerminating")),
            ("of a scope that is not known", scoped("Sunny")),
            ("of no PriorityClass", of_classes("DoesNotExist")),
            ("of another PriorityClass", of_classes("NotIn", "high")),
            (
                "CrossNamespacePodAffinity",
                scoped("CrossNamespacePodAffinity", workload=the_pod(spec={"affinity": CROSS})),
            ),
            (
                "claims of ephemeral volumes",
                in_quota(
                    {"persistentvolumeclaims": "9"}, {"persistentvolumeclaims": "1"}, the_pod(spec=EPHEMERAL)
                ),
            ),
        )
    ),
]
REPLACED: list[tuple[str, Case]] = [
    ("a Job that ignores it", rules(on_disruption("Ignore"), on_exit("FailJob"))),
    ("a Job that fails by a code of another container", rules(on_exit("FailJob", container="other"))),
    ("a Job that fails by no code", rules(on_exit("FailJob", values=()))),
    ("a Job that fails on a condition that it has not", with_condition("Other")),
    ("a Job that fails after all else", rules(on_disruption("Count"), on_exit("FailJob"))),
    ("a Job with failures left of its index", indexed(2, "1")),
    ("a Job that is not over", job(status=condition("Complete", "False"))),
    ("a Job with completions left", job({"completions": 4}, {"succeeded": 2})),
    ("a Job that Kubernetes manages", job({"managedBy": "kubernetes.io/job-controller"})),
    ("a Job within its deadline", job({"activeDeadlineSeconds": 9999}, {"startTime": at(-60)})),
    ("a Job that soon replaces it", job({"backoffLimit": 9}, {"failed": 4})),
    ("a Deployment that stays", owned_by_deployment({})),
    ("a namespace that stays", in_namespace(status={"phase": "Active"})),
    ("within a LimitRange", limited(max={"cpu": "4"}, workload=with_resources(ONE_CORE))),
    ("of a dump without LimitRanges", case(unread=["limitranges"], left_out=["limitranges"])),
    ("of a dump without namespaces", case(unread=["namespaces"], left_out=["namespaces"])),
    ("of a dump without PriorityClasses", case(unread=["priorityclasses"], left_out=["priorityclasses"])),
    (
        "a default that there is",
        limited(
            defaultRequest={"cpu": "3900m"},
            workload=with_resources({"requests": {"cpu": "3900m"}}, {}, annotations=FROM_LIMIT_RANGER),
        ),
    ),
    ("a quota of best-effort pods", scoped("BestEffort")),
    ("a quota of pods that end", scoped("Terminating")),
    ("a quota of claims", scoped("VolumeAttributesClass")),
    ("a quota of affine pods", scoped("CrossNamespacePodAffinity")),
    ("a quota of PriorityClasses", of_classes("Exists")),
    ("a quota of one PriorityClass", of_classes("In", "high")),
    ("a quota of several scopes", scoped("NotTerminating", "BestEffort")),
]
