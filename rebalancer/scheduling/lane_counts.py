"""The counts that spread and affinity look at, of many states side by side (``lanes``).

How many pods of some sort are in each domain of a topology key stands in the cells of one row a state. What a
pod looks at is a slot: for each node the cell of its domain. Pods have more or fewer slots, so those of one
number are stacked: (pods, nodes).

    cells    web in zone a, zone b, zone c, api on n1, n2, n3, nobody
    row      2 2 1   0 1 1   0
    slot     n1, n2, n3 of zones a, b, b: cells 0, 1, 1
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.scheduling.plugins.pod_topology_spread import HOSTNAME
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.domains import DomainCounter

_NO_LIMIT = 1 << 60  # of skew


class Slot(msgspec.Struct, frozen=True, eq=False):
    """Counts that a class looks at: (nodes,) their cells, and what the counts mean there."""

    cells: IntArray
    weight: int = 0  # of an affinity
    constraint: DomainCounter | None = None


class Cells:
    """The counts of a state in one row: each counter by topology key, and last a cell that stays 0."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._begin: dict[tuple[int, str], int] = {}
        self._parts: list[IntArray] = []
        self.nobody = 0

    def slot(self, counter: int, key: str) -> IntArray:
        """(nodes,) the cell of each node's domain; -1 where it has none."""
        nodes = len(self._state.nodes)
        if counter < 0:
            return np.full(nodes, -1)
        place = counter, key
        if place not in self._begin:
            counts = self._state.counter(counter, key)
            self._begin[place] = self.nobody
            self._parts.append(counts)
            self.nobody += len(counts)
        domains = self._state.nodes.labels.column(key).values if key else np.arange(nodes)
        return np.where(domains >= 0, self._begin[place] + domains, -1)

    def row(self) -> IntArray:
        """(cells,) all counts."""
        return np.concatenate([*self._parts, np.zeros(1, np.int64)])

    def changed_by(self, pod_class: int, *, terminating: bool) -> list[tuple[IntArray, int]]:
        """The cells by node in which pods of a class count, with their weights.

        ``terminating`` are counters that count terminating pods, the others are those that do not.
        """
        weights: dict[tuple[int, str], int] = {}
        for entry in self._state.classes.counters.entries(pod_class):
            if entry.terminating != terminating:
                continue
            for counter, key in self._begin:
                if counter == entry.counter:
                    weights[counter, key] = weights.get((counter, key), 0) + entry.weight
        return [(self.slot(*place), weight) for place, weight in weights.items()]


class StackedSlots(msgspec.Struct, frozen=True, eq=False):
    """The slots of one number of all pods; a pod that has fewer looks at cells that stay 0."""

    cells: IntArray  # (pods, nodes)
    has_domain: BoolArray  # (pods, nodes)
    is_counted: BoolArray  # (pods, nodes) pods there count
    weight: IntArray  # (pods,)
    by_node: BoolArray  # (pods,)
    constant: FloatArray  # (pods,)
    max_skew: IntArray  # (pods,)
    itself: IntArray  # (pods,)
    enough: BoolArray  # (pods,) whether there are minDomains domains; with fewer the least count is 0
    # For each topology key: (pods,) which count by it, and (nodes, domains) the domain of each node.
    domains: Sequence[tuple[BoolArray, BoolArray]]

    def weights(self, feasible: BoolArray, pods: IntArray, logarithms: FloatArray) -> FloatArray:
        """(lanes,) by how many domains the feasible nodes have, ``logarithms`` being those of numbers.

        By node each of them is a domain.
        """
        by_domains: FloatArray = np.zeros(len(pods))
        for of_pods, members in self.domains:
            # A node is a member of one domain, those without the key of one more.
            count = np.count_nonzero(feasible @ members, axis=1)
            by_domains = np.where(of_pods[pods], logarithms[count], by_domains)
        of_nodes = logarithms[np.count_nonzero(feasible, axis=1)]
        return np.where(self.by_node[pods], of_nodes, by_domains)


class Counts(msgspec.Struct, frozen=True, eq=False):
    """The counts that the pods to place look at."""

    cells: IntArray  # (all lanes, cells)
    lanes: IntArray  # (lanes, 1)
    pods: IntArray  # (lanes,)

    def of(self, slot: StackedSlots) -> IntArray:
        """(lanes, nodes) those of one slot."""
        counts: IntArray = self.cells[self.lanes, slot.cells[self.pods]]
        return counts


def stack(slots: Sequence[Sequence[Slot]], nobody: int) -> list[StackedSlots]:
    """The slots of all pods by their number; ``nobody`` is a cell that stays 0."""
    count = max(map(len, slots), default=0)
    stacked = list[StackedSlots]()
    for number in range(count):
        of_number = [_numbered(of_pod, number) for of_pod in slots]
        stacked.append(_stacked(of_number, nobody))
    return stacked


def _numbered(slots: Sequence[Slot], number: int) -> Slot | None:
    return slots[number] if number < len(slots) else None


def _stacked(slots: Sequence[Slot | None], nobody: int) -> StackedSlots:
    nodes = next(len(slot.cells) for slot in slots if slot is not None)
    none = Slot(np.full(nodes, -1))
    every = [slot or none for slot in slots]
    cells = np.array([slot.cells for slot in every])
    counters = [slot.constraint for slot in every]
    keys = [None if counter is None else counter.constraint.topology_key for counter in counters]
    by_key = {key: counter for key, counter in zip(keys, counters, strict=True) if counter is not None}
    domains: list[tuple[BoolArray, BoolArray]] = []
    for key, counter in by_key.items():
        if key != HOSTNAME:
            members = counter.values[:, None] == np.arange(-1, counter.number_of_domains)
            domains.append((np.array([other == key for other in keys]), members))
    enough = [
        counter is not None and len(counter.populated) >= counter.constraint.min_domains
        for counter in counters
    ]
    return StackedSlots(
        cells=np.where(cells >= 0, cells, nobody),
        has_domain=np.array([_has_domain(slot) for slot in every]),
        is_counted=np.array([_is_counted(slot) for slot in every]),
        weight=np.array([slot.weight for slot in every]),
        by_node=np.array([key == HOSTNAME for key in keys]),
        constant=np.array(
            [0.0 if counter is None else counter.constraint.max_skew - 1.0 for counter in counters]
        ),
        max_skew=np.array(
            [_NO_LIMIT if counter is None else counter.constraint.max_skew for counter in counters]
        ),
        itself=np.array([0 if counter is None else counter.itself for counter in counters]),
        enough=np.array(enough),
        domains=domains,
    )


def _has_domain(slot: Slot) -> BoolArray:
    if slot.constraint is None:
        return np.zeros(len(slot.cells), np.bool_)
    return slot.constraint.values >= 0


def _is_counted(slot: Slot) -> BoolArray:
    """(nodes,) whose pods count."""
    counted = _has_domain(slot)
    if slot.constraint is not None and slot.constraint.rows is not None:
        others = np.ones(len(counted), np.bool_)
        others[slot.constraint.rows] = False
        counted = counted & ~others
    return counted
