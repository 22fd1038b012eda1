"""Pods by number: those a state began with, shared by all its copies, and what each copy changed since."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.scheduling.state.pod_classes import PodClasses


class Column:
    """An integer by pod; a copy costs what was changed, not what there is."""

    __slots__ = ("_changed", "_first", "_length")

    def __init__(self, first: IntArray) -> None:
        self._first = array("q", first.tolist())  # never changed; read one by one they are ints
        self._changed: dict[int, int] = {}
        self._length = len(first)

    def __getitem__(self, pod: int) -> int:
        found = self._changed.get(pod)
        return self._first[pod] if found is None else found

    def __setitem__(self, pod: int, value: int) -> None:
        self._changed[pod] = value

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return iter(self.values().tolist())

    def values(self) -> IntArray:
        """(pods,) all of them."""
        values = np.zeros(self._length, np.int64)
        values[: len(self._first)] = self._first
        values[list(self._changed)] = list(self._changed.values())
        return values

    def append(self, value: int) -> None:
        """One pod more."""
        self._changed[self._length] = value
        self._length += 1

    def copy(self) -> Column:
        """An independent column."""
        other = Column.__new__(Column)
        other._first, other._changed, other._length = self._first, self._changed.copy(), self._length
        return other


@dataclass(frozen=True, eq=False)
class FirstPods:
    """The pods a state began with. What they add up to is counted once, for all copies of the state."""

    classes: PodClasses
    node: IntArray  # (pods,) row of its node; negative: on none
    pod_class: IntArray  # (pods,)
    terminating: BoolArray  # (pods,)
    _counts: dict[tuple[int, str], IntArray] = field(default_factory=dict)

    @cached_property
    def by_class(self) -> dict[int, IntArray]:
        """The pods of each class that are on a node."""
        order = np.argsort(self.pod_class, kind="stable")
        order = order[self.node[order] >= 0]
        classes, starts = np.unique(self.pod_class[order], return_index=True)
        return dict(zip(classes.tolist(), np.split(order, starts[1:]), strict=True)) if len(order) else {}

    def is_counted(self, pod: int, *, terminating: bool) -> bool:
        """Whether a pod was on a node, and not terminating unless these count."""
        return pod < len(self.node) and self.node[pod] >= 0 and (terminating or not self.terminating[pod])

    def counts(self, counter: int, key: str) -> IntArray:
        """(domains + 1,) a counter by topology key, by node without one; the last cell is 0. Read it only."""
        found = self._counts.get((counter, key))
        if found is None:
            found = self._counts[counter, key] = self._count(counter, key)
        return found

    def _count(self, counter: int, key: str) -> IntArray:
        book, nodes = self.classes.counters, self.classes.nodes
        column = nodes.labels.column(key) if key else None
        counts = np.zeros((len(nodes) if column is None else len(column.names)) + 1, np.int64)
        for class_index, weight in book.classes(counter):
            pods = self.by_class.get(class_index)
            if pods is None:
                continue
            if not book.counts_terminating(counter):
                pods = pods[~self.terminating[pods]]
            domains = self.node[pods] if column is None else column.values[self.node[pods]]
            np.add.at(counts, domains, weight)
        counts[-1] = 0  # nodes without the key
        return counts

    def sums(self) -> tuple[IntArray, IntArray, IntArray]:
        """By node: (nodes, resources) what pods take, (nodes, 2) what scores count, (nodes,) their number."""
        all_classes = self.classes
        pods = np.flatnonzero(self.node >= 0)
        pods = pods[np.argsort(self.node[pods], kind="stable")]
        nodes, starts, number = np.unique(self.node[pods], return_index=True, return_counts=True)
        classes, kind = np.unique(self.pod_class[pods], return_inverse=True)
        found = []
        for width, amounts in (
            (len(all_classes.resources), all_classes.present),
            (2, all_classes.present_scored),
        ):
            by_class = np.array([amounts(item) for item in classes.tolist()], np.int64).reshape(-1, width)
            total = np.zeros((len(all_classes.nodes), width), np.int64, order="F")
            if len(pods):
                total[nodes] = np.add.reduceat(by_class[kind], starts, axis=0)
            found.append(total)
        count = np.zeros(len(all_classes.nodes), np.int64)
        count[nodes] = number
        return found[0], found[1], count
