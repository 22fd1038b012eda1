"""Which CSI volumes each node holds, and how many of each driver.

Pods use volumes, and VolumeAttachments may name others that no pod uses, any more or yet: those take room as
well, and a pod that comes and wants one is counted beside it. Once the pods of an attached volume are gone
the volume is taken to be detached.

    limit 2, attached: vol-1 (of a pod) and vol-2 (of none)     2 in use
    a pod with vol-1 comes                                      0 new ones: it fits
    a pod with vol-2 comes                                      1 new one: it does not

Source: kubernetes v1.35.4 pkg/scheduler/framework/plugins/nodevolumelimits/csi.go:255.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.scheduling.state.csi_migration import UniqueVolume


class AttachedVolumes:
    """Uses of each volume on each node; a volume of many pods counts once on a node."""

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
