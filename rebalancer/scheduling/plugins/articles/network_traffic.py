"""NetworkTraffic of the article: the less a node receives, the better, as intended.

The published code builds a wrong query, so that it always fails; modelled is what it was meant to do.

Source: the article's plugin (docs/plugins).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.profiles.load_arguments import NetworkTrafficArguments
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Normalization, Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState

_LARGEST = float(1 << 56)  # bytes; beyond it Go's integers would overflow
_BY_NODE = "* on(instance) group_left(nodename) (node_uname_info)"


def published_query(arguments: NetworkTrafficArguments) -> str:
    """The article's query, of all nodes at once: the series carry the node's name as ``nodename``.

    It adds up samples of a counter, which says how much a node has received since it started rather than
    how busy its network is now.
    """
    counter = f'node_network_receive_bytes_total{{device="{arguments.device_name}"}}'
    return f"sum_over_time({counter}[{arguments.time_range_minutes}m]) {_BY_NODE}"


def rate_query(arguments: NetworkTrafficArguments) -> str:
    """The better choice: bytes received a second."""
    counter = f'node_network_receive_bytes_total{{device="{arguments.device_name}"}}'
    return f"rate({counter}[{arguments.time_range_minutes}m]) {_BY_NODE}"


class NetworkTraffic(Plugin):
    """Scores 100 − traffic·100 ÷ the largest traffic."""

    name = "NetworkTraffic"
    points = frozenset({ExtensionPoint.SCORE})
    normalization = Normalization.MAXIMUM

    def __init__(self, traffic: Mapping[str, float]) -> None:
        """``traffic`` is the query's value by node name."""
        self._traffic = traffic

    def _of_nodes(self, state: ClusterState) -> FloatArray:
        """(nodes,) NaN where there is no sample."""
        return state.facts.cached(
            (self, "traffic"),
            -1,
            lambda: np.array([self._traffic.get(name, np.nan) for name in state.nodes.names], np.float64),
        )

    def fails(self, state: ClusterState, feasible: IntArray) -> str:
        """A feasible node without exactly one sample fails the pod's cycle."""
        missing = np.flatnonzero(np.isnan(self._of_nodes(state)[feasible]))
        return f"no sample of node {state.nodes.names[feasible[missing[0]]]}" if len(missing) else ""

    def raw_scores(self, state: ClusterState, class_index: int, feasible: IntArray) -> IntArray:
        """The traffic, without its fraction."""
        traffic = np.nan_to_num(self._of_nodes(state)[feasible], nan=0.0)
        return np.trunc(np.clip(traffic, 0.0, _LARGEST)).astype(np.int64)

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """100 where there is none; all 100 when there is none anywhere, where the Go code would crash."""
        if largest <= 0:
            return np.full_like(raw, MAX_SCORE)
        return MAX_SCORE - raw * MAX_SCORE // largest

    def note(self, raw: IntArray) -> str:
        """Zero traffic everywhere is no measurement one would trust."""
        return "no traffic anywhere: all nodes score 100" if not raw.any() else ""
