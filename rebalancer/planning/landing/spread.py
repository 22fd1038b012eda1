"""What a landing costs in availability: where replicas come to share a node, or a zone loses its last one.

A node that fails takes all of its pods along. So a replacement that joins another replica of its controller,
where the pod that leaves had a node to itself, is worse placed than before; likewise if it leaves a zone
without any replica for one that has some. The fewer nodes or zones are left, the more that costs:

    api  one replica on a, one on b    a to b    both on one node: 1
    web  ten, each on its own node     a to b    nine nodes are left: 1/9
    db   two on a, one on b            a to b    a keeps one: 0
    job  one, in zone z1               to z2     one zone as before: 0

What topology spread constraints ask for is counted by the scheduler's own counters. What is left to do for
one is the fewest moves after which no domain has more than maxSkew pods more than another:

    zones a, b, c have 4, 3, 2 matching pods, maxSkew 1    one move, from a to c: 3, 3, 3
    zones a, b, c have 5, 2, 2                             two moves: 4, 3, 2 is too skewed still
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.counting import counted
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.domains import DomainCounter
from rebalancer.scheduling.state.nodes import zone_key

MOST_LOST = 2.0  # units that a landing costs at most: the last other node, and the last other zone


class LostSpread(msgspec.Struct, frozen=True, eq=False):
    """What each of some landings takes away."""

    beside: BoolArray  # (nodes,) joins another replica, which the pod did not before
    emptied: BoolArray  # (nodes,) leaves a zone without any replica, for one that has some
    cost: FloatArray  # (nodes,) 1 by the nodes that are left, and 1 by the zones; 0 where nothing is lost


class Spread:
    """Looks up where the replicas of a pod's controller are."""

    def __init__(self, workloads: Workloads, pods: PodTable, nodes: NodeTable) -> None:
        self._workloads = workloads
        self._pods = pods
        keys = [zone_key(node.metadata.labels or {}) for node in nodes.records]
        zones = sorted({key for key in keys if any(key)})
        self._zone: IntArray = np.array([zones.index(key) if any(key) else -1 for key in keys], np.int64)
        self._zones = len(zones)
        self._first_of: dict[str, tuple[IntArray, frozenset[int]]] = {}  # see ``_first``

    def lost(self, state: ClusterState, pod: PodRow, source: NodeRow, rows: IntArray) -> LostSpread:
        """What landings on each of the (nodes,) ``rows`` cost; ``state`` still has the pod."""
        on_node = self._others(state, pod)
        nodes_left = int(np.count_nonzero(on_node))
        beside: BoolArray = np.zeros(len(rows), np.bool_)
        emptied: BoolArray = np.zeros(len(rows), np.bool_)
        if not nodes_left:
            return LostSpread(beside, emptied, np.zeros(len(rows)))
        if not on_node[source]:
            beside = on_node.take(rows) > 0
        here = self._zone[source]
        zones_left = 1
        if here >= 0 and self._zones > 1:
            # Nodes without a zone have the last cell.
            in_zone = np.bincount(self._zone % (self._zones + 1), on_node, self._zones + 1)
            zones_left = max(int(np.count_nonzero(in_zone[:-1])), 1)
            if not in_zone[here]:
                there = self._zone.take(rows)
                emptied = (there >= 0) & (there != here) & (in_zone[there] > 0)
        return LostSpread(beside, emptied, beside / nodes_left + emptied / zones_left)

    def _others(self, state: ClusterState, pod: PodRow) -> IntArray:
        """(nodes,) how many other replicas are on each, those that are leaving left out."""
        uid = state.classes[state.pod_class[pod]].owner.uid
        on_node, staying = self._first(state, uid)
        on_node = on_node.copy()
        if pod in staying and state.first_node(pod) >= 0:
            on_node[state.first_node(pod)] -= 1
        for other in state.touched(uid):
            if other == pod:
                continue
            if other in staying and state.first_node(other) >= 0:
                on_node[state.first_node(other)] -= 1
            counts = other in staying or other >= len(self._pods)  # or a replacement of the moves so far
            if counts and state.node[other] >= 0 and not state.terminating[other]:
                on_node[state.node[other]] += 1
        return on_node

    def _first(self, state: ClusterState, uid: str) -> tuple[IntArray, frozenset[int]]:
        """(nodes,) how many replicas of a controller were on each at first, and which replicas stay."""
        if uid not in self._first_of:
            staying = self._workloads.staying_pods(uid).tolist() if uid else []
            nodes = [node for other in staying if (node := state.first_node(other)) >= 0]
            on_node = np.bincount(np.array(nodes, np.int64), minlength=len(self._zone))
            self._first_of[uid] = on_node, frozenset(staying)
        return self._first_of[uid]


class SpreadChange(msgspec.Struct, frozen=True):
    """What a landing does to a constraint."""

    more: int  # moves that are left to do for it, more than before
    again: bool  # its domain still has too many pods, so this one would have to move again
    uneven: int  # above 0 where pods are spread less evenly, below 0 where more so; 0 if it held before


class SpreadChanges(msgspec.Struct, frozen=True):
    """What a landing does to all the constraints that it concerns."""

    each: tuple[SpreadChange, ...] = ()

    @property
    def helps(self) -> bool:
        """Whether fewer moves are left to do for a constraint."""
        return any(change.more < 0 for change in self.each)

    @property
    def again(self) -> bool:
        """Whether the pod would have to move again for one."""
        return any(change.again for change in self.each)

    @property
    def evens(self) -> bool:
        """Whether pods of one are spread more evenly, of none less so, and no other has too many there."""
        worse = any(change.uneven > 0 or (change.again and not change.uneven) for change in self.each)
        return any(change.uneven < 0 for change in self.each) and not worse

    @property
    def spoils(self) -> bool:
        """Whether more is left to do for one, or as much and pods are spread less evenly."""
        less_even = any(change.uneven > 0 for change in self.each) and not self.helps
        return less_even or any(change.more > 0 for change in self.each)


class SpreadConstraint(msgspec.Struct, frozen=True, eq=False):
    """A topology spread constraint, of all the pods that share it."""

    counter: DomainCounter

    def counts_on(self, nodes: IntArray) -> BoolArray:
        """(nodes,) whether pods of each count."""
        rows = self.counter.rows
        return self.counter.values[nodes] >= 0 if rows is None else np.isin(nodes, rows)

    @property
    def lacks(self) -> str:
        """That there are fewer domains than it asks for, in words; empty where there are enough."""
        few = len(self.counter.populated)
        constraint = self.counter.constraint
        if few >= constraint.min_domains:
            return ""
        domains = f"{counted(few, 'domain')} of {constraint.topology_key}"
        return f"pods of {self.counter.namespace} have {domains}, minDomains {constraint.min_domains}"

    def moves_left(self, counts: IntArray) -> int:
        """The fewest moves after which it holds; ``counts`` is (domains + 1,) matching pods."""
        # The API admits no skew below 1; an edited dump may have one.
        skew = max(self.counter.constraint.max_skew, 0)
        counts = counts[self.counter.populated]
        if len(counts) < self.counter.constraint.min_domains:  # as if there were an empty domain
            return int(np.maximum(counts - skew, 0).sum())
        if not len(counts) or counts.max() - counts.min() <= skew:
            return 0
        up_to = np.bincount(counts).cumsum()  # by number of pods: the domains that have no more
        lacking = np.concatenate([[0], up_to.cumsum()[:-1]])  # pods until every domain has so many
        beyond = (up_to[-1] - up_to)[::-1].cumsum()[::-1]  # pods that domains have beyond so many
        return int(np.maximum(lacking[: len(lacking) - skew], beyond[skew:]).min())

    def changes(
        self, state: ClusterState, source: NodeRow, rows: IntArray, leaves: int, comes: int
    ) -> Sequence[SpreadChange]:
        """(nodes,) what it does that pods, 0 or 1, leave a node and come to each of the ``rows``."""
        counts = self.counter.counts(state).copy()
        values = self.counter.values
        before = self.moves_left(counts)
        populated = self.counter.populated
        squares = int(counts @ counts)  # the less, the more evenly they are spread
        counts[values[source]] -= leaves * int(self.counts_on(np.array([source]))[0])
        emptiest = int(populated[np.argmin(counts[populated])]) if len(populated) else -1

        def coming_to(domain: int) -> tuple[int, int]:
            counts[domain] += domain >= 0
            left_and_uneven = self.moves_left(counts), int(counts @ counts)
            counts[domain] -= domain >= 0
            return left_and_uneven

        domains = np.where(self.counts_on(rows) & bool(comes), values[rows], -1)
        alike = np.where(domains >= 0, counts[domains], -1).tolist()  # domains with as many pods are alike
        by_count: dict[int, SpreadChange] = {}
        for domain, number in zip(domains.tolist(), alike, strict=True):
            if number not in by_count:
                left, uneven = coming_to(domain)
                again = domain >= 0 and coming_to(emptiest)[0] < left
                by_count[number] = SpreadChange(left - before, again, (uneven - squares) * bool(before))
        return [by_count[number] for number in alike]

    def why_move(self, state: ClusterState, node: NodeRow) -> str:
        """That one pod fewer on a node, and more in the emptiest domain, would bring it closer to holding."""
        values = self.counter.values
        if not self.counts_on(np.array([node]))[0]:
            return ""
        counts = self.counter.counts(state)
        populated = self.counter.populated
        emptiest = populated[np.argmin(counts[populated])]
        there = (values == emptiest).nonzero()[0]
        there = there[self.counts_on(there)][:1]
        if self.changes(state, node, there, 1, 1)[0].more >= 0:
            return ""
        key = self.counter.constraint.topology_key
        skew = self.counter.constraint.max_skew
        names = state.nodes.labels.column(key).names
        here = int(values[node])
        return (
            f"{key} {names[here]} has {counted(int(counts[here]), 'pod')} of its constraint, "
            f"{names[emptiest]} {counts[emptiest]}, maxSkew {skew}"
        )


class SpreadConstraints:
    """The distinct constraints that pods have, found for one namespace after the other.

    A pod counts only for constraints of its own namespace, so a landing needs no others.
    """

    def __init__(
        self, schedulers: ProfileSchedulers, pods: PodTable, kinds: Collection[str], *, defaults: bool
    ) -> None:
        """Those for these ``kinds`` of ``whenUnsatisfiable``.

        ``defaults``: those, too, that the scheduler's configuration has for pods without any.
        """
        self._schedulers = schedulers
        self._kinds = kinds
        self._classes: dict[str, list[int]] = {}  # by namespace: those that may have constraints
        for pod_class, pod in enumerate(pods.classes):
            if (
                defaults or pod.spec.topology_spread_constraints
            ) and pod.scheduler_name in schedulers.by_name:
                self._classes.setdefault(pod.namespace, []).append(pod_class)
        self._by_namespace: dict[str, Sequence[SpreadConstraint]] = {}

    def all(self) -> Iterator[SpreadConstraint]:
        """Those of every namespace."""
        for namespace in self._classes:
            yield from self.of(namespace)

    def of(self, namespace: str) -> Sequence[SpreadConstraint]:
        """Those of a namespace."""
        if namespace not in self._by_namespace:
            self._by_namespace[namespace] = tuple(self._find(self._classes.get(namespace, ())))
        return self._by_namespace[namespace]

    def counters_of(self, state: ClusterState, pod_class: int) -> Mapping[int, int]:
        """The counters in which pods of a class count, and how often."""
        if not self.of(state.classes[pod_class].namespace):  # which makes their counters
            return {}
        return {entry.counter: entry.weight for entry in state.classes.counters.entries(pod_class)}

    def changes(
        self, state: ClusterState, pod: PodRow, source: NodeRow, rows: IntArray, replacement: int
    ) -> Sequence[SpreadChanges]:
        """(nodes,) what it does that a pod is replaced on each of the ``rows``."""
        leaves = {} if state.terminating[pod] else self.counters_of(state, state.pod_class[pod])
        comes = self.counters_of(state, replacement)
        by_constraint = [
            constraint.changes(state, source, rows, leaves.get(at, 0), comes.get(at, 0))
            for constraint in self.of(state.classes[replacement].namespace)
            if (at := constraint.counter.counter) in leaves or at in comes
        ]
        changes = [SpreadChanges(each) for each in zip(*by_constraint, strict=True)]
        return changes or [SpreadChanges()] * len(rows)

    def _find(self, classes: Iterable[int]) -> Iterator[SpreadConstraint]:
        state = self._schedulers.state
        seen = set[object]()
        for pod_class, when in itertools.product(classes, self._kinds):
            for counter in self._schedulers.scheduler(pod_class).spread_counters(state, pod_class, when):
                rows = counter.rows
                key = counter.counter, counter.constraint, None if rows is None else rows.tobytes()
                if counter.counter >= 0 and key not in seen:
                    seen.add(key)
                    yield SpreadConstraint(counter)
