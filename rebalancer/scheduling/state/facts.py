"""What does not change while the model places pods: nodes, their labels and taints, the classes of pods.

Shared by all copies of a ClusterState. What depends on a pod class and on these facts alone is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.columns.nodes import BASE_RESOURCES, NodeTable
from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.records import Taint
from rebalancer.scheduling.resources.requests import PodRequests, is_scalar, pod_requests
from rebalancer.scheduling.state.counters import CounterRegistry
from rebalancer.scheduling.state.host_ports import HostPort, wanted_ports
from rebalancer.scheduling.state.node_labels import NodeLabels
from rebalancer.scheduling.state.node_order import node_order
from rebalancer.scheduling.state.volumes import UniqueVolume, Volumes

T = TypeVar("T")


class NodeIndex:
    """The static side of the nodes."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.names = table.names
        self.labels = NodeLabels([node.metadata.labels or {} for node in table.records], table.names)
        self.unschedulable: BoolArray = np.array(
            [node.spec.unschedulable for node in table.records], np.bool_
        )

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The distinct taints of all nodes."""
        return tuple(dict.fromkeys(taint for node in self.table.records for taint in node.spec.taints or ()))

    @cached_property
    def taint_counts(self) -> IntArray:
        """(nodes, taints): how often a node carries each distinct taint."""
        index = {taint: column for column, taint in enumerate(self.taints)}
        counts = np.zeros((len(self), len(index)), np.int64)
        for row, node in enumerate(self.table.records):
            for taint in node.spec.taints or ():
                counts[row, index[taint]] += 1
        return counts

    @cached_property
    def order(self) -> IntArray:
        """Node rows in the order the scheduler looks at them (backend/cache/node_tree.go:119)."""
        return node_order([node.metadata.labels or {} for node in self.table.records])

    @cached_property
    def images(self) -> Mapping[str, tuple[IntArray, IntArray]]:
        """Image name -> rows of the nodes that hold it, and its size in bytes on each of them."""
        sizes: dict[str, dict[int, int]] = {}
        for row, node in enumerate(self.table.records):
            for image in node.status.images or ():
                for name in image.names or ():
                    sizes.setdefault(name, {})[row] = image.size_bytes
        return {
            name: (np.array(list(held), np.int64), np.array(list(held.values()), np.int64))
            for name, held in sizes.items()
        }


class PodClasses:
    """The static side of the pod classes: their requests as vectors over the resource columns.

    Classes are numbered as in the snapshot; ``add`` appends those of replacements.
    """

    def __init__(self, nodes: NodeIndex, classes: Sequence[PodClass], volumes: Volumes) -> None:
        self.nodes = nodes
        self.volumes = volumes
        self.classes: list[PodClass] = list(classes)
        self.requests: list[PodRequests] = [pod_requests(pod) for pod in classes]
        requested = {name for item in self.requests for name in (*item.incoming, *item.present)}
        on_nodes = [name for name in nodes.table.resources if name in BASE_RESOURCES or is_scalar(name)]
        self.resources: tuple[str, ...] = (*on_nodes, *sorted(requested - set(on_nodes)))
        self.column: Mapping[str, int] = {name: column for column, name in enumerate(self.resources)}
        self.allocatable: IntArray = np.zeros((len(nodes), len(self.resources)), np.int64, order="F")
        kept = [column for column, name in enumerate(nodes.table.resources) if name in self.column]
        self.allocatable[:, : len(kept)] = nodes.table.allocatable[:, kept]
        self.counters = CounterRegistry(self)
        self._memory: dict[tuple[object, int], Any] = {}

    def add(self, pod: PodClass) -> int:
        """Number a class that the snapshot does not hold; ValueError if it requests an unknown resource."""
        requests = pod_requests(pod)
        unknown = {name for name in (*requests.incoming, *requests.present) if name not in self.column}
        if unknown:
            raise ValueError(f"requests {', '.join(sorted(unknown))}, which no node offers")
        self.classes.append(pod)
        self.requests.append(requests)
        return len(self.classes) - 1

    def vector(self, amounts: Mapping[str, int]) -> IntArray:
        """Amounts as a row over the resource columns."""
        row = np.zeros(len(self.resources), np.int64)
        for name, value in amounts.items():
            row[self.column[name]] = value
        return row

    def present(self, class_index: int) -> IntArray:
        """(resources,) what a pod of the class takes of its node; computed once a class."""
        return self.cached("present", class_index, lambda: self._present(class_index))

    def _present(self, class_index: int) -> IntArray:
        row = self.vector(self.requests[class_index].present)
        row[BASE_RESOURCES.index("pods")] = 0  # pods are counted, not requested
        return row

    def present_scored(self, class_index: int) -> IntArray:
        """(2,) cpu and memory a pod of the class counts for in scores, with defaults."""
        scored = self.requests[class_index].present_scored
        return self.cached(
            "present_scored", class_index, lambda: np.array([scored["cpu"], scored["memory"]], np.int64)
        )

    def ports(self, class_index: int) -> tuple[HostPort, ...]:
        """The host ports a pod of the class wants."""
        return self.cached("ports", class_index, lambda: wanted_ports(self.classes[class_index].spec))

    def csi_volumes(self, class_index: int) -> tuple[UniqueVolume, ...]:
        """The CSI volumes of a pod of the class."""
        pod = self.classes[class_index]
        if not pod.spec.volumes:
            return ()
        return self.cached(
            "csi volumes", class_index, lambda: self.volumes.unique_volumes(pod.namespace, pod.spec)
        )

    def cached(self, owner: object, class_index: int, compute: Callable[[], T]) -> T:
        """A result that depends on the class and on static facts alone, computed once."""
        key = (owner, class_index)
        if key not in self._memory:
            self._memory[key] = compute()
        result: T = self._memory[key]
        return result
