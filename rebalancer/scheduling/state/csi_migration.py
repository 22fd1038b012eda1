"""Disks of the old in-tree kinds, as the CSI drivers that took them over know them.

Objects that were created years ago still name such a disk. The scheduler counts it against its driver's
limit, and ties a claim to the zone as the driver names it where a node's kubelet has handed the kind over.

    spec.awsElasticBlockStore.volumeID: aws://eu-1a/vol-7, label topology.kubernetes.io/zone: eu-1a
    is volume vol-7 of ebs.csi.aws.com, and reached where topology.ebs.csi.aws.com/zone is eu-1a

Source: csi-translation-lib v0.35.4 plugins/in_tree_volume.go:185 and its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from rebalancer.cluster.records import (
    CsiNode,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    Requirement,
    Volume,
)

MIGRATED_PLUGINS_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
_ZONE, _OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
_REGION, _OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
_BETWEEN_ZONES = "__"
_GCE_ZONE = re.compile(r"([^-]*-[^-]*)-[^-]*")
_MANAGED = "managed"
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UniqueVolume:
    """A volume as attached to a node: the same handle of the same driver is the same volume."""

    driver: str
    handle: str


@dataclass(frozen=True, slots=True)
class _InTreeKind:
    """One kind of disk: the field that holds it, its plugin, driver, and the driver's name of a zone."""

    field: str
    plugin: str
    driver: str
    zone_key: str = ""  # empty: its topology is not translated


_KINDS = (
    _InTreeKind(
        "aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
    ),
    _InTreeKind(
        "gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"
    ),
    _InTreeKind("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    _InTreeKind(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    _InTreeKind("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
)
_BY_PLUGIN = {kind.plugin: kind for kind in _KINDS}


def _kind_of(source: PersistentVolumeSpec | Volume) -> _InTreeKind | None:
    return next((kind for kind in _KINDS if getattr(source, kind.field) is not None), None)


def _translated(source: PersistentVolumeSpec | Volume, labels: Labels) -> UniqueVolume | None:
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


def _gce_handle(name: str, labels: Labels) -> str:
    zones = (labels.get(_OLD_ZONE) or labels.get(_ZONE) or "").split(_BETWEEN_ZONES)
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{name}"
    found = [_GCE_ZONE.fullmatch(zone) for zone in zones]
    regions = {match[1] if match else "" for match in found}
    return (
        f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{name}"
        if len(regions) == 1 and "" not in regions
        else ""
    )


def is_migratable(volume: Volume) -> bool:
    """Whether a volume of a pod is a disk that a CSI driver took over."""
    return _kind_of(volume) is not None


def migrated_inline(volumes: Iterable[Volume] | None) -> Iterator[UniqueVolume]:
    """The disks that a pod names itself, as their drivers know them."""
    for volume in volumes or ():
        found = _translated(volume, {})
        if found is not None:
            yield found


def migrated_volume(volume: PersistentVolume) -> UniqueVolume | None:
    """A persistent volume of an in-tree kind as its driver knows it; None for any other."""
    return _translated(volume.spec, volume.metadata.labels or {})


def driver_of(provisioner: str) -> str:
    """The CSI driver that makes the volumes of a storage class."""
    kind = _BY_PLUGIN.get(provisioner)
    return provisioner if kind is None else kind.driver


def migrated_plugins(node: CsiNode | None) -> frozenset[str]:
    """The in-tree plugins that the kubelet of a node has handed over to their drivers."""
    annotations = (node.metadata.annotations if node is not None else None) or {}
    return frozenset(filter(None, annotations.get(MIGRATED_PLUGINS_ANNOTATION, "").split(",")))


def in_tree_plugin(volume: PersistentVolume) -> str:
    """The in-tree plugin of a persistent volume; empty for one of a CSI driver."""
    kind = _kind_of(volume.spec)
    return kind.plugin if kind is not None else ""


def migrated_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """The nodes that reach an in-tree volume, by the labels that its CSI driver gives them; None is all."""
    kind = _kind_of(volume.spec)
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if kind is None or not kind.zone_key:
        return required
    terms = list(required.node_selector_terms or ()) if required is not None else []
    labels = volume.metadata.labels or {}
    keys = {item.key for term in terms for item in term.match_expressions or ()}
    old = _ZONE not in keys and (_OLD_ZONE in keys or (_ZONE not in labels and _OLD_ZONE in labels))
    zone_key = _OLD_ZONE if old else _ZONE
    renamed = {_OLD_REGION: _REGION} if old else {}
    has_zones = any(
        item.key == zone_key and item.values for term in terms for item in term.match_expressions or ()
    )
    if has_zones:
        renamed[zone_key] = kind.zone_key
    added: list[Requirement] = []
    zones = sorted({zone.strip() for zone in labels.get(zone_key, "").split(_BETWEEN_ZONES)} - {""})
    if zones and not has_zones:
        added = [Requirement(key=kind.zone_key, operator="In", values=zones)]
        terms = terms or [NodeSelectorTerm()]
    if not terms:
        return required
    return NodeSelector(
        node_selector_terms=[
            msgspec.structs.replace(
                term,
                match_expressions=[
                    *(
                        msgspec.structs.replace(item, key=renamed.get(item.key, item.key))
                        for item in term.match_expressions or ()
                    ),
                    *added,
                ],
            )
            for term in terms
        ]
    )
