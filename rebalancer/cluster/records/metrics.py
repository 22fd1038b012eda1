"""The Metrics API."""

from __future__ import annotations

from rebalancer.cluster.records.base import Labels, Metadata, Record


class NodeMetrics(Record, frozen=True):
    """metrics.k8s.io/v1beta1 NodeMetrics."""

    metadata: Metadata = Metadata()
    timestamp: str = ""
    window: str = ""
    usage: Labels | None = None


class ContainerMetrics(Record, frozen=True):
    """containers[] of PodMetrics."""

    name: str = ""
    usage: Labels | None = None


class PodMetrics(Record, frozen=True):
    """metrics.k8s.io/v1beta1 PodMetrics."""

    metadata: Metadata = Metadata()
    timestamp: str = ""
    window: str = ""
    containers: list[ContainerMetrics] | None = None
