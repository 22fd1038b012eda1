"""Plugins that score by given figures, for searches of a sample of the nodes."""

from __future__ import annotations

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.plugin import Normalization, Plugin, normalize_by_maximum
from rebalancer.scheduling.plugins.pod_topology_spread import PodTopologySpread


class Plain(Plugin):
    name = "Plain"


class ByMaximum(Plugin):
    name = "ByMaximum"
    normalization = Normalization.MAXIMUM

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        return normalize_by_maximum(raw, largest)


class ByRange(Plugin):
    name = "ByRange"
    normalization = Normalization.RANGE

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        return PodTopologySpread.normalize(self, raw, smallest, largest)  # type: ignore[arg-type]
