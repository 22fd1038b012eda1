"""Nodes."""

from __future__ import annotations

from rebalancer.cluster.records.base import Condition, Int64, Labels, Metadata, Record, Taint


class NodeImage(Record, frozen=True):
    """status.images[] of a node."""

    names: list[str] | None = None
    size_bytes: Int64 = 0


class NodeSpec(Record, frozen=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeAddress(Record, frozen=True):
    """status.addresses[] of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(Record, frozen=True):
    """status of a node."""

    allocatable: Labels | None = None
    capacity: Labels | None = None
    conditions: list[Condition] | None = None
    images: list[NodeImage] | None = None
    addresses: list[NodeAddress] | None = None


class Node(Record, frozen=True):
    """v1 Node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


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
