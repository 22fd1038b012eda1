"""The nodes as columns: what never changes while the model places pods.

One ``NodeIndex`` is shared by all copies of a ``ClusterState``. Whatever depends on it alone is computed
once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.columns.nodes import NodeTable
from rebalancer.cluster.records import Taint
from rebalancer.scheduling.state.node_labels import NodeLabels
from rebalancer.scheduling.state.node_order import node_order

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class HeldImage:
    """An image that nodes hold: the scheduler counts one size on all of them.

    That is the size on the node that registered the name first (backend/cache/cache.go:683). Which node that
    was, a scheduler that has run for a while alone knows.
    """

    rows: IntArray  # of the nodes that hold it
    sizes: tuple[int, ...]  # bytes; each that occurs, that of the first to register first


class NodeIndex:
    """The nodes by row: names, labels, taints and images, and results that depend on nothing else."""

    def __init__(self, table: NodeTable, registered: Sequence[str] = ()) -> None:
        """``registered`` are the nodes in the order the scheduler came to know them; by name if unknown."""
        self.table = table
        self._registered = [table.row[name] for name in registered] or list(range(len(table)))
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
        rows = np.array(self._registered, np.int64)
        return rows[node_order([self.table.records[row].metadata.labels or {} for row in self._registered])]

    @cached_property
    def images(self) -> Mapping[str, HeldImage]:
        """The images on nodes by name."""
        rows: dict[str, dict[int, None]] = {}
        sizes: dict[str, dict[int, None]] = {}
        for row in self._registered:
            for image in self.table.records[row].status.images or ():
                for name in image.names or ():
                    rows.setdefault(name, {})[row] = None
                    sizes.setdefault(name, {})[image.size_bytes] = None
        return {
            name: HeldImage(np.array(list(held), np.int64), tuple(sizes[name])) for name, held in rows.items()
        }
