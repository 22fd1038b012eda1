"""Claims, volumes and what CSI drivers allow, resolved as the scheduler's volume plugins do.

Objects that were created years ago name a disk of an in-tree kind. The scheduler counts it against the limit
of the CSI driver that took the kind over, and ties a claim to the zone as the driver names it where a node's
kubelet has handed the kind over.

    spec.awsElasticBlockStore.volumeID: aws://eu-1a/vol-7, label topology.kubernetes.io/zone: eu-1a
    is volume vol-7 of ebs.csi.aws.com, and reached where topology.ebs.csi.aws.com/zone is eu-1a

The claims of generic ephemeral volumes are named after their pods: those of pods on nodes are resolved, those
of pods to be placed are not, which ``UnreadInputs`` reports.

Source: kubernetes v1.35.4 pkg/scheduler/framework/plugins/volumebinding and its neighbours;
csi-translation-lib v0.35.4 plugins/in_tree_volume.go:185 and its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import kinds, quantities, records
from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.snapshot import Snapshot

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ON_FIRST_CONSUMER = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"
MIGRATED_PLUGINS_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
_ZONE = "topology.kubernetes.io/zone"
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_OLD_REGION = "failure-domain.beta.kubernetes.io/region"
_BETWEEN_ZONES = "__"
_GCE_ZONE = re.compile(r"([^-]*-[^-]*)-[^-]*")
_MANAGED = "managed"
VolumeLabels = Mapping[str, str]


class UniqueVolume(msgspec.Struct, frozen=True):
    """A volume as attached to a node: the same handle of the same driver is the same volume."""

    driver: str
    handle: str


class _InTreeKind(msgspec.Struct, frozen=True):
    """One kind of disk: the field that holds it, its plugin, driver, and the driver's name of a zone."""

    field: str
    plugin: str
    driver: str
    zone_key: str = ""  # empty: its topology is not translated


_KINDS = tuple(
    _InTreeKind(field, f"kubernetes.io/{plugin}", driver, zone_key)
    for field, plugin, driver, zone_key in (
        ("aws_elastic_block_store", "aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
        ("gce_persistent_disk", "gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
        ("azure_disk", "azure-disk", "disk.csi.azure.com", ""),
        ("cinder", "cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
        ("portworx_volume", "portworx-volume", "pxd.portworx.com", ""),
    )
)
_BY_PLUGIN = {kind.plugin: kind for kind in _KINDS}


def _kind_of(source: records.PersistentVolumeSpec | records.Volume) -> _InTreeKind | None:
    return next((kind for kind in _KINDS if getattr(source, kind.field) is not None), None)


def _translated(
    source: records.PersistentVolumeSpec | records.Volume, labels: VolumeLabels
) -> UniqueVolume | None:
    """A disk as its driver knows it; None for one that no driver took over, or that cannot be translated."""
    kind = _kind_of(source)
    handle = ""
    if source.aws_elastic_block_store:
        handle = _ebs_handle(source.aws_elastic_block_store.volume_id)
    elif source.gce_persistent_disk:
        handle = _gce_handle(source.gce_persistent_disk.pd_name, labels)
    elif source.azure_disk:
        managed = source.azure_disk.kind is None or source.azure_disk.kind.lower() == _MANAGED
        handle = source.azure_disk.disk_uri if managed else ""
    elif source.cinder:
        handle = source.cinder.volume_id
    elif source.portworx_volume:
        handle = source.portworx_volume.volume_id
    return UniqueVolume(kind.driver, handle) if kind is not None and handle else None


def _ebs_handle(volume_id: str) -> str:
    if not volume_id.startswith("aws://"):
        return volume_id
    name = volume_id.removeprefix("aws://").partition("/")[2].strip("/")
    return name if re.fullmatch(r"vol-[^/]*", name) else ""


def _gce_handle(name: str, labels: VolumeLabels) -> str:
    zones = (labels.get(_OLD_ZONE) or labels.get(_ZONE) or "").split(_BETWEEN_ZONES)
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{name}"
    matches = [_GCE_ZONE.fullmatch(zone) for zone in zones]
    regions = {match[1] if match else "" for match in matches}
    return (
        f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{name}"
        if len(regions) == 1 and "" not in regions
        else ""
    )


def is_migratable(volume: records.Volume) -> bool:
    """Whether a volume of a pod is a disk that a CSI driver took over."""
    return _kind_of(volume) is not None


def migrated_inline(volumes: Iterable[records.Volume] | None) -> Iterator[UniqueVolume]:
    """The disks that a pod names itself, as their drivers know them."""
    for volume in volumes or ():
        disk = _translated(volume, {})
        if disk is not None:
            yield disk


def driver_of(provisioner: str) -> str:
    """The CSI driver that makes the volumes of a storage class."""
    kind = _BY_PLUGIN.get(provisioner)
    return provisioner if kind is None else kind.driver


def migrated_plugins(node: records.CsiNode | None) -> frozenset[str]:
    """The in-tree plugins that the kubelet of a node has handed over to their drivers."""
    annotations = (node.metadata.annotations if node is not None else None) or {}
    return frozenset(filter(None, annotations.get(MIGRATED_PLUGINS_ANNOTATION, "").split(",")))


def in_tree_plugin(volume: records.PersistentVolume) -> str:
    """The in-tree plugin of a persistent volume; empty for one of a CSI driver."""
    kind = _kind_of(volume.spec)
    return kind.plugin if kind is not None else ""


def migrated_affinity(volume: records.PersistentVolume) -> records.NodeSelector | None:
    """The nodes that reach an in-tree volume, by the labels that its CSI driver gives them; None is all."""
    kind = _kind_of(volume.spec)
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if kind is None or not kind.zone_key:
        return required
    terms = list(required.node_selector_terms or ()) if required is not None else []
    labels = volume.metadata.labels or {}
    keys = {requirement.key for term in terms for requirement in term.match_expressions or ()}
    old = _ZONE not in keys and (_OLD_ZONE in keys or (_ZONE not in labels and _OLD_ZONE in labels))
    zone_key = _OLD_ZONE if old else _ZONE
    renamed = {_OLD_REGION: _REGION} if old else {}
    has_zones = any(
        requirement.key == zone_key and requirement.values
        for term in terms
        for requirement in term.match_expressions or ()
    )
    if has_zones:
        renamed[zone_key] = kind.zone_key
    added: list[records.Requirement] = []
    zones = sorted({zone.strip() for zone in labels.get(zone_key, "").split(_BETWEEN_ZONES)} - {""})
    if zones and not has_zones:
        added = [records.Requirement(key=kind.zone_key, operator="In", values=zones)]
        terms = terms or [records.NodeSelectorTerm()]
    if not terms:
        return required
    return records.NodeSelector(node_selector_terms=[_migrated(term, renamed, added) for term in terms])


def _migrated(
    term: records.NodeSelectorTerm, renamed: Mapping[str, str], added: Iterable[records.Requirement]
) -> records.NodeSelectorTerm:
    """The term with the keys of labels renamed, and with more requirements."""
    requirements = [
        replace(requirement, key=renamed.get(requirement.key, requirement.key))
        for requirement in term.match_expressions or ()
    ]
    return replace(term, match_expressions=[*requirements, *added])


def claim_names(spec: records.PodSpec) -> tuple[str, ...]:
    """The claims a pod names, in order."""
    return tuple(
        volume.persistent_volume_claim.claim_name
        for volume in spec.volumes or ()
        if volume.persistent_volume_claim is not None
    )


def class_name(volume_or_claim: records.PersistentVolume | records.PersistentVolumeClaim) -> str:
    """The storage class; the old annotation wins."""
    annotation = (volume_or_claim.metadata.annotations or {}).get(CLASS_ANNOTATION)
    return (volume_or_claim.spec.storage_class_name or "") if annotation is None else annotation


def storage(amounts: records.Labels | None) -> Fraction | None:
    """The amount of storage; 0 when absent, None when malformed."""
    try:
        return quantities.parse((amounts or {}).get("storage", "0"))
    except ValueError:
        return None


def claim_size(claim: records.PersistentVolumeClaim) -> Fraction | None:
    """What a claim requests."""
    return storage(claim.spec.resources.requests if claim.spec.resources else None)


def is_bound(claim: records.PersistentVolumeClaim) -> bool:
    """Whether a claim is completely bound."""
    return bool(claim.spec.volume_name) and BOUND_ANNOTATION in (claim.metadata.annotations or {})


class Volumes(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The storage objects of a cluster by name."""

    claims: Mapping[tuple[str, str], records.PersistentVolumeClaim] = {}  # namespace, name
    volumes: Mapping[str, records.PersistentVolume] = {}
    classes: Mapping[str, records.StorageClass] = {}
    csi_nodes: Mapping[str, records.CsiNode] = {}
    drivers: Mapping[str, records.CsiDriver] = {}
    capacities: tuple[records.CsiStorageCapacity, ...] = ()
    attachments: tuple[records.VolumeAttachment, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot) -> Volumes:
        """Those of a snapshot; of a kind that was not read there are none."""

        read = snapshot.recording.records

        def by_name(kind: kinds.KindOf[kinds.R]) -> dict[str, kinds.R]:
            return {record.metadata.name: record for record in read(kind)}

        return cls(
            claims_by_name(snapshot),
            by_name(kinds.PERSISTENT_VOLUMES),
            by_name(kinds.STORAGE_CLASSES),
            by_name(kinds.CSI_NODES),
            by_name(kinds.CSI_DRIVERS),
            tuple(read(kinds.CSI_CAPACITIES)),
            tuple(read(kinds.VOLUME_ATTACHMENTS)),
        )

    def unique_volumes(self, namespace: str, spec: records.PodSpec) -> tuple[UniqueVolume, ...]:
        """The CSI volumes of a pod, each once; claims that are missing or no driver's count as none."""
        volumes: list[UniqueVolume] = []
        for name in claim_names(spec):
            claimed = self.csi_volume(namespace, name)
            if claimed is not None:
                volumes.append(claimed)
        volumes += migrated_inline(spec.volumes)
        return tuple(dict.fromkeys(volumes))

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
        for attachment in self.attachments:
            volume = self.volumes.get(attachment.spec.source.persistent_volume_name or "")
            csi = volume.spec.csi if volume is not None else None
            if csi is not None and attachment.spec.attacher:
                yield attachment.spec.node_name, UniqueVolume(attachment.spec.attacher, csi.volume_handle)


def claims_by_name(snapshot: Snapshot) -> dict[tuple[str, str], records.PersistentVolumeClaim]:
    """The persistent volume claims of a snapshot by namespace and name."""
    claims = snapshot.recording.records(kinds.CLAIMS)
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}


def volume_of(volume: records.PersistentVolume) -> UniqueVolume | None:
    """A persistent volume as its CSI driver knows it; None for one of no driver."""
    csi = volume.spec.csi
    if csi is None:
        return _translated(volume.spec, volume.metadata.labels or {})
    return UniqueVolume(csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None


def marks_of(namespace: str, spec: records.PodSpec) -> tuple[Hashable, ...]:
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


class AttachedVolumes:
    """Uses of each CSI volume on each node; a volume of many pods counts once on a node.

    VolumeAttachments may name volumes that no pod uses, any more or yet: those take room as well, and a pod
    that comes and wants one is counted beside it. Once the pods of an attached volume are gone the volume is
    taken to be detached.

        limit 2, attached: vol-1 (of a pod) and vol-2 (of none)     2 in use
        a pod with vol-1 comes                                      0 new ones: it fits
        a pod with vol-2 comes                                      1 new one: it does not

    Source: kubernetes v1.35.4 pkg/scheduler/framework/plugins/nodevolumelimits/csi.go:255.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        # volume -> node -> pods; the inner maps are replaced, never changed, so that copies share them
        self._uses: dict[UniqueVolume, Mapping[int, int]] = {}
        self._attachments: dict[UniqueVolume, frozenset[int]] = {}  # volume -> nodes
        self._counts: dict[str, IntArray] = {}  # driver -> (nodes,) distinct volumes

    def copy(self) -> AttachedVolumes:
        """An independent copy."""
        other = AttachedVolumes(self._nodes)
        other._uses = self._uses.copy()
        other._attachments = self._attachments.copy()
        other._counts = {driver: counts.copy() for driver, counts in self._counts.items()}
        return other

    def count(self, volumes: Iterable[UniqueVolume], node: int, pods: int) -> None:
        """Add or take away pods' use of volumes on a node."""
        for volume in volumes:
            uses = dict(self._uses.get(volume, {}))
            before = uses.pop(node, 0)
            if before + pods:
                uses[node] = before + pods
            self._uses[volume] = uses
            if (before > 0) == (before + pods > 0):
                continue
            attached = self._attachments.get(volume, frozenset())
            if before:
                self._of(volume.driver)[node] -= 1
                self._attachments[volume] = attached - {node}
            elif node not in attached:
                self._of(volume.driver)[node] += 1

    def attach(self, volume: UniqueVolume, node: int) -> None:
        """A volume that is attached; it counts once, whether a pod on the node uses it or not."""
        attached = self._attachments.get(volume, frozenset())
        if node not in attached and node not in self._uses.get(volume, {}):
            self._of(volume.driver)[node] += 1
        self._attachments[volume] = attached | {node}

    def _of(self, driver: str) -> IntArray:
        if driver not in self._counts:
            self._counts[driver] = np.zeros(self._nodes, np.int64)
        return self._counts[driver]

    def distinct(self, driver: str) -> IntArray:
        """(nodes,) how many volumes of a driver each node holds; read it only."""
        return self._of(driver)

    def holds(self, volume: UniqueVolume) -> BoolArray:
        """(nodes,) where a pod uses a volume."""
        held = np.zeros(self._nodes, np.bool_)
        held[list(self._uses.get(volume, ()))] = True
        return held
