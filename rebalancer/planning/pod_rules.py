"""Protections that come from the policy's selectors and windows, and from a pod's claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalancer.planning.claims import is_shared
from rebalancer.planning.reasons import Protection, Reason

if TYPE_CHECKING:
    from rebalancer.planning.protections import Protections

# Controllers that make a replacement while the evicted pod still terminates.
_REPLACING_AT_ONCE = frozenset({"ReplicaSet", "ReplicationController", "Job"})


def labels(self: Protections, row: int) -> Protection | None:
    """Pods that the policy's podSelector leaves out."""
    selector = self.policy.evictable.pod_selector
    if selector is None or selector.selects(self.pods.class_of(row).labels):
        return None
    return Protection(Reason.LABELS, f"its labels are not those of podSelector {selector}")


def window(self: Protections, row: int) -> Protection | None:  # noqa: ARG001 - one shape for all rules
    """Outside the policy's windows nothing is evicted."""
    windows = self.policy.evictable.windows
    if not windows or any(item.holds(self.inputs.now) for item in windows):
        return None
    return Protection(Reason.WINDOW, f"evictions are made only {' or '.join(map(str, windows))}")


def storage_class(self: Protections, row: int) -> Protection | None:
    """Claims of a storage class that the policy leaves alone; of one not read it is not known."""
    protected = self.policy.evictable.protect_storage_classes
    if not protected:
        return None
    for name, claim in self.claims.of(self.pods.class_of(row)):
        if claim is None:
            return Protection(
                Reason.STORAGE_CLASS, f"claim {name} was not read: its storage class is unknown"
            )
        if (claim.spec.storage_class_name or "") in protected:
            because = f"claim {name} is of storage class {claim.spec.storage_class_name}"
            return Protection(Reason.STORAGE_CLASS, because)
    return None


def read_write_once(self: Protections, row: int) -> Protection | None:
    """A replacement made at once waits, perhaps for long, for a volume that the old pod still holds."""
    pod = self.pods.class_of(row)
    if pod.owner.kind not in _REPLACING_AT_ONCE:
        return None
    for name, claim in self.claims.of(pod):
        if claim is not None and not is_shared(claim):
            modes = ", ".join(claim.spec.access_modes or ()) or "no access mode"
            return Protection(Reason.READ_WRITE_ONCE, f"claim {name} is {modes}")
    return None
