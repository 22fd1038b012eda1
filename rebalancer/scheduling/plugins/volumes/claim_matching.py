"""Which claims of a pod are bound or still to bind, and which volumes and capacities suit a claim.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/volumebinding/binder.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import msgspec

from rebalancer.cluster.records import (
    ClaimReference,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)
from rebalancer.scheduling.matching.label_selectors import label_match
from rebalancer.scheduling.state.volumes import (
    ON_FIRST_CONSUMER,
    SELECTED_NODE_ANNOTATION,
    Volumes,
    class_name,
    is_bound,
    storage,
)


@dataclass(frozen=True, slots=True)
class SortedClaims:
    """The claims of a class: why they reject it, those bound, those to bind when it is placed."""

    rejected: str = ""
    bound: tuple[PersistentVolumeClaim, ...] = ()
    to_bind: tuple[PersistentVolumeClaim, ...] = ()


class Assumed:
    """What claims have taken since the snapshot was made: free volumes, and nodes for volumes to be made.

    Source: kubernetes v1.35.4 pkg/scheduler/framework/plugins/volumebinding/binder.go:364.
    """

    def __init__(self, volumes: Mapping[str, PersistentVolume]) -> None:
        """``volumes`` are those of the snapshot by name."""
        self.volumes: Mapping[str, PersistentVolume] = volumes  # those taken reserved for their claims
        self._selected: dict[tuple[str, str], str] = {}  # claim -> node where its volume is to be made
        self._taken: set[tuple[str, str]] = set()  # claims with a volume

    def has_volume(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim has taken a free volume."""
        return _key(claim) in self._taken

    def take(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None, node: str) -> None:
        """Reserve a volume for a claim; without one, note the node where it is to be made."""
        if volume is None:
            self._selected[_key(claim)] = node
            return
        self._taken.add(_key(claim))
        reference = ClaimReference(*_key(claim), claim.metadata.uid)
        reserved = msgspec.structs.replace(
            volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference)
        )
        self.volumes = {**self.volumes, volume.metadata.name: reserved}

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        """The node where a claim's volume is to be made; None when it is free to be anywhere."""
        annotation = (claim.metadata.annotations or {}).get(SELECTED_NODE_ANNOTATION)
        return self._selected.get(_key(claim), annotation)


def _key(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.namespace, claim.metadata.name


def sort_claims(volumes: Volumes, namespace: str, names: Sequence[str]) -> SortedClaims:
    """The claims of a pod by what has to happen to them; those that keep it from being placed first."""
    bound, to_bind, immediate = [], [], False
    for name in names:
        claim = volumes.claims.get((namespace, name))
        if claim is None:
            return SortedClaims(f'persistentvolumeclaim "{name}" not found')
        if claim.status.phase == "Lost":
            gone = claim.spec.volume_name
            return SortedClaims(
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return SortedClaims(f'persistentvolumeclaim "{name}" is being deleted')
        storage_class = volumes.classes.get(class_name(claim))
        delayed = storage_class is not None and storage_class.volume_binding_mode == ON_FIRST_CONSUMER
        if is_bound(claim):
            bound.append(claim)
        elif delayed and not claim.spec.volume_name:
            to_bind.append(claim)
        else:
            immediate = True
    if immediate:
        return SortedClaims("pod has unbound immediate PersistentVolumeClaims")
    return SortedClaims("", tuple(bound), tuple(to_bind))


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved for a claim."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def suits(volume: PersistentVolume, claim: PersistentVolumeClaim, size: Fraction) -> bool:
    """Whether a free volume suits a claim, wherever it is."""
    selector = claim.spec.selector
    match = label_match(selector)
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and (selector is None or (match is not None and match.matches(volume.metadata.labels or {})))
        and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
        and is_large_enough(volume, claim, size)
    )


def is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim, size: Fraction) -> bool:
    """Whether a volume that is not being deleted has the claim's mode and size."""
    capacity = storage(volume.spec.capacity)
    modes = (volume.spec.volume_mode or "Filesystem", claim.spec.volume_mode or "Filesystem")
    return (
        capacity is not None
        and capacity >= size
        and modes[0] == modes[1]
        and volume.metadata.deletion_timestamp is None
    )


def offers(capacity: CsiStorageCapacity, size: Fraction | int) -> bool:
    """Whether a published capacity suffices; the largest volume counts if it is stated."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    offered = storage({"storage": limit}) if limit is not None else None
    return offered is not None and offered >= size
