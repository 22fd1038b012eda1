"""Each field that the API has in the kinds that decide moves is read, or says here why it need not be.

A field that a new minor brings appears when ``make kubernetes-api`` renews the list, and asks for a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from rebalancer.cluster import kinds, records
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.records import Record
from tests.kubernetes_api.fields import fields_of
from tests.rows import rows
from tests.unit.cluster.wire.test_known_fields import api_fields, not_read, record_in, records_of_a_spec

PACKAGES: Mapping[Kind, str] = {
    kinds.PODS: "core/v1",
    kinds.NAMESPACES: "core/v1",
    kinds.RESOURCE_QUOTAS: "core/v1",
    kinds.LIMIT_RANGES: "core/v1",
    kinds.REPLICATION_CONTROLLERS: "core/v1",
    kinds.REPLICA_SETS: "apps/v1",
    kinds.DEPLOYMENTS: "apps/v1",
    kinds.STATEFUL_SETS: "apps/v1",
    kinds.DAEMON_SETS: "apps/v1",
    kinds.JOBS: "batch/v1",
    kinds.DISRUPTION_BUDGETS: "policy/v1",
    kinds.PRIORITY_CLASSES: "scheduling/v1",
    kinds.RUNTIME_CLASSES: "node/v1",
    kinds.DEVICE_CLASSES: "resource/v1",
}
# Walked by the tests of ``known_fields``, which gives their verdicts.
ELSEWHERE = frozenset({records.PodSpec, records.Toleration, records.ResourceRequirements, records.Present})

_WORDS = "words for people, or a figure that others which are read imply"
_HISTORY = "what its controller keeps of the past"
_NOT_MOVED = "pods of DaemonSets are never moved"
_NODE = "what its node did for the pod; the next pod starts anew"
_BOOKKEEPING = "bookkeeping of the API server and of deletion"
# By message, why a field is not read.
NOT_READ: Mapping[str, Mapping[str, str]] = {
    "pkg/apis/meta/v1.ObjectMeta": {
        **dict.fromkeys(("managedFields", "selfLink", "generateName"), _BOOKKEEPING),
        "finalizers": "what holds a deletion up; that it is being deleted is read",
    },
    "pkg/apis/meta/v1.OwnerReference": {"blockOwnerDeletion": _BOOKKEEPING},
    "core/v1.PodStatus": {
        **dict.fromkeys(("message", "observedGeneration", "qosClass", "volumeHealth"), _WORDS),
        **dict.fromkeys(("hostIP", "hostIPs", "podIP", "podIPs"), _NODE),
        "resize": "replaced by the conditions that are read, since 1.33",
        **dict.fromkeys(
            ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"),
            "pods with claims, and those that a DeviceClass serves, are not predicted",
        ),
    },
    "core/v1.PodCondition": dict.fromkeys(("lastProbeTime", "message", "observedGeneration"), _WORDS),
    "core/v1.ContainerStatus": dict.fromkeys(
        (
            *("allocatedResourcesStatus", "containerID", "image", "imageID", "started", "stopSignal"),
            *("user", "volumeMounts"),
        ),
        _NODE,
    ),
    "core/v1.ContainerState": {"running": "a container that neither waits nor has terminated runs"},
    "core/v1.ContainerStateWaiting": {"message": _WORDS},
    "core/v1.ContainerStateTerminated": dict.fromkeys(
        ("containerID", "finishedAt", "message", "signal", "startedAt"), _WORDS
    ),
    "policy/v1.PodDisruptionBudgetStatus": {"conditions": _WORDS},
    "apps/v1.ReplicaSetStatus": dict.fromkeys(("fullyLabeledReplicas", "terminatingReplicas"), _WORDS),
    "core/v1.ReplicationControllerStatus": dict.fromkeys(("fullyLabeledReplicas",), _WORDS),
    "apps/v1.StatefulSetSpec": {
        "persistentVolumeClaimRetentionPolicy": "of claims of a set that is deleted or scaled down",
        "podManagementPolicy": "in which order a set is scaled; an evicted pod comes back by itself",
        "revisionHistoryLimit": _HISTORY,
        "serviceName": "names of pods in DNS",
        "volumeClaimTemplates": "claims of a pod come back with it, and are read",
    },
    "apps/v1.RollingUpdateStatefulSetStrategy": {
        "maxUnavailable": "while a rollout is under way its pods stay"
    },
    "apps/v1.StatefulSetStatus": dict.fromkeys(("collisionCount", "currentReplicas"), _WORDS),
    "apps/v1.DeploymentSpec": {
        "progressDeadlineSeconds": "while a rollout is under way its pods stay",
        "revisionHistoryLimit": _HISTORY,
    },
    "apps/v1.DeploymentStatus": dict.fromkeys(
        ("collisionCount", "terminatingReplicas", "unavailableReplicas"), _WORDS
    ),
    "apps/v1.DaemonSetSpec": {"revisionHistoryLimit": _HISTORY},
    "apps/v1.RollingUpdateDaemonSet": dict.fromkeys(("maxSurge", "maxUnavailable"), _NOT_MOVED),
    "apps/v1.DaemonSetStatus": dict.fromkeys(
        (
            *("collisionCount", "currentNumberScheduled", "desiredNumberScheduled"),
            *("numberAvailable", "numberMisscheduled", "numberReady", "numberUnavailable"),
            "updatedNumberScheduled",
        ),
        _NOT_MOVED,
    ),
    "batch/v1.JobSpec": {
        "completionMode": "an index that is evicted is tried again, as often as its own limit says",
        "manualSelector": "which pods are its own, their owner says",
        "scheduling": "as the template's schedulingGroup, which is read",
        "successPolicy": "when a Job is done early",
        "ttlSecondsAfterFinished": "of a Job that is over",
        "maxFailedIndexes": "how many indexes may fail before the others end: a Job with one has failed",
    },
    "batch/v1.JobStatus": {
        **dict.fromkeys(("ready", "terminating"), _WORDS),
        "completedIndexes": "counted by ``succeeded``",
        "failedIndexes": "no eviction fails an index, so those that have failed keep their pods",
    },
    **{
        f"{kind}Condition": dict.fromkeys(
            (
                *("lastTransitionTime", "message", "reason"),
                *{"batch/v1.Job": ("lastProbeTime",), "apps/v1.Deployment": ("lastUpdateTime",)}.get(
                    kind, ()
                ),
            ),
            _WORDS,
        )
        for kind in (
            *("apps/v1.DaemonSet", "apps/v1.Deployment", "apps/v1.ReplicaSet", "apps/v1.StatefulSet"),
            *("batch/v1.Job", "core/v1.ReplicationController"),
        )
    },
    "core/v1.Namespace": {"spec": _BOOKKEEPING},
    "core/v1.NamespaceStatus": {"conditions": "how far its deletion is"},
    "scheduling/v1.PriorityClass": {"description": _WORDS},
    "node/v1.RuntimeClass": {"handler": "what the kubelet runs its containers with"},
    "resource/v1.DeviceClassSpec": dict.fromkeys(
        ("config", "selectors"), "which devices it is of: pods that it serves are not predicted"
    ),
}


def messages() -> Iterator[tuple[str, type[Record]]]:
    """Each message that the kinds are read from, with the record that it becomes."""
    ahead: list[tuple[str, type[Record]]] = [
        (f"{package}.{kind.name}", records.Pod if kind == kinds.PODS else kind.record)
        for kind, package in PACKAGES.items()
    ]
    seen: set[tuple[str, type[Record]]] = set()
    while ahead:
        message, record = pair = ahead.pop()
        if pair in seen:
            continue
        seen.add(pair)
        yield pair
        for field in msgspec.structs.fields(record):
            inner, there = record_in(field.type), fields_of(message).get(field.encode_name)
            if inner is not None and inner not in ELSEWHERE and there is not None:
                ahead.append((there.type, inner))


@rows("message, record", sorted(messages(), key=str))
def test_each_field_that_the_api_has_is_read_or_says_why_not(message: str, record: type[Record]) -> None:
    names, left = set(fields_of(message)), set(NOT_READ.get(message, {}))
    read = {field.encode_name for field in msgspec.structs.fields(record)}

    assert names
    assert names - read == left


def test_there_is_no_verdict_for_what_no_kind_has() -> None:
    assert set(NOT_READ) <= {message for message, _ in messages()}


def test_the_walk_counts_every_field_once(record_property: Callable[[str, object], None]) -> None:
    """``pytest -rP`` prints how many fields there are, how many are read, and how many say why not."""
    own = {
        (message, name): name in NOT_READ.get(message, {})
        for message, _ in messages()
        for name in fields_of(message)
    }
    specs = {
        (message, name): name in not_read(record)
        for record, message in records_of_a_spec()
        for name in api_fields(message)
    }
    for where, found in (("objects", own), ("pod specs and templates", specs)):
        left = sum(found.values())
        record_property(where, f"{len(found)} fields: {len(found) - left} read, {left} say why not")

    assert sum(own.values()) == sum(map(len, NOT_READ.values()))
    assert len(own) > 300
    assert len(specs) > 200
