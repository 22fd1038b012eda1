"""Claims, volumes and what CSI drivers allow, resolved as the scheduler's volume plugins do.

Source: kubernetes v1.35.4 pkg/scheduler/framework/plugins/volumebinding and its neighbours. The claims of
generic ephemeral volumes are named after their pods: those of pods on nodes are resolved, those of pods to be
placed are not, which ``unread_inputs`` reports.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from rebalancer.cluster import kinds, quantities
from rebalancer.cluster.records import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    Labels,
    PersistentVolume,
    PersistentVolumeClaim,
    PodSpec,
    Record,
    StorageClass,
    VolumeAttachment,
    metadata_of,
)
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.state.csi_migration import (
    UniqueVolume,
    driver_of,
    migrated_inline,
    migrated_volume,
)

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ON_FIRST_CONSUMER = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"

R = TypeVar("R", bound=Record)


def claim_names(spec: PodSpec) -> tuple[str, ...]:
    """The claims a pod names, in order."""
    return tuple(
        volume.persistent_volume_claim.claim_name
        for volume in spec.volumes or ()
        if volume.persistent_volume_claim is not None
    )


def class_name(item: PersistentVolume | PersistentVolumeClaim) -> str:
    """The storage class; the old annotation wins."""
    annotation = (item.metadata.annotations or {}).get(CLASS_ANNOTATION)
    return (item.spec.storage_class_name or "") if annotation is None else annotation


def storage(amounts: Labels | None) -> Fraction | None:
    """The amount of storage; 0 when absent, None when malformed."""
    try:
        return quantities.parse((amounts or {}).get("storage", "0"))
    except ValueError:
        return None


def claim_size(claim: PersistentVolumeClaim) -> Fraction | None:
    """What a claim requests."""
    return storage(claim.spec.resources.requests if claim.spec.resources else None)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim is completely bound."""
    return bool(claim.spec.volume_name) and BOUND_ANNOTATION in (claim.metadata.annotations or {})


@dataclass(frozen=True, eq=False)
class Volumes:
    """The storage objects of a cluster by name."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)  # namespace, name
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNode] = field(default_factory=dict)
    drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
    capacities: tuple[CsiStorageCapacity, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot) -> Volumes:
        """Those of a snapshot; of a kind that was not read there are none."""

        def by_name(kind: kinds.Kind, record: type[R]) -> dict[str, R]:
            return {metadata_of(item).name: item for item in _typed(snapshot, kind, record)}

        return cls(
            claims_by_name(snapshot),
            by_name(kinds.PERSISTENT_VOLUMES, PersistentVolume),
            by_name(kinds.STORAGE_CLASSES, StorageClass),
            by_name(kinds.CSI_NODES, CsiNode),
            by_name(kinds.CSI_DRIVERS, CsiDriver),
            tuple(_typed(snapshot, kinds.CSI_CAPACITIES, CsiStorageCapacity)),
            tuple(_typed(snapshot, kinds.VOLUME_ATTACHMENTS, VolumeAttachment)),
        )

    def unique_volumes(self, namespace: str, spec: PodSpec) -> tuple[UniqueVolume, ...]:
        """The CSI volumes of a pod, each once; claims that are missing or no driver's count as none."""
        found = (self.csi_volume(namespace, name) for name in claim_names(spec))
        inline = migrated_inline(spec.volumes)
        return tuple(dict.fromkeys((*(item for item in found if item is not None), *inline)))

    def csi_volume(self, namespace: str, name: str) -> UniqueVolume | None:
        """The volume of a claim as its driver knows it; None if there is none, or no driver's."""
        claim = self.claims.get((namespace, name))
        if claim is None:
            return None
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is not None:
            return volume_of(volume)
        # Not bound yet: the driver that will provide it, and a handle of its own.
        storage_class = self.classes.get(class_name(claim))
        if storage_class is None or not storage_class.provisioner:
            return None
        return UniqueVolume(driver_of(storage_class.provisioner), f"claim {namespace}/{name}")

    def attached(self) -> Iterator[tuple[str, UniqueVolume]]:
        """(node, volume) of every attachment of a CSI volume; the attachment names the driver."""
        for item in self.attachments:
            volume = self.volumes.get(item.spec.source.persistent_volume_name or "")
            csi = volume.spec.csi if volume is not None else None
            if csi is not None and item.spec.attacher:
                yield item.spec.node_name, UniqueVolume(item.spec.attacher, csi.volume_handle)


def claims_by_name(snapshot: Snapshot) -> dict[tuple[str, str], PersistentVolumeClaim]:
    """The persistent volume claims of a snapshot by namespace and name."""
    claims = _typed(snapshot, kinds.CLAIMS, PersistentVolumeClaim)
    return {(item.metadata.namespace, item.metadata.name): item for item in claims}


def _typed(snapshot: Snapshot, kind: kinds.Kind, record: type[R]) -> Iterator[R]:
    for item in snapshot.recording.records(kind):
        if isinstance(item, record):
            yield item


def volume_of(volume: PersistentVolume) -> UniqueVolume | None:
    """A persistent volume as its CSI driver knows it; None for one of no driver."""
    csi = volume.spec.csi
    if csi is None:
        return migrated_volume(volume)
    return UniqueVolume(csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None


def marks_of(namespace: str, spec: PodSpec) -> tuple[Hashable, ...]:
    """What other pods may conflict with: a pod's claims, and its disks with whether they are read only."""
    marks: list[Hashable] = [("claim", namespace, name) for name in claim_names(spec)]
    for volume in spec.volumes or ():
        if volume.gce_persistent_disk:
            disk = volume.gce_persistent_disk
            marks.append((("gce", disk.pd_name), disk.read_only))
        if volume.aws_elastic_block_store:
            marks.append((("ebs", volume.aws_elastic_block_store.volume_id), False))
        if volume.iscsi:
            marks.append((("iscsi", volume.iscsi.iqn), volume.iscsi.read_only))
        if volume.rbd:
            rbd = volume.rbd
            marks += [
                (("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)
                for monitor in dict.fromkeys(rbd.monitors or ())
            ]
    return tuple(marks)
