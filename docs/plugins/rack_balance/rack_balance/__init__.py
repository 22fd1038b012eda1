"""RackBalance: mirrors a Go score plugin that prefers the racks with the fewest pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles import ExtensionPoint, PluginDescription
from rebalancer.scheduling.framework.plugin import Normalization, Plugin, normalize_by_maximum
from rebalancer.scheduling.plugins.registry import PluginInputs
from rebalancer.scheduling.state.cluster_state import ClusterState


class RackBalance(Plugin):
    """Scores 100 − pods of the node's rack · 100 ÷ pods of the fullest rack among the nodes compared."""

    name = "RackBalance"
    points = frozenset({ExtensionPoint.SCORE})
    normalization = Normalization.MAXIMUM

    def __init__(self, label: str) -> None:
        """``label`` is the node label that names the rack."""
        self._label = label

    def _racks(self, state: ClusterState) -> IntArray:
        """(nodes,) the number of each node's rack; computed once, for labels do not change."""
        labels = [node.metadata.labels or {} for node in state.nodes.table.records]
        names = [item.get(self._label, "") for item in labels]
        _, rack = np.unique(names, return_inverse=True)
        return np.asarray(rack, np.int64)

    def raw_scores(self, state: ClusterState, class_index: int, feasible: IntArray) -> IntArray:
        """The pods of each node's rack."""
        racks = state.facts.cached((self, "racks"), -1, lambda: self._racks(state))
        pods = np.bincount(racks, weights=state.pod_count).astype(np.int64)
        return pods[racks[feasible]]

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """As the scheduler's DefaultNormalizeScore, reversed."""
        return normalize_by_maximum(raw, largest, reverse=True)


class RackBalanceFactory:
    """What the entry point names."""

    description = PluginDescription(name="RackBalance", points=frozenset({ExtensionPoint.SCORE}))

    def make(self, arguments: Mapping[str, Any], inputs: PluginInputs) -> RackBalance:
        """The plugin of one profile; ``arguments`` are its pluginConfig as written."""
        return RackBalance(str(arguments.get("rackLabel", "example.com/rack")))


FACTORY = RackBalanceFactory()
