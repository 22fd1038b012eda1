"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodevolumelimits/csi.go:255.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.kinds import (
    CLAIMS,
    CSI_NODES,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from rebalancer.profiles.types import ExtensionPoint, Input
from rebalancer.scheduling.framework.plugin import PASS, SKIP, Evidence, Plugin, PreFilter
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.volumes import UniqueVolume, claim_names

_NO_LIMIT = int(np.iinfo(np.int64).max)


class NodeVolumeLimits(Plugin):
    """Rejects where a driver's volumes in use and the pod's new ones exceed what its CSINode allows."""

    name = "NodeVolumeLimits"
    points = frozenset({ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER})
    inputs = frozenset(
        {
            Input.PERSISTENT_VOLUME_CLAIMS,
            Input.PERSISTENT_VOLUMES,
            Input.STORAGE_CLASSES,
            Input.CSI_NODES,
            Input.VOLUME_ATTACHMENTS,
            Input.CSI_DRIVERS,
        }
    )
    kinds_for_claims = (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_NODES, VOLUME_ATTACHMENTS)
    evidence = Evidence.DECISIONS
    static_pre_filter = True

    def _wanted(self, state: ClusterState, class_index: int) -> Mapping[str, Sequence[UniqueVolume]]:
        by_driver: dict[str, list[UniqueVolume]] = {}
        for volume in state.classes.csi_volumes(class_index):
            by_driver.setdefault(volume.driver, []).append(volume)
        return by_driver

    def _limits(self, state: ClusterState) -> Mapping[str, IntArray]:
        """Driver -> (nodes,) the most volumes of it; a driver without any limit is absent."""

        def compute() -> Mapping[str, IntArray]:
            limits: dict[str, IntArray] = {}
            for row, name in enumerate(state.nodes.names):
                csi_node = state.classes.volumes.csi_nodes.get(name)
                for driver in (csi_node.spec.drivers if csi_node else None) or ():
                    if driver.allocatable is not None and driver.allocatable.count is not None:
                        of_driver = limits.setdefault(driver.name, np.full(len(state.nodes), _NO_LIMIT))
                        of_driver[row] = driver.allocatable.count
            return limits

        return state.nodes.cached(self, "limits", compute)

    def pre_filter(self, state: ClusterState, class_index: int) -> PreFilter:
        """Nothing to filter for a pod without claims."""
        return PASS if claim_names(state.classes[class_index].spec) else SKIP

    def filter(self, state: ClusterState, class_index: int) -> IntArray:
        """1 where |in use| + |new ones not in use there| > limit, for a driver with new ones."""
        rejected = np.zeros(len(state.nodes), np.bool_)
        limits = self._limits(state)
        for driver, volumes in self._wanted(state, class_index).items():
            if driver not in limits:
                continue
            new = np.zeros(len(state.nodes), np.int64)
            for volume in volumes:
                new += ~state.attached.holds(volume)
            rejected |= (new > 0) & (state.attached.distinct(driver) > limits[driver] - new)
        return rejected.astype(np.int64)

    def reason(self, state: ClusterState, class_index: int, code: int) -> str:
        """The scheduler's words."""
        return "node(s) exceed max volume count"
