"""What protects a pod, as a table: its workload, volumes, labels, autoscalers, quotas and the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rebalancer.planning.reasons import Reason
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.unit.planning.builders import NOW, Workload, a_past_move, a_policy, a_workload, at
from tests.unit.planning.eviction.protected_pods import CLAIM, DISK, Case, case, the_pod, volume


def with_status(kind: str = "ReplicaSet", **status: Any) -> Workload:
    workload = the_pod(kind=kind)
    workload.item["status"].update(status)
    return workload


def of_deployment(generation: int = 1, unread: Collection[str] = (), **status: Any) -> Case:
    """A pod of a ReplicaSet of a Deployment of two."""
    workload = the_pod()
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "top", "controller": True}
    workload.item["metadata"]["ownerReferences"] = [owner]
    healthy = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "observedGeneration": 1}
    top = {
        "metadata": {"name": "web", "namespace": "default", "uid": "top", "generation": generation},
        "spec": {"replicas": 2},
        "status": {**healthy, **status},
    }
    return case(workload, deployments=[top], unread=unread)


def of_priority_class(*classes: tuple[str, int], unread: Collection[str] = ()) -> Case:
    """A pod of priority 1000, of PriorityClass important."""
    workload = the_pod(spec={"priorityClassName": "important"}, priority=1000)
    made = [{"metadata": {"name": name}, "value": value} for name, value in classes]
    return case(workload, priorityclasses=made, unread=unread)


def of_default_class(value: int, *, given: str = "", priority: int = 0) -> Case:
    """A pod made when no PriorityClass was the default, or when this one was ``given`` to it."""
    workload = the_pod(template={}, priorityClassName=given, priority=priority)
    return case(
        workload,
        priorityclasses=[
            {"metadata": {"name": "standard"}, "value": value, "globalDefault": True},
            {"metadata": {"name": "second"}, "value": value + 1, "globalDefault": True},
        ],
    )


def scaled(target: str = "ReplicaSet", **status: Any) -> Case:
    item = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": target, "name": "web"}},
        "status": {"currentReplicas": 2, "desiredReplicas": 2, **status},
    }
    return case(horizontalpodautoscalers=[item])


def vertical(mode: str | None) -> Case:
    item: dict[str, Any] = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"targetRef": {"kind": "ReplicaSet", "name": "web"}},
    }
    if mode is not None:
        item["spec"]["updatePolicy"] = {"updateMode": mode}
    return case(verticalpodautoscalers=[item])


def in_quota(used: Mapping[str, str], workload: Workload | None = None) -> Case:
    hard = {"requests.cpu": "8", "pods": "10", "services": "1"}
    item = {
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": {"requests.cpu": "1", "pods": "1", "services": "1", **used}},
    }
    return case(workload, resourcequotas=[item])


def claiming(mode: str, kind: str = "ReplicaSet", **policy: Any) -> Case:
    spec = {"volumeName": "disk", "accessModes": [mode], "storageClassName": "local-path"}
    claim = {**CLAIM, "spec": spec}
    return case(
        the_pod(kind=kind, spec=volume(persistentVolumeClaim={"claimName": "data"})),
        persistentvolumeclaims=[claim],
        persistentvolumes=[DISK],
        policy=a_policy(evictable={"protect": [], **policy}),
    )


def a_job(
    failed: int = 0,
    rules: list[Mapping[str, Any]] | None = None,
    started: float = 0.0,
    before: Sequence[float | None] = (),
    **spec: Any,
) -> Case:
    """A Job that started so many seconds ago; those of its CronJob ``before`` it took so long."""
    workload = the_pod(kind="Job")
    workload.item["spec"].update(spec, **({"podFailurePolicy": {"rules": rules}} if rules else {}))
    workload.item["status"] |= {"failed": failed, "startTime": at(-started)}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "web", "uid": "cron", "controller": True}
    workload.item["metadata"]["ownerReferences"] = [cron]
    jobs = [
        {
            "metadata": {
                "name": f"web-{n}",
                "namespace": "default",
                "uid": f"job-{n}",
                "ownerReferences": [cron],
            },
            "status": {"startTime": at(-90_000)}
            | ({} if taken is None else {"completionTime": at(taken - 90_000)}),
        }
        for n, taken in enumerate(before)
    ]
    policy = a_policy(evictable={"jobs": True})
    cronjobs = [{"metadata": {"name": "web", "namespace": "default", "uid": "cron"}, "spec": {}}]
    return case(workload, jobs=jobs, cronjobs=cronjobs, policy=policy)


def stateful(revision: str, **status: Any) -> Case:
    workload = with_status("StatefulSet", **status)
    workload.pods[0]["metadata"]["labels"]["controller-revision-hash"] = revision
    return case(workload)


CLONE_SETS = {"controllers": [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}]}


def autoscaler_of(kind: str, desired: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": {"kind": kind, "name": "web"}},
        "status": {"currentReplicas": 2, "desiredReplicas": desired},
    }


def of_another_kind(
    *,
    version: str = "apps.kruise.io/v1alpha1",
    ready: bool = True,
    like: bool = True,
    desired: int | None = None,
    policy: Mapping[str, Any] = CLONE_SETS,
    **changes: Any,
) -> Case:
    """A pod of a CloneSet with another one beside it, which the policy allows to move."""
    workload = a_workload("web", ["hot", "aside"], cpu="3900m", **changes)
    for pod in workload.pods:
        owner = {
            "apiVersion": version,
            "kind": "CloneSet",
            "name": "web",
            "uid": "clones",
            "controller": True,
        }
        pod["metadata"]["ownerReferences"] = [owner]
    workload.pods[1]["status"]["conditions"][0]["status"] = str(ready)
    if not like:
        workload.pods[1]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "aside"}
    given = case(
        workload, nodes=[a_node("hot"), a_node("cool", cpu=8), a_node("aside", cpu=40, unschedulable=True)]
    )
    return {
        **given,
        "replicasets": [],
        "policy": a_policy(evictable={"minReplicas": 2, **policy}),
        "horizontalpodautoscalers": [] if desired is None else [autoscaler_of("CloneSet", desired)],
    }


def of_rollout(canary: int = 0, desired: int | None = None) -> Case:
    """A pod of a ReplicaSet of a Rollout of two, beside a second ReplicaSet of its own."""
    workload = the_pod()
    owner = {
        "apiVersion": "argoproj.io/v1",
        "kind": "Rollout",
        "name": "web",
        "uid": "top",
        "controller": True,
    }
    workload.item["metadata"]["ownerReferences"] = [owner]
    second = {
        "metadata": {"name": "web-2", "namespace": "default", "uid": "second", "ownerReferences": [owner]},
        "spec": {"replicas": canary},
        "status": {"replicas": canary, "readyReplicas": canary},
    }
    scalers = [] if desired is None else [autoscaler_of("Rollout", desired)]
    return case(workload, replicasets=[second], horizontalpodautoscalers=scalers)


def within(begins: str, ends: str, **more: Any) -> Case:
    """NOW is a Monday, noon in UTC."""
    return case(policy=a_policy(evictable={"windows": [{"from": begins, "to": ends, **more}]}))


ON_HOT = {"matchLabels": {"kubernetes.io/hostname": "hot"}}
DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
ON_EXIT = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}
selecting = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
PROTECTED_BY_POLICY: list[tuple[Reason, str, Case]] = [
    (Reason.MIN_REPLICAS, "", case(policy=a_policy(evictable={"minReplicas": 3}))),
    (Reason.LABELS, "", case(policy=a_policy(evictable={"podSelector": selecting}))),
    (Reason.ENDS_SOON, "at its deadline", a_job(started=2400, activeDeadlineSeconds=3600)),
    (Reason.ENDS_SOON, "as those before it", a_job(started=3000, before=[3500, 3600, 9000])),
    (Reason.ENDS_SOON, "a little late", a_job(started=5000, before=[3600])),
    (Reason.STORAGE_CLASS, "", claiming("ReadWriteMany", protectStorageClasses=["local-path"])),
]
FACTS_OF_THE_WORKLOAD: list[tuple[Reason, str, Case]] = [
    (Reason.READ_WRITE_ONCE, "", claiming("ReadWriteOnce")),
    (Reason.ROLLOUT, "pods of two ReplicaSets", of_rollout(canary=1)),
    (Reason.ROLLOUT, "the spec is newer", of_deployment(generation=2)),
    (Reason.ROLLOUT, "some are not updated", of_deployment(updatedReplicas=1)),
    (Reason.ROLLOUT, "old ones are left", of_deployment(replicas=3)),
    (Reason.UNREADY_REPLICAS, "", case(with_status(readyReplicas=1))),
    (
        Reason.GRACE_PERIOD,
        "",
        case(the_pod(spec={"terminationGracePeriodSeconds": 300})),
    ),
    (Reason.UNREADY_REPLICAS, "counted", of_another_kind(ready=False)),
    (Reason.JOB_WOULD_FAIL, "failed too often", a_job(failed=6)),
    (Reason.JOB_WOULD_FAIL, "its own limit", a_job(failed=1, backoffLimit=1)),
    (Reason.JOB_WOULD_FAIL, "another rule comes first", a_job(failed=6, rules=[ON_EXIT, DISRUPTION])),
    (Reason.JOB_WOULD_FAIL, "counts it", a_job(failed=6, rules=[{**DISRUPTION, "action": "Count"}])),
]
PROTECTED_NOW: list[tuple[Reason, str, Case]] = [
    (Reason.ROLLOUT, "stateful", stateful("v2", currentRevision="v1", updateRevision="v2")),
    (Reason.OLDER_REVISION, "", stateful("v1", currentRevision="v2", updateRevision="v2")),
    (Reason.AUTOSCALING, "wants more", scaled(desiredReplicas=3)),
    (Reason.AUTOSCALING, "has just scaled", scaled(lastScaleTime=at(-299))),
    *((Reason.VERTICAL_AUTOSCALING, str(mode), vertical(mode)) for mode in ("Auto", "Initial", None)),
    (Reason.QUOTA, "cpu", in_quota({"requests.cpu": "5"})),
    (Reason.QUOTA, "pods", in_quota({"pods": "10"})),
    (Reason.UNPREDICTABLE, "autoscalers not read", case(unread=["horizontalpodautoscalers"])),
    (Reason.UNPREDICTABLE, "quotas not read", case(unread=["resourcequotas"])),
    (Reason.UNPREDICTABLE, "deployments not read", of_deployment(unread=["deployments"])),
    (Reason.UNPREDICTABLE, "priority classes not read", of_priority_class(unread=["priorityclasses"])),
    (Reason.UNPREDICTABLE, "its priority class is gone", of_priority_class(("other", 1000))),
    (Reason.UNPREDICTABLE, "a default priority class", of_default_class(1000)),
    (Reason.UNPREDICTABLE, "its default class is no more", of_default_class(1000, given="old", priority=5)),
    (Reason.UNPREDICTABLE, "its priority class was made anew", of_priority_class(("important", 10))),
    (Reason.UNPREDICTABLE, "nothing is like it", of_another_kind(like=False)),
    (Reason.AUTOSCALING, "an owner of another kind", of_another_kind(desired=3)),
    (Reason.AUTOSCALING, "a Rollout", of_rollout(desired=3)),
    (Reason.UNPREDICTABLE, "its own priority class", of_another_kind(spec={"priorityClassName": "gone"})),
    (Reason.WINDOW, "later", within("13:00", "14:00")),
    (Reason.WINDOW, "another day", within("00:00", "00:00", days=["Tue"])),
    (Reason.WINDOW, "past midnight", within("22:00", "06:00")),
    (Reason.WINDOW, "of its node", within("13:00", "14:00", nodeSelector=ON_HOT)),
    (Reason.WINDOW, "another time zone", within("11:00", "13:00", timeZone="Asia/Tokyo")),
    *(
        (
            Reason.LANDED_BADLY,
            result,
            case(state=RunState(moves=(a_past_move(evicted_at=NOW - 7200, result=result),))),
        )
        for result in ("Unexpected", "Pending", "NotReady", "NotReplaced")
    ),
]
NOT_PROTECTED: list[tuple[str, Case]] = [
    ("of a kind that the policy names", of_another_kind()),
    ("of a kind that the policy names in another version", of_another_kind(version="apps.kruise.io/v1")),
    ("of a Rollout at rest", of_rollout()),
    ("of a Rollout that an autoscaler leaves alone", of_rollout(desired=2)),
    ("enough replicas", case(policy=a_policy(evictable={"minReplicas": 2}))),
    ("selected", case(policy=a_policy(evictable={"podSelector": {"matchLabels": {"app": "web"}}}))),
    ("another storage class", claiming("ReadWriteMany", protectStorageClasses=["fast"])),
    ("its replacement waits for it", claiming("ReadWriteOnce", "StatefulSet")),
    ("rolled out", of_deployment()),
    ("no Deployment above it", case(unread=["deployments"])),
    ("of a priority class", of_priority_class(("important", 1000))),
    ("of no priority class", case(priorityclasses=[{"metadata": {"name": "other"}, "value": 5}])),
    ("of the default priority class", of_default_class(1000, given="standard", priority=1000)),
    ("ready", case(with_status(readyReplicas=2))),
    ("ends in time", case(the_pod(spec={"terminationGracePeriodSeconds": 299}))),
    ("a Job that has failures left", a_job(failed=4, backoffLimit=5)),
    ("a Job far from its deadline", a_job(started=1800, activeDeadlineSeconds=3600)),
    ("a Job whose like take long", a_job(started=1800, before=[3600])),
    ("a Job that takes longer than any before it", a_job(started=7300, before=[3600])),
    ("a Job whose like did not complete", a_job(started=3000, before=[None])),
    ("a Job that ignores disruptions", a_job(failed=4, backoffLimit=4, rules=[DISRUPTION])),
    ("of the current revision", stateful("v2", currentRevision="v2", updateRevision="v2")),
    ("at its size", scaled()),
    ("scaled long ago", scaled(lastScaleTime=at(-300))),
    ("another is scaled", scaled("StatefulSet", desiredReplicas=3)),
    ("only recommended", vertical("Off")),
    ("no vertical autoscaler is installed", case(unread=["verticalpodautoscalers"])),
    ("room in the quota", in_quota({"requests.cpu": "4"})),
    ("a stateful pod needs no second place", in_quota({"pods": "10"}, the_pod(kind="StatefulSet"))),
    ("in the window", within("12:00", "13:00")),
    ("in last night's window", within("22:00", "12:01", days=["Sun"])),
    ("in a window of its node", within("12:00", "13:00", nodeSelector=ON_HOT)),
    ("all of today", within("00:00", "00:00", days=["Mon"])),
    ("landed badly long ago", case(state=RunState(moves=(a_past_move(evicted_at=0.0, result="Pending"),)))),
]
