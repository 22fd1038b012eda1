"""Protections that the policy gives a pod by itself: by name, age, labels, annotations, volumes, time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.records import Volume
from rebalancer.planning.eviction.claims import is_shared
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.policy import Protection, parse_duration

if TYPE_CHECKING:
    from rebalancer.planning.eviction.protections import Protections

PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
# Controllers that make a replacement while the evicted pod still terminates.
_REPLACING_AT_ONCE = frozenset({"ReplicaSet", "ReplicationController", "Job"})


def age_text(seconds: float) -> str:
    """Minutes up to two hours, then hours."""
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def labels(self: Protections, row: int) -> KeptReason | None:
    """Pods that the policy's podSelector leaves out."""
    selector = self.policy.evictable.pod_selector
    if selector is None or selector.selects(self.pods.class_of(row).labels):
        return None
    return KeptReason(Reason.LABELS, f"its labels are not those of podSelector {selector}")


def window(self: Protections, row: int) -> KeptReason | None:  # noqa: ARG001 - one shape for all rules
    """Outside the policy's windows nothing is evicted."""
    windows = self.policy.evictable.windows
    if not windows or any(item.holds(self.inputs.now) for item in windows):
        return None
    return KeptReason(Reason.WINDOW, f"evictions are made only {' or '.join(map(str, windows))}")


def storage_class(self: Protections, row: int) -> KeptReason | None:
    """Claims of a storage class that the policy leaves alone; the class of a claim not read is unknown."""
    protected = self.policy.evictable.protect_storage_classes
    if not protected:
        return None
    for name, claim in self.claims.of(self.pods.class_of(row)):
        if claim is None:
            return KeptReason(
                Reason.STORAGE_CLASS, f"claim {name} was not read: its storage class is unknown"
            )
        if (claim.spec.storage_class_name or "") in protected:
            because = f"claim {name} is of storage class {claim.spec.storage_class_name}"
            return KeptReason(Reason.STORAGE_CLASS, because)
    return None


def read_write_once(self: Protections, row: int) -> KeptReason | None:
    """A replacement made at once waits, perhaps for long, for a volume that the old pod still holds."""
    pod = self.pods.class_of(row)
    if pod.owner.kind not in _REPLACING_AT_ONCE:
        return None
    for name, claim in self.claims.of(pod):
        if claim is not None and not is_shared(claim):
            modes = ", ".join(claim.spec.access_modes or ()) or "no access mode"
            return KeptReason(Reason.READ_WRITE_ONCE, f"claim {name} is {modes}")
    return None


def namespace(self: Protections, row: int) -> KeptReason | None:
    """Namespaces that the policy leaves alone."""
    namespace = self.pods.namespaces[row]
    if self.policy.evictable.namespaces.allows(namespace):
        return None
    return KeptReason(Reason.NAMESPACE, f"the policy leaves namespace {namespace} alone")


def young(self: Protections, row: int) -> KeptReason | None:
    """Pods younger than minAge, or of unknown age."""
    age = self.inputs.now - float(self.pods.created[row])
    least = self.policy.evictable.min_age
    if math.isnan(age):
        return KeptReason(Reason.TOO_YOUNG, "its age is not known")
    return (
        KeptReason(Reason.TOO_YOUNG, f"is {age_text(age)} old, minAge {age_text(least)}")
        if age < least
        else None
    )


def priority(self: Protections, row: int) -> KeptReason | None:
    """Priorities that are not below priorityBelow."""
    priority, below = self.pods.class_of(row).priority, self.policy.evictable.priority_below
    return (
        KeptReason(Reason.PRIORITY, f"priority {priority} is not below {below}")
        if priority >= below
        else None
    )


def _volumes(pod: PodClass) -> list[Volume]:
    return pod.spec.volumes or []


def local_storage(self: Protections, row: int) -> KeptReason | None:
    """Data that is lost with the node."""
    if Protection.LOCAL_STORAGE not in self.policy.evictable.protect:
        return None
    for volume in _volumes(self.pods.class_of(row)):
        if volume.empty_dir or volume.host_path:
            kind = "emptyDir" if volume.empty_dir else "hostPath"
            return KeptReason(
                Reason.LOCAL_STORAGE, f"volume {volume.name} is an {kind}".replace("an host", "a host")
            )
    return None


def persistent_volumes(self: Protections, row: int) -> KeptReason | None:
    """PersistentVolumeClaims, where the policy protects them."""
    if Protection.PERSISTENT_VOLUMES not in self.policy.evictable.protect:
        return None
    for volume in _volumes(self.pods.class_of(row)):
        if volume.persistent_volume_claim or volume.ephemeral:
            return KeptReason(Reason.PERSISTENT_VOLUMES, f"volume {volume.name} is a persistent volume claim")
    return None


def single_replica(self: Protections, row: int) -> KeptReason | None:
    """The only replica of a workload."""
    if Protection.SINGLE_REPLICA not in self.policy.evictable.protect:
        return None
    facts = self.workload(row)
    if facts.desired is not None and facts.desired <= 1:
        return KeptReason(Reason.SINGLE_REPLICA, f"{facts.name} wants {facts.desired} replica")
    return None


def annotated(self: Protections, row: int) -> KeptReason | None:
    """Annotations of others that ask not to be evicted."""
    annotations = self.pods.annotations[row]
    if PREFER_NO_EVICTION in annotations:
        return KeptReason(Reason.ANNOTATION, f"annotated {PREFER_NO_EVICTION}")
    if annotations.get(SAFE_TO_EVICT) == "false":
        return KeptReason(Reason.ANNOTATION, f'annotated {SAFE_TO_EVICT}: "false"')
    value = annotations.get(DO_NOT_DISRUPT)
    if value is None or value == "false":
        return None
    if _disruptable_after(value, self.inputs.now - float(self.pods.created[row])):
        return None
    return KeptReason(Reason.ANNOTATION, f'annotated {DO_NOT_DISRUPT}: "{value[:40]}"')


def _disruptable_after(value: str, age: float) -> bool:
    """Whether a duration since the pod's creation has passed; a value that is none protects."""
    try:
        return age >= parse_duration(value)
    except ValueError:
        return False
