"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach.

Disks of the in-tree kinds count as volumes of the drivers that took them over. From 1.37 on a driver may ask
that its volumes' pods stay away from nodes where it does not run.

Source: kubernetes v1.35.4 pkg/scheduler/framework/plugins/nodevolumelimits/csi.go:255; v1.37.2 csi.go:296.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from rebalancer.cluster import quantities
from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.kinds import (
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Kind,
)
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import CsiNode
from rebalancer.profiles.types import ExtensionPoint, extension_points, inputs_of
from rebalancer.scheduling.framework.plugin import (
    PASS,
    SKIP,
    Enabled,
    Evidence,
    ObjectsRead,
    Plugin,
    PreFilter,
)
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_cluster
from rebalancer.scheduling.state.volumes import UniqueVolume, claim_names, is_migratable
from rebalancer.scheduling.versions.rules import LIMITS_OF_NODES, VOLUME_LIMIT_SCALING

_NO_LIMIT = int(np.iinfo(np.int64).max)
_TOO_MANY = 1
_LIMIT_OF_NODE = "attachable-volumes-csi-"


class NodeVolumeLimits(Plugin):
    """Rejects where a driver's volumes in use and the pod's new ones exceed what its CSINode allows."""

    name = "NodeVolumeLimits"
    points = extension_points("preFilter filter")
    kinds_for_claims = (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_NODES, VOLUME_ATTACHMENTS)
    inputs = inputs_of(*kinds_for_claims, CSI_DRIVERS)
    evidence = Evidence.DECISIONS
    static_pre_filter = True
    reasons = {_TOO_MANY: "node(s) exceed max volume count"}

    @classmethod
    def needs(cls, pod: PodClass, enabled: Enabled, objects: ObjectsRead) -> Iterable[Kind]:
        """Limits and attachments too for disks that the pod names itself; drivers from 1.37 on."""
        kinds = super().needs(pod, enabled, objects)
        inline = ExtensionPoint.FILTER in enabled.points and any(map(is_migratable, pod.spec.volumes or ()))
        kinds = kinds or (cls.kinds_for_claims if inline else ())
        return (*kinds, CSI_DRIVERS) if kinds and objects.release.has(VOLUME_LIMIT_SCALING) else kinds

    def _by_driver(self, state: ClusterState, pod_class: int) -> Mapping[str, Sequence[UniqueVolume]]:
        by_driver: dict[str, list[UniqueVolume]] = {}
        for volume in state.classes.csi_volumes[pod_class]:
            by_driver.setdefault(volume.driver, []).append(volume)
        return by_driver

    @once_a_cluster
    def _limits(self, state: ClusterState) -> Mapping[str, IntArray]:
        """Driver -> (nodes,) the most volumes of it; a driver without any limit is absent."""
        limits = _limits_of_nodes(state) if state.classes.release.has(LIMITS_OF_NODES) else {}
        for row, name in enumerate(state.nodes.names):
            csi_node = state.classes.volumes.csi_nodes.get(name)
            for driver in (csi_node.spec.drivers if csi_node else None) or ():
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    of_driver = limits.setdefault(driver.name, np.full(len(state.nodes), _NO_LIMIT))
                    of_driver[row] = driver.allocatable.count
        return limits

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        spec = state.classes[pod_class].spec
        return PASS if claim_names(spec) or any(map(is_migratable, spec.volumes or ())) else SKIP

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 where |in use| + |new ones not in use there| > limit, for a driver with new ones.

        From 2 on: which of the pod's drivers is missing, where that one keeps pods away.
        """
        rejected = np.zeros(len(state.nodes), np.bool_)
        missing = np.zeros(len(state.nodes), np.int64)
        limits = self._limits(state)
        scaling = state.classes.release.has(VOLUME_LIMIT_SCALING)
        by_driver = self._by_driver(state, pod_class)
        for code, (driver, volumes) in enumerate(by_driver.items(), start=_TOO_MANY + 1):
            declared = state.classes.volumes.drivers.get(driver)
            if scaling and declared is not None and declared.spec.prevent_pod_scheduling_if_missing:
                missing[(missing == 0) & ~self._runs(state, driver)] = code
            if driver not in limits:
                continue
            new = np.zeros(len(state.nodes), np.int64)
            for volume in volumes:
                new += ~state.attached.holds(volume)
            rejected |= (new > 0) & (state.attached.distinct(driver) > limits[driver] - new)
        return np.where(missing, missing, rejected.astype(np.int64) * _TOO_MANY)

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        if code == _TOO_MANY:
            return self.reasons[code]
        driver = list(self._by_driver(state, pod_class))[code - _TOO_MANY - 1]
        return f"{driver} CSI driver is not installed on the node"

    def _runs(self, state: ClusterState, driver: str) -> BoolArray:
        """(nodes,) where the node's CSINode names a driver."""

        def compute() -> BoolArray:
            nodes = [state.classes.volumes.csi_nodes.get(name) for name in state.nodes.names]
            return np.array([_names_driver(node, driver) for node in nodes], np.bool_)

        return state.nodes.cached(self, ("runs", driver), compute)


def _names_driver(node: CsiNode | None, driver: str) -> bool:
    return node is not None and any(named.name == driver for named in node.spec.drivers or ())


def _limits_of_nodes(state: ClusterState) -> dict[str, IntArray]:
    """Driver -> (nodes,) what the nodes' own allocatable says of it."""
    limits: dict[str, IntArray] = {}
    for row, node in enumerate(state.nodes.table.records):
        for name, amount in (node.status.allocatable or {}).items():
            if name.startswith(_LIMIT_OF_NODE):
                of_driver = limits.setdefault(
                    name.removeprefix(_LIMIT_OF_NODE), np.full(len(state.nodes), _NO_LIMIT)
                )
                of_driver[row] = int(quantities.parse(amount))
    return limits


class EbsLimits(Plugin):
    """Passes every node, as limits of in-tree disks do once their kind is migrated to a CSI driver.

    EBSLimits, GCEPDLimits and AzureDiskLimits, until v1beta3, count disks of the old in-tree kinds. Once
    those are migrated (the default from 1.25 on), NodeVolumeLimits counts them and these reject nothing. That
    is what is modelled; a pod that mounts such a disk itself depends on limits that are never read.

    Source: kubernetes v1.25 pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go.
    """

    name = "EBSLimits"
    points = extension_points("filter")
    inputs = inputs_of(CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES)
    versions = frozenset({"v1beta1", "v1beta2", "v1beta3"})
    static = True
    disk: ClassVar[str] = "aws_elastic_block_store"  # the field of a volume that such a disk fills

    @classmethod
    def never_read(cls, pod: PodClass) -> Iterable[str]:
        """The limits of disks that are not behind a CSI driver."""
        if any(getattr(volume, cls.disk) is not None for volume in pod.spec.volumes or () if cls.disk):
            yield f"the limits that {cls.name} keeps"


class GcePdLimits(EbsLimits):
    """Passes every node."""

    name = "GCEPDLimits"
    disk = "gce_persistent_disk"


class AzureDiskLimits(EbsLimits):
    """Passes every node; disks of this kind are not decoded, so their use is not noticed."""

    name = "AzureDiskLimits"
    disk = ""
