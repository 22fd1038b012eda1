"""Protections by a pod's workload, volumes, labels and the time: tables as in test_protections."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from rebalancer.planning.reasons import Reason
from rebalancer.state import RunState
from tests.unit.planning.builders import NOW, Workload, a_past_move, a_policy, at, because, kept, moved
from tests.unit.planning.eviction.test_protections import (
    CLAIM,
    DISK,
    EVERY,
    EVICT,
    Case,
    case,
    plan_for,
    table,
    the_pod,
    volume,
)


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
    hard = {"requests.cpu": "8", "limits.cpu": "8", "pods": "10", "services": "1"}
    item = {
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": {"requests.cpu": "1", "services": "1", **used}},
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


def a_job(failed: int = 0, rules: list[Mapping[str, Any]] | None = None, **spec: Any) -> Case:
    workload = the_pod(kind="Job")
    workload.item["spec"].update(spec, **({"podFailurePolicy": {"rules": rules}} if rules else {}))
    workload.item["status"]["failed"] = failed
    return case(workload, policy=a_policy(evictable={"jobs": True}))


def stateful(revision: str, **status: Any) -> Case:
    workload = with_status("StatefulSet", **status)
    workload.pods[0]["metadata"]["labels"]["controller-revision-hash"] = revision
    return case(workload)


def within(begins: str, ends: str, **more: Any) -> Case:
    """NOW is a Monday, noon in UTC."""
    return case(policy=a_policy(evictable={"windows": [{"from": begins, "to": ends, **more}]}))


DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
ON_EXIT = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}
selecting = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
PROTECTED_BY_POLICY: list[tuple[Reason, str, Case]] = [
    (Reason.MIN_REPLICAS, "", case(policy=a_policy(evictable={"minReplicas": 3}))),
    (Reason.LABELS, "", case(policy=a_policy(evictable={"podSelector": selecting}))),
    (Reason.STORAGE_CLASS, "", claiming("ReadWriteMany", protectStorageClasses=["local-path"])),
    (Reason.READ_WRITE_ONCE, "", claiming("ReadWriteOnce")),
    (Reason.ROLLOUT, "the spec is newer", of_deployment(generation=2)),
    (Reason.ROLLOUT, "some are not updated", of_deployment(updatedReplicas=1)),
    (Reason.ROLLOUT, "old ones are left", of_deployment(replicas=3)),
    (Reason.UNREADY_REPLICAS, "", case(with_status(readyReplicas=1))),
    (
        Reason.GRACE_PERIOD,
        "",
        case(the_pod(spec={"terminationGracePeriodSeconds": 300})),
    ),
    (Reason.JOB, "failed too often", a_job(failed=6)),
    (Reason.JOB, "its own limit", a_job(failed=1, backoffLimit=1)),
    (Reason.JOB, "another rule comes first", a_job(failed=6, rules=[ON_EXIT, DISRUPTION])),
    (Reason.JOB, "counts it", a_job(failed=6, rules=[{**DISRUPTION, "action": "Count"}])),
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
    (Reason.UNPREDICTABLE, "its priority class was made anew", of_priority_class(("important", 10))),
    (Reason.WINDOW, "later", within("13:00", "14:00")),
    (Reason.WINDOW, "another day", within("00:00", "00:00", days=["Tue"])),
    (Reason.WINDOW, "past midnight", within("22:00", "06:00")),
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
ROWS = [*PROTECTED_BY_POLICY, *PROTECTED_NOW]
NOT_PROTECTED: list[tuple[str, Case]] = [
    ("enough replicas", case(policy=a_policy(evictable={"minReplicas": 2}))),
    ("selected", case(policy=a_policy(evictable={"podSelector": {"matchLabels": {"app": "web"}}}))),
    ("another storage class", claiming("ReadWriteMany", protectStorageClasses=["fast"])),
    ("its replacement waits for it", claiming("ReadWriteOnce", "StatefulSet")),
    ("rolled out", of_deployment()),
    ("no Deployment above it", case(unread=["deployments"])),
    ("of a priority class", of_priority_class(("important", 1000))),
    ("of no priority class", case(unread=["priorityclasses"])),
    ("ready", case(with_status(readyReplicas=2))),
    ("ends in time", case(the_pod(spec={"terminationGracePeriodSeconds": 299}))),
    ("a Job that has failures left", a_job(failed=5)),
    ("a Job that ignores disruptions", a_job(failed=6, rules=[DISRUPTION])),
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
    ("all of today", within("00:00", "00:00", days=["Mon"])),
    ("landed badly long ago", case(state=RunState(moves=(a_past_move(evicted_at=0.0, result="Pending"),)))),
]


@table(ROWS)
def test_a_protected_pod_gets_its_code(reason: Reason, told: Case) -> None:
    assert kept(plan_for(told))["web-0"] == reason


@table(ROWS)
def test_a_protected_pod_gets_a_sentence_of_its_own(reason: Reason, told: Case) -> None:
    assert len(because(plan_for(told), "web-0").split()) >= 4


@table(PROTECTED_BY_POLICY)
def test_an_annotation_lifts_what_the_policy_protects(reason: Reason, told: Case) -> None:
    assert moved(plan_for(told, **{EVICT: "true"})) == {"web-0": "cool"}


@table([row for row in PROTECTED_NOW if row[0] is not Reason.ROLLOUT])
def test_an_annotation_lifts_nothing_else(reason: Reason, told: Case) -> None:
    assert kept(plan_for(told, **{EVICT: "true"}))["web-0"] == reason


@pytest.mark.parametrize("told", [pytest.param(told, id=name) for name, told in NOT_PROTECTED])
def test_a_pod_that_nothing_protects_moves(told: Case) -> None:
    assert moved(plan_for(told)) == {"web-0": "cool"}


def test_every_reason_has_a_row_in_a_table() -> None:
    assert set(Reason) == {reason for reason, _, _ in (*EVERY, *ROWS)}
