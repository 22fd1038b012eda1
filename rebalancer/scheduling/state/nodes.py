"""The nodes as columns: what never changes while the model places pods.

One ``NodeIndex`` is shared by all copies of a ``ClusterState``. Whatever depends on it alone is computed
once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.columns.nodes import NodeTable
from rebalancer.cluster.records import Taint
from rebalancer.scheduling.state.node_labels import NodeLabels
from rebalancer.scheduling.state.node_order import node_order

T = TypeVar("T")


class NodeIndex:
    """The nodes by row: names, labels, taints and images, and results that depend on nothing else."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.names = table.names
        self.labels = NodeLabels([node.metadata.labels or {} for node in table.records], table.names)
        self.unschedulable: BoolArray = np.array(
            [node.spec.unschedulable for node in table.records], np.bool_
        )
        self._cached: dict[tuple[object, Hashable], Any] = {}

    def __len__(self) -> int:
        return len(self.names)

    def cached(self, owner: object, what: Hashable, compute: Callable[[], T]) -> T:
        """A result of ``owner`` named ``what`` that depends on static facts alone, computed once."""
        key = (owner, what)
        if key not in self._cached:
            self._cached[key] = compute()
        result: T = self._cached[key]
        return result

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
