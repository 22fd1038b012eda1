"""NetworkTraffic of the article: the less a node receives, the better, as intended.

The published code builds a wrong query, so that it always fails; modelled is what it was meant to do.

Source: the article's plugin (docs/plugins).
"""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import Arguments, Input, PluginQuery, extension_points
from rebalancer.profiles.types import Arguments as PluginArguments
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Normalization, PluginInputs
from rebalancer.scheduling.plugins.prometheus_score import QueriedScore
from rebalancer.scheduling.state.cluster_state import ClusterState

_LARGEST = float(1 << 56)  # bytes; beyond it Go's integers would overflow
_BY_NODE = "* on(instance) group_left(nodename) (node_uname_info)"


class NetworkTrafficArguments(Arguments):
    """Arguments of NetworkTraffic: Prometheus (``ip``), a network interface, minutes."""

    ip: str = Field(min_length=1)
    device_name: str = Field(min_length=1)
    time_range_minutes: int = Field(ge=1, validation_alias="timeRange")


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


class NetworkTraffic(QueriedScore):
    """Scores 100 − traffic·100 ÷ the largest traffic."""

    name = "NetworkTraffic"
    points = extension_points("score")
    Arguments = NetworkTrafficArguments
    inputs = frozenset({Input.PROMETHEUS})
    scored_resources = frozenset({"networkReceive"})
    normalization = Normalization.MAXIMUM

    @classmethod
    def make(cls, arguments: NetworkTrafficArguments, inputs: PluginInputs) -> Self:
        """With the answer to the article's query if that was asked, else with the rate."""
        answers = (
            inputs.view.queries.get((arguments.ip, query))
            for query in (published_query(arguments), rate_query(arguments))
        )
        return cls(next((answer for answer in answers if answer is not None), {}))

    @classmethod
    def queries(cls, arguments: PluginArguments | None) -> tuple[PluginQuery, ...]:
        if not isinstance(arguments, NetworkTrafficArguments):
            return ()
        return (PluginQuery(arguments.ip, published_query(arguments)),)

    def fails(self, state: ClusterState, pod_class: int, feasible: IntArray) -> str:
        """A feasible node without exactly one sample fails the pod's cycle."""
        missing = self.without_value(state, feasible)
        return f"no sample of node {missing}" if missing else ""

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """The traffic, without its fraction."""
        traffic = np.nan_to_num(self.values_of_nodes(state)[feasible], nan=0.0)
        return np.trunc(np.clip(traffic, 0.0, _LARGEST)).astype(np.int64)

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """100 where there is none; all 100 when there is none anywhere, where the Go code would crash."""
        if largest <= 0:
            return np.full_like(raw, MAX_SCORE)
        return MAX_SCORE - raw * MAX_SCORE // largest

    def note(self, raw: IntArray) -> str:
        """Zero traffic everywhere is not a measurement one would trust."""
        return "no traffic anywhere: all nodes score 100" if not raw.any() else ""
