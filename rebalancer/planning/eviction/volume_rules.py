"""Rules that read a pod's volumes: data that would be lost, and claims that could not follow the pod."""

from __future__ import annotations

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import PersistentVolumeClaim, Volume
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.workloads.stateful_sets import replaced_after_termination
from rebalancer.policy import Protection

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_TO_EVICT_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"  # names, with commas
_IN_MEMORY = "Memory"
_SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def local_storage(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Data that is lost with the node, unless the pod's own annotations say that it may be.

    An emptyDir in memory is no such data: it does not outlive its containers' node in any case, and holds
    what can be made again. Source: cluster-autoscaler utils/drain, HasBlockingLocalStorage.
    """
    annotations = context.pods.annotations[row]
    if Protection.LOCAL_STORAGE not in context.policy.evictable.protect:
        return None
    if annotations.get(SAFE_TO_EVICT) == "true":
        return None
    safe = {name.strip() for name in annotations.get(SAFE_TO_EVICT_VOLUMES, "").split(",")}
    for volume in _volumes(context.pods.class_of(row)):
        if volume.name in safe:
            continue
        if volume.host_path:
            return KeptReason(Reason.LOCAL_STORAGE, f"volume {volume.name} is a hostPath")
        if volume.empty_dir and volume.empty_dir.medium != _IN_MEMORY:
            return KeptReason(Reason.LOCAL_STORAGE, f"volume {volume.name} is an emptyDir")
    return None


def persistent_volumes(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """PersistentVolumeClaims, where the policy protects them."""
    if Protection.PERSISTENT_VOLUMES not in context.policy.evictable.protect:
        return None
    for volume in _volumes(context.pods.class_of(row)):
        if volume.persistent_volume_claim or volume.ephemeral:
            return KeptReason(Reason.PERSISTENT_VOLUMES, f"volume {volume.name} is a persistent volume claim")
    return None


def _volumes(pod: PodClass) -> list[Volume]:
    return pod.spec.volumes or []


def storage_class(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Claims of a storage class that the policy leaves alone; the class of a claim not read is unknown."""
    protected = context.policy.evictable.protect_storage_classes
    if not protected:
        return None
    for name, claim in context.claims_of(context.pods.class_of(row)):
        if claim is None:
            return KeptReason(
                Reason.STORAGE_CLASS, f"claim {name} was not read: its storage class is unknown"
            )
        if (claim.spec.storage_class_name or "") in protected:
            because = f"claim {name} is of storage class {claim.spec.storage_class_name}"
            return KeptReason(Reason.STORAGE_CLASS, because)
    return None


def read_write_once(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A replacement made at once waits, perhaps for long, for a volume that the old pod still holds."""
    pod = context.pods.class_of(row)
    if replaced_after_termination(pod.owner):
        return None
    for name, claim in context.claims_of(pod):
        if claim is not None and not is_shared(claim):
            modes = ", ".join(claim.spec.access_modes or ()) or "no access mode"
            return KeptReason(Reason.READ_WRITE_ONCE, f"claim {name} is {modes}")
    return None


def is_shared(claim: PersistentVolumeClaim) -> bool:
    """Whether pods on several nodes may mount a claim at once."""
    return bool(_SHARED_MODES & set(claim.spec.access_modes or ()))
