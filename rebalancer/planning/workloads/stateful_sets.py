"""What a StatefulSet makes in place of one of its pods: which revision, and which claims.

A StatefulSet gives each pod a name and claims of its own, and recreates a pod under the same name with the
same claims. So two pods of a StatefulSet are alike when they differ in nothing else, and the volumes that
come back are the pod's own: they decide where it can run.

While ``updateRevision`` and ``currentRevision`` differ, the update strategy decides which of the two a pod
comes back as, and its partition where the rollout ends. With partition 2 and three replicas, all ready:

    web-0, web-1   below the partition: they come back as currentRevision
    web-2          at the partition: it comes back as updateRevision
    the rollout    has ended once web-2 is updated, and the set is held there for as long as its owner wants

The strategy Recreate, on by default from 1.38, has no partition: the controller deletes all pods of the
current revision first, and makes every pod as updateRevision.

Source: kubernetes v1.38.0-beta.0 pkg/controller/statefulset/stateful_set_utils.go,
newVersionedStatefulSetPod.
"""

from __future__ import annotations

from msgspec.structs import replace

from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Volume, Workload

REVISION_LABEL = "controller-revision-hash"  # which revision of its StatefulSet a pod is of
_ROLLING_UPDATE = "RollingUpdate"
_ON_DELETE = "OnDelete"


def revision_of(pod: PodClass) -> str:
    """The revision of its StatefulSet that pods of a class are of; empty when they do not say."""
    return pod.labels.get(REVISION_LABEL, "")


def _position(record: Workload, pod_name: str) -> int | None:
    """The place of a pod among those of its StatefulSet, from 0; None where its name does not say."""
    ordinal = pod_name.rpartition("-")[2]
    start = record.spec.ordinals.start if record.spec.ordinals else 0
    return int(ordinal) - start if ordinal.isdecimal() else None


def is_superfluous(record: Workload, pod_name: str) -> bool:
    """Whether a pod is not among the replicas that its StatefulSet wants."""
    position = _position(record, pod_name)
    replicas = record.spec.replicas
    return position is not None and not 0 <= position < (1 if replicas is None else replicas)


def next_revision(record: Workload, pod_name: str) -> str:
    """The revision as which a pod would be recreated; empty when its StatefulSet does not say."""
    status = record.status
    position = _position(record, pod_name)
    below = position is not None and position < _partition(record)
    return (status.current_revision or status.update_revision) if below else status.update_revision


def is_rolling_out(record: Workload) -> bool:
    """Whether a rolling update of a StatefulSet is in progress; one paused at its partition is not."""
    status = record.status
    replicas = record.spec.replicas
    if not status.update_revision or not status.current_revision:
        return False
    if status.update_revision == status.current_revision or _strategy(record) == _ON_DELETE:
        return False
    partition = _partition(record)
    return partition == 0 or status.updated_replicas < (1 if replicas is None else replicas) - partition


def _strategy(record: Workload) -> str:
    """The type of its update strategy."""
    strategy = record.spec.update_strategy
    if strategy is None:
        return _ROLLING_UPDATE
    return strategy.type or _ROLLING_UPDATE


def _partition(record: Workload) -> int:
    """The ordinal, counted from the first, below which pods keep the current revision."""
    strategy = record.spec.update_strategy
    if strategy is None or strategy.rolling_update is None or _strategy(record) != _ROLLING_UPDATE:
        return 0
    return strategy.rolling_update.partition or 0


def own_claims(pod: PodClass, pod_name: str) -> tuple[Volume, ...]:
    """The volumes that a StatefulSet made for this very pod, from its volumeClaimTemplates."""
    if pod.owner.kind != "StatefulSet":
        return ()
    return tuple(
        volume
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim
        and volume.persistent_volume_claim.claim_name == f"{volume.name}-{pod_name}"
    )


def without_own_claims(pod: PodClass, pod_name: str) -> PodClass:
    """The class of a pod without the volumes that are its own; for comparing, never for placing."""
    own = own_claims(pod, pod_name)
    if not own:
        return pod
    volumes = [volume for volume in pod.spec.volumes or () if volume not in own]
    spec = replace(pod.spec, volumes=volumes or None)
    return PodClass(pod.namespace, pod.labels, pod.owner, spec, pod.statuses, pod.resize_infeasible)
