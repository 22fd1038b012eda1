"""RackBalance: mirrors a Go score plugin that prefers the racks with the fewest pods."""

from __future__ import annotations

from typing import Self

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles import Arguments, ExtensionPoint
from rebalancer.scheduling import ClusterState, Normalization, Plugin, PluginInputs, normalize_by_maximum


class RackBalanceArguments(Arguments):
    """``pluginConfig[].args`` of RackBalance; unknown fields are refused."""

    rack_label: str = "example.com/rack"  # rackLabel in the configuration


class RackBalance(Plugin):
    """Scores 100 − pods of the node's rack · 100 ÷ pods of the fullest rack among the nodes compared."""

    name = "RackBalance"
    points = frozenset({ExtensionPoint.SCORE})
    Arguments = RackBalanceArguments
    scored_resources = frozenset({"pods"})
    normalization = Normalization.MAXIMUM

    def __init__(self, label: str) -> None:
        """``label`` is the node label that names the rack."""
        self._label = label

    @classmethod
    def make(cls, arguments: RackBalanceArguments, inputs: PluginInputs) -> Self:
        """The plugin of one profile."""
        return cls(arguments.rack_label)

    def _racks(self, state: ClusterState) -> IntArray:
        """(nodes,) the number of each node's rack."""
        labels = [node.metadata.labels or {} for node in state.nodes.table.records]
        names = [item.get(self._label, "") for item in labels]
        _, rack = np.unique(names, return_inverse=True)
        return np.asarray(rack, np.int64)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """The pods of each node's rack; the racks are found once, because labels do not change."""
        racks = state.nodes.cached(self, "racks", lambda: self._racks(state))
        pods = np.bincount(racks, weights=state.pod_count).astype(np.int64)
        return pods[racks[feasible]]

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """As the scheduler's DefaultNormalizeScore, reversed."""
        return normalize_by_maximum(raw, largest, reverse=True)
