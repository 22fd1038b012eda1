"""What the scheduler's load-aware plugins see: their own sources, with their own windows and lag.

Most of them read load-watcher's document, ``GET /watcher``: figures of each node in percent of capacity.
Plugins that configure no address have a load-watcher built in, whose document is made here from what
metrics-server says. Others query Prometheus.

Source: load-watcher v0.2.4 pkg/watcher/watcher.go:260, pkg/watcher/internal/metricsprovider/k8s.go:115.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from rebalancer.cluster import quantities, times
from rebalancer.cluster.nodes import CPU, MEMORY, NodeTable
from rebalancer.cluster.records import NodeMetrics

CPU_TYPE = "CPU"
MEMORY_TYPE = "Memory"
AVERAGE = "AVG"
DEVIATION = "STD"
LATEST = "Latest"
_MAX_PERCENT = 1e9


class Metric(msgspec.Struct, frozen=True, gc=False):
    """One figure of a node, in percent of capacity."""

    type: str = ""
    operator: str = ""
    value: float = 0.0


class _NodeMetrics(msgspec.Struct, frozen=True, gc=False):
    metrics: list[Metric] | None = None


_Seconds = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Window(msgspec.Struct, frozen=True, gc=False):
    start: _Seconds = 0
    end: _Seconds = 0


class _Data(msgspec.Struct, frozen=True, gc=False):
    nodes: dict[str, _NodeMetrics] = msgspec.field(name="NodeMetricsMap")


class _Document(msgspec.Struct, frozen=True, gc=False):
    data: _Data
    timestamp: float = 0.0
    window: _Window = _Window()
    source: str = ""


class WatcherMetrics(msgspec.Struct, frozen=True):
    """What load-watcher answered: figures by node in the order given, and the window they cover."""

    nodes: Mapping[str, tuple[Metric, ...]]
    timestamp: float  # Unix seconds
    window_start: float  # Unix seconds
    window_end: float  # Unix seconds
    source: str


_decoder = msgspec.json.Decoder(_Document)


def _numeric(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """Those whose figure is a number."""
    return tuple(
        metric for metric in metrics if math.isfinite(metric.value) and abs(metric.value) <= _MAX_PERCENT
    )


def decode_watcher(content: bytes) -> WatcherMetrics:
    """Read the document; raises ValueError (msgspec's included) when it is none.

    A figure that is not a number is dropped, so that its node is unknown rather than wrong.
    """
    document = _decoder.decode(content)
    nodes = {name: _numeric(of_node.metrics or ()) for name, of_node in sorted(document.data.nodes.items())}
    end = float(document.window.end)
    return WatcherMetrics(
        nodes, document.timestamp or end, float(document.window.start), end, document.source or "load-watcher"
    )


# A plugin asks load-watcher this often (trimaran/collector.go:33).
_COLLECTING_SECONDS = 30.0
# The load-watcher that is built into it asks its source this often (load-watcher pkg/watcher/watcher.go:150);
# of one that is a service, what it says tells its window.
_FETCHING_SECONDS = 60.0


class SchedulerView(msgspec.Struct, frozen=True):
    """The inputs of load-aware plugins; ``missing`` has the reason for each address without figures."""

    watchers: Mapping[str, WatcherMetrics] = {}  # by watcherAddress; "" built in
    missing: Mapping[str, str] = {}  # address -> why there is no figure
    # By Prometheus address and query: the value by node name. A node with no sample, or several, is absent.
    queries: Mapping[tuple[str, str], Mapping[str, float]] = {}

    @property
    def lag_seconds(self) -> float:
        """How much older than this view a scheduler's own may be."""
        return _COLLECTING_SECONDS + (_FETCHING_SECONDS if "" in self.watchers else 0.0)


EMPTY_VIEW = SchedulerView()


_WINDOW_SECONDS = 900.0  # the handler always asks for 15 minutes; metrics-server ignores it


def watcher_of_metrics(metrics: Iterable[NodeMetrics], nodes: NodeTable, now: float) -> WatcherMetrics:
    """metrics-server's figures in percent of capacity, the latest ones."""
    metrics_by_node: dict[str, tuple[Metric, ...]] = {}
    newest = 0.0
    for node_metrics in metrics:
        row = nodes.row.get(node_metrics.metadata.name)
        if row is None:
            continue
        try:
            usage = node_metrics.usage or {}
            cpu = quantities.cpu_milli(usage["cpu"])
            memory = quantities.units(usage["memory"])
            newest = max(newest, times.parse(node_metrics.timestamp))
        except (ValueError, KeyError):
            continue
        capacity = nodes.capacity[row]
        if capacity[CPU] > 0 and capacity[MEMORY] > 0:
            metrics_by_node[node_metrics.metadata.name] = (
                Metric(CPU_TYPE, LATEST, 100 * cpu / int(capacity[CPU])),
                Metric(MEMORY_TYPE, LATEST, 100 * memory / int(capacity[MEMORY])),
            )
    end = newest or now
    return WatcherMetrics(
        dict(sorted(metrics_by_node.items())), end, end - _WINDOW_SECONDS, end, "metrics-server"
    )
