"""Figures of sources, as short as they can be said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.cluster import times
from rebalancer.cluster.dumps.listing import PackedPodMetrics, PodMetricsCollector
from rebalancer.cluster.kinds import POD_METRICS
from rebalancer.cluster.records import ContainerMetrics, Metadata, NodeMetrics, PodMetrics
from rebalancer.load.scheduler_view import WatcherMetrics, decode_watcher

NOW = 1_795_176_000.0  # 2026-11-20T12:00:00Z


def a_node_metric(
    name: str,
    cpu: str | None = "1",
    memory: str | None = "1Gi",
    *,
    age: float = 0,
    window: str = "15s",
    timestamp: str = "",
) -> NodeMetrics:
    usage = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    moment = timestamp or times.render(NOW - age)
    return NodeMetrics(Metadata(name=name), timestamp=moment, window=window, usage=usage)


def a_pod_metric(name: str, *containers: Mapping[str, str], age: float = 0) -> PodMetrics:
    return PodMetrics(
        Metadata(name=name, namespace="default"),
        timestamp=times.render(NOW - age),
        window="15s",
        containers=[
            ContainerMetrics(name=str(place), usage=dict(usage)) for place, usage in enumerate(containers)
        ],
    )


def metric_rows(*metrics: PodMetrics) -> PackedPodMetrics:
    """What is read of usage of pods."""
    builder = PodMetricsCollector()
    for metric in metrics:
        builder.add(metric)
    return builder.seal(POD_METRICS)[0]


def a_watcher(
    nodes: Mapping[str, list[dict[str, Any]]], *, age: float = 0, window: int = 900
) -> WatcherMetrics:
    import json

    end = int(NOW - age)
    document = {
        "timestamp": end,
        "window": {"duration": "15m", "start": end - window, "end": end},
        "source": "Prometheus",
        "data": {"NodeMetricsMap": {name: {"metrics": metrics} for name, metrics in nodes.items()}},
    }
    return decode_watcher(json.dumps(document).encode())


def a_percentage(kind: str, value: float, operator: str = "AVG") -> dict[str, Any]:
    return {"name": "", "type": kind, "operator": operator, "rollup": "15m", "value": value}
