"""What the load-watcher built into a plugin sees when it reads metrics-server.

Source: load-watcher v0.2.4 pkg/watcher/internal/metricsprovider/k8s.go:115.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.cluster import quantities, times
from rebalancer.cluster.nodes import CPU, MEMORY, NodeTable
from rebalancer.cluster.records import NodeMetrics
from rebalancer.load.load_watcher.document import CPU as CPU_TYPE
from rebalancer.load.load_watcher.document import LATEST, Metric, WatcherMetrics
from rebalancer.load.load_watcher.document import MEMORY as MEMORY_TYPE

_WINDOW_SECONDS = 900.0  # the handler always asks for 15 minutes; metrics-server ignores it


def watcher_of_metrics(metrics: Iterable[NodeMetrics], nodes: NodeTable, now: float) -> WatcherMetrics:
    """metrics-server's figures in percent of capacity, the latest ones."""
    found: dict[str, tuple[Metric, ...]] = {}
    newest = 0.0
    for item in metrics:
        row = nodes.row.get(item.metadata.name)
        if row is None:
            continue
        try:
            usage = item.usage or {}
            cpu = quantities.cpu_milli(usage["cpu"])
            memory = quantities.units(usage["memory"])
            newest = max(newest, times.parse(item.timestamp))
        except (ValueError, KeyError):
            continue
        capacity = nodes.capacity[row]
        if capacity[CPU] > 0 and capacity[MEMORY] > 0:
            found[item.metadata.name] = (
                Metric(CPU_TYPE, LATEST, 100 * cpu / int(capacity[CPU])),
                Metric(MEMORY_TYPE, LATEST, 100 * memory / int(capacity[MEMORY])),
            )
    end = newest or now
    return WatcherMetrics(dict(sorted(found.items())), end, end - _WINDOW_SECONDS, end, "metrics-server")
