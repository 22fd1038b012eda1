"""Counts of pods by node or topology domain that a state keeps up to date.

Affinity and topology spread ask, in every placement, how many matching pods each domain has. Counting the
pods each time would cost as much as there are pods; here a pod that comes or goes changes one cell of each of
its counts.

A counter counts the pods that some selectors match, the pods that carry some affinity terms, volumes or host
ports, or an amount of every pod. What is counted, and with which weight each pod class counts, is the same
for all states (``CounterRegistry``). The counts are each state's own (``PodCounters``); they are made when
first asked for, and copies of a state share the arrays until one of them writes.

    web = MatchingPods((selector "app=web",), terminating=False)
    number = registry.number(web)             # 0; classes 3 and 7 match it: weight 1 each
    state.counter(number, "zone")             # [4, 2, 0]: zone a, zone b, a cell that stays 0
    state.bind(pod_of_class_7, node_in_b)     # [4, 3, 0]: one cell changed
    state.evict(pod_of_class_3_in_a)          # [3, 3, 0]: this counter leaves out terminating pods
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.scheduling import matching
from rebalancer.scheduling.resources import marks_of_ports, wanted_ports
from rebalancer.scheduling.state.nodes import NodeIndex
from rebalancer.scheduling.state.volumes import marks_of


class MatchingPods(msgspec.Struct, frozen=True):
    """Pods that all of the selectors match; terminating ones count only if ``terminating`` is set."""

    selectors: tuple[matching.PodSelector, ...]
    terminating: bool


class PodsWithTerm(msgspec.Struct, frozen=True):
    """Pods that carry affinity terms, volumes or ports, each as often as its weight times the factor.

    Terminating ones count.
    """

    items: frozenset[tuple[Hashable, int]]
    terminating: bool = True


class PodSum(msgspec.Struct, frozen=True):
    """An amount of every pod, such as its limits; terminating ones count."""

    amount: Callable[[PodClass], int]
    terminating: bool = True


What = MatchingPods | PodsWithTerm | PodSum


class _Entry(msgspec.Struct):
    """A counter as one class sees it."""

    counter: int
    weight: int
    terminating: bool


class CounterRegistry:
    """What is counted, and which classes count in what; classes may be added at any time."""

    def __init__(self, classes: Sequence[PodClass]) -> None:
        """``classes`` may grow later."""
        self._pod_classes = classes
        self._numbers: dict[What, int] = {}
        self._terminating: list[bool] = []
        self._classes: list[list[tuple[int, int]]] = []  # by counter: (class, weight)
        self._entries: list[list[_Entry]] = []  # by class
        self._selected: matching.SelectorIndex[tuple[MatchingPods, int]] = matching.SelectorIndex()
        self._summed: list[tuple[PodSum, int]] = []
        self._carried: dict[Hashable, list[tuple[int, int]]] = {}  # item -> (counter, factor)
        self._by_class = matching.ClassIndex()
        self.terms: dict[matching.TermKind, matching.SelectorIndex[matching.AffinityTerm]] = {
            kind: matching.SelectorIndex() for kind in matching.TermKind
        }
        self._carriers: dict[Hashable, list[tuple[int, int]]] = {}  # item -> (class, weight)
        self._term_count = 0

    def catch_up(self) -> int:
        """File the classes added since the last call; returns how many distinct terms all classes carry."""
        while len(self._entries) < len(self._pod_classes):
            self._file(len(self._entries))
        return self._term_count

    def _file(self, pod_class: int) -> None:
        pod = self._pod_classes[pod_class]
        entries: list[_Entry] = []
        self._entries.append(entries)
        self._by_class.add(pod_class, pod.namespace, pod.labels)
        for amounts, counter in self._summed:
            self._count(pod_class, counter, amounts.amount(pod))
        for what, counter in self._selected.candidates(pod.namespace, pod.labels):
            if all(selector.matches(pod.namespace, pod.labels) for selector in what.selectors):
                self._count(pod_class, counter, 1)
        for term, weight in matching.terms_of(pod):
            if term not in self._carriers:
                self._term_count += 1
                self.terms[term.kind].add(term.filed_as(), term)
            self._carry(pod_class, term, weight)
        for mark in marks_of(pod.namespace, pod.spec) if pod.spec.volumes else ():
            self._carry(pod_class, mark, 1)
        for mark in marks_of_ports(wanted_ports(pod.spec)):
            self._carry(pod_class, mark, 1)

    def _carry(self, pod_class: int, carried: Hashable, weight: int) -> None:
        self._carriers.setdefault(carried, []).append((pod_class, weight))
        for counter, factor in self._carried.get(carried, ()):
            self._count(pod_class, counter, weight * factor)

    def _count(self, pod_class: int, counter: int, weight: int) -> None:
        self._classes[counter].append((pod_class, weight))
        self._entries[pod_class].append(_Entry(counter, weight, self._terminating[counter]))

    def number(self, what: What) -> int:
        """The id of a counter; the same for equal questions."""
        counter = self._numbers.get(what)
        if counter is not None:
            return counter
        self.catch_up()
        counter = self._numbers[what] = len(self._classes)
        self._classes.append([])
        self._terminating.append(what.terminating)
        if isinstance(what, MatchingPods):
            self._selected.add(what.selectors[0], (what, counter))
            for pod_class in self._by_class.candidates(what.selectors[0]):
                pod = self._pod_classes[pod_class]
                if all(selector.matches(pod.namespace, pod.labels) for selector in what.selectors):
                    self._count(pod_class, counter, 1)
        elif isinstance(what, PodSum):
            self._summed.append((what, counter))
            for pod_class, pod in enumerate(self._pod_classes):
                self._count(pod_class, counter, what.amount(pod))
        else:
            for carried, factor in what.items:
                self._carried.setdefault(carried, []).append((counter, factor))
                for pod_class, weight in self._carriers.get(carried, ()):
                    self._count(pod_class, counter, weight * factor)
        return counter

    def entries(self, pod_class: int) -> Sequence[_Entry]:
        """The counters a class counts in."""
        if pod_class >= len(self._entries):
            self.catch_up()
        return self._entries[pod_class]

    def classes(self, counter: int) -> Sequence[tuple[int, int]]:
        """The classes that count in a counter, with their weights."""
        return self._classes[counter]

    def counts_terminating(self, counter: int) -> bool:
        """Whether terminating pods count in a counter."""
        return self._terminating[counter]


class PodCounters:
    """The counts of one state. Arrays are shared between copies until one of them writes."""

    def __init__(self, registry: CounterRegistry, nodes: NodeIndex) -> None:
        self._registry = registry
        self._nodes = nodes
        # (counter, topology key) -> count by domain, one cell more that stays 0: a node without the label
        # has domain -1. The key "" counts by node.
        self._counts: dict[tuple[int, str], IntArray] = {}
        self._keys: dict[int, tuple[str, ...]] = {}  # counter -> the keys it is counted by
        self._own: set[tuple[int, str]] = set()

    def copy(self) -> PodCounters:
        """An independent copy; nothing is duplicated until it changes."""
        other = PodCounters(self._registry, self._nodes)
        other._counts = self._counts.copy()
        other._keys = self._keys.copy()
        self._own.clear()
        return other

    def get(self, counter: int, key: str) -> IntArray | None:
        """The counts of a counter by topology key; None when they were not made yet."""
        return self._counts.get((counter, key))

    def make(self, counter: int, key: str, first: IntArray, since: Iterable[tuple[int, int]]) -> IntArray:
        """Keep the counts of a counter by topology key: the ``first`` ones and (node, weight) ``since``."""
        self._counts[counter, key] = first
        self._keys[counter] = (*self._keys.get(counter, ()), key)
        domains = self._nodes.labels.column(key).by_node if key else None
        for node, weight in since:
            self._add((counter, key), node if domains is None else domains[node], weight)
        return self._counts[counter, key]

    def change(
        self, pod_class: int, node: int, sign: int, *, live: bool = True, terminating: bool = True
    ) -> None:
        """Count a pod of a class in or out: in counters of live pods, of all pods, or both."""
        if not self._counts:
            return
        for entry in self._registry.entries(pod_class):
            counts = terminating if entry.terminating else live
            if not counts:
                continue
            for key in self._keys.get(entry.counter, ()):
                domain = self._nodes.labels.column(key).by_node[node] if key else node
                self._add((entry.counter, key), domain, sign * entry.weight)

    def _add(self, place: tuple[int, str], domain: int, weight: int) -> None:
        if domain < 0:
            return
        if place not in self._own:
            self._counts[place] = self._counts[place].copy()
            self._own.add(place)
        self._counts[place][domain] += weight
