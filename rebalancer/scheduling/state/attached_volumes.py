"""Which CSI volumes each node holds, and how many of each driver.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodevolumelimits/csi.go:255.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.scheduling.state.volumes import UniqueVolume


class AttachedVolumes:
    """Uses of each volume on each node; a volume of many pods counts once on a node."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        # volume -> node -> pods; the inner maps are replaced, never changed, so that copies share them
        self._uses: dict[UniqueVolume, Mapping[int, int]] = {}
        self._counts: dict[str, IntArray] = {}  # driver -> (nodes,) distinct volumes

    def copy(self) -> AttachedVolumes:
        """An independent copy."""
        other = AttachedVolumes(self._nodes)
        other._uses = self._uses.copy()
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
            if (before > 0) != (before + pods > 0):
                self._of(volume.driver)[node] += 1 if before == 0 else -1

    def attach(self, volume: UniqueVolume, node: int) -> None:
        """A volume that is attached although no pod on the node uses it; it stays."""
        if node not in self._uses.get(volume, {}):
            self.count((volume,), node, 1)

    def _of(self, driver: str) -> IntArray:
        if driver not in self._counts:
            self._counts[driver] = np.zeros(self._nodes, np.int64)
        return self._counts[driver]

    def distinct(self, driver: str) -> IntArray:
        """(nodes,) how many volumes of a driver each node holds; read it only."""
        return self._of(driver)

    def holds(self, volume: UniqueVolume) -> BoolArray:
        """(nodes,) where a volume is in use."""
        held = np.zeros(self._nodes, np.bool_)
        held[list(self._uses.get(volume, ()))] = True
        return held
