"""Many states of one cluster side by side: a step places one pod in each of them, of whatever class.

A search tries hundreds of orders of moves. On a cluster of twenty nodes one placement calls numpy some sixty
times, for twenty numbers each time, and nearly all of its time goes to these calls. Here every state is a
lane, and one call computes for all lanes:

    lane 0   web-1 of a moved       places api-2: b and c are best
    lane 1   nothing moved so far   places web-1: c is best
    lane 2   api-2, web-1 moved     places db-0: no node has room

What is static for a class comes from its cycle (``ClassCycle``). Of the plugins whose results change with
every move lanes compute six: room and its score, balance, topology spread and affinity, the pods of a node,
and Trimaran's TargetLoadPacking. They do not place a class that another such plugin concerns, nor one for
which the scheduler looks at a sample of the nodes only. Where the scheduler may have one of several scores,
such as ImageLocality's by the sizes that nodes report, a node is the best if it is by any of them.

Formulas that hold for any number of lanes are those of the plugins. The others are written here again, and
checked twice: a class counts as known only if its first placement is the one of its ``Scheduler``, and a test
compares further ones along random moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.cluster.nodes import PODS_COLUMN
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import EXCLUDED, MAX_SCORE, NO_OTHER_SCORES, Plugin
from rebalancer.scheduling.framework.scores import RawScores, StaticScores
from rebalancer.scheduling.lane_counts import Cells, Counts, Slot, stack
from rebalancer.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.plugins.node_resources.balanced_allocation import (
    NodeResourcesBalancedAllocation,
    balance,
    gained,
)
from rebalancer.scheduling.plugins.node_resources.fit import NodeResourcesFit
from rebalancer.scheduling.plugins.node_resources.scored_resources import ScoredResource
from rebalancer.scheduling.plugins.pod_capacity_of_node import PodCapacityOfNode, capacity_score
from rebalancer.scheduling.plugins.pod_topology_spread import HOSTNAME, PodTopologySpread
from rebalancer.scheduling.plugins.trimaran.target_load_packing import TargetLoadPacking
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.domains import DomainCounter

_ANY_AMOUNT = -(1 << 60)  # of a resource of which no room is needed
_LOWEST = -(1 << 60)
_HIGHEST = 1 << 60
_MOST_OTHERS = 16  # scores of a class that the scheduler may have instead of those computed
_COMPUTED: frozenset[type[Plugin]] = frozenset(
    {
        NodeResourcesFit,
        NodeResourcesBalancedAllocation,
        PodTopologySpread,
        InterPodAffinity,
        PodCapacityOfNode,
        TargetLoadPacking,
    }
)
_CPU_AND_MEMORY = ("cpu", "memory")


class LanePod(msgspec.Struct, frozen=True):
    """A pod that may leave its node in a lane."""

    row: PodRow
    replacement: int  # the class of the pod that comes back
    source: NodeRow


class _UnknownError(Exception):
    """A class has something that lanes do not compute."""


class _Formulas(msgspec.Struct, frozen=True):
    """How scores follow from amounts and counts: profiles may differ in it. None where one does not score."""

    # The strategy of NodeResourcesFit, and column, weight and whether defaults count of each resource.
    fit: tuple[str, tuple[tuple[int, int, bool], ...]] | None = None
    # Whether what is requested before counts, and column and whether defaults count of each resource.
    balance: tuple[bool, tuple[tuple[int, bool], ...]] | None = None
    affinity: bool | None = None  # whether the range of its scores always holds 0
    packing: tuple[object, ...] | None = None  # what the scores of TargetLoadPacking follow

    def joined(self, other: _Formulas) -> _Formulas | None:
        """These and the formulas of another class; None where they differ."""
        joined = dict[str, Any]()
        for name in self.__struct_fields__:
            mine = getattr(self, name)
            others = getattr(other, name)
            if mine is not None and others is not None and mine != others:
                return None
            joined[name] = others if mine is None else mine
        return _Formulas(**joined)


class _ComparedScores:
    """Static scores of a class that depend on which nodes are feasible; each result is kept."""

    def __init__(self, scores: RawScores) -> None:
        self.raw = scores.raw  # (nodes,)
        self._scores = scores
        self._by_extremes: dict[tuple[int, int], IntArray] = {}

    def weighted(self, smallest: int, largest: int) -> IntArray:
        """(nodes,) where those are the extremes of the feasible nodes."""
        extremes = smallest, largest
        if extremes not in self._by_extremes:
            scores = self._scores
            self._by_extremes[extremes] = scores.weight * scores.plugin.normalize(self.raw, smallest, largest)
        return self._by_extremes[extremes]


class _Parts(msgspec.Struct, frozen=True, eq=False):
    """What the tables hold of one class."""

    formulas: _Formulas
    fit_plugin: NodeResourcesFit | None
    admitted: BoolArray  # (nodes,)
    added: IntArray  # (nodes,)
    needed: IntArray  # (resources,)
    fit: Sequence[ScoredResource]
    fit_weight: int
    balanced: Sequence[ScoredResource]
    balance_weight: int
    soft: Sequence[Slot]
    soft_weight: int
    hard: Sequence[Slot]
    unwanted: Sequence[Slot]
    preferred: Sequence[Slot]
    affinity_weight: int
    capacity_weight: int
    packing_plugin: TargetLoadPacking | None
    packing_weight: int
    compared: Sequence[_ComparedScores]
    others: Sequence[IntArray]  # (nodes,) each: what the scheduler may add instead of ``added``, less that


class LaneTables:
    """What decides where some pods land, as arrays over these pods."""

    def __init__(
        self, state: ClusterState, pods: Sequence[LanePod], scheduler_of: Callable[[int], Scheduler | None]
    ) -> None:
        """``scheduler_of`` a class; None where it is not certain by what a scheduler decides."""
        self.pods = pods
        self.state = state
        self._cells = Cells(state)
        self._formulas = _Formulas()
        parts: dict[int, _Parts] = {}
        for kind in dict.fromkeys(pod.replacement for pod in pods):
            of_class = self._parts_of(scheduler_of(kind), kind)
            formulas = None if of_class is None else self._formulas.joined(of_class.formulas)
            if of_class is not None and formulas is not None:
                self._formulas = formulas
                parts[kind] = of_class
        self.is_known: BoolArray = np.array([pod.replacement in parts for pod in pods], np.bool_)
        if not parts:
            return
        any_parts = next(iter(parts.values()))  # fill the rows of pods that are not known
        self._stack([parts.get(pod.replacement, any_parts) for pod in pods])
        self._count_changes()
        self._forget_those_placed_otherwise(scheduler_of)

    def _parts_of(self, scheduler: Scheduler | None, kind: int) -> _Parts | None:
        state = self.state
        if scheduler is None or scheduler.view or state.nominated:
            return None
        if state.added_taint is not None or state.added_soft_taint is not None:
            return None
        try:
            return self._compute(scheduler, kind)
        except _UnknownError:
            return None

    def _compute(self, scheduler: Scheduler, kind: int) -> _Parts:
        """Raises _UnknownError."""
        cycle = scheduler.of_class(self.state, kind)
        filters: dict[type[Plugin], Plugin] = {type(plugin): plugin for plugin in cycle.filters}
        scores: dict[type[Plugin], Plugin] = {
            type(scoring.plugin): scoring.plugin for scoring in cycle.scores
        }
        if not {*filters, *scores} <= _COMPUTED:
            raise _UnknownError
        hard = self._hard(filters.get(PodTopologySpread), kind)
        admitted = cycle.admitted
        for slot in hard:
            admitted = admitted & (slot.cells >= 0)
        rows = np.flatnonzero(admitted)  # the nodes that may be feasible
        if any(plugin.fails(self.state, kind, rows) for plugin in cycle.preparing):
            raise _UnknownError
        fit_plugin = scores.get(NodeResourcesFit)
        affinity = scores.get(InterPodAffinity)
        fit = self._fit_resources(fit_plugin, kind)
        counts_before, balanced = self._balanced_resources(scores.get(NodeResourcesBalancedAllocation), kind)
        soft = self._soft(scores.get(PodTopologySpread), kind)
        preferred = self._preferred(affinity, kind)
        packing = scores.get(TargetLoadPacking)
        weights = scheduler.profile.weights
        formulas = _Formulas()
        if isinstance(fit_plugin, NodeResourcesFit):
            compared = tuple((resource.column, resource.weight, resource.with_defaults) for resource in fit)
            formulas = replace(formulas, fit=(str(fit_plugin.scoring_type), compared))
        if balanced:
            columns = tuple((resource.column, resource.with_defaults) for resource in balanced)
            formulas = replace(formulas, balance=(counts_before, columns))
        if isinstance(affinity, InterPodAffinity) and preferred:
            formulas = replace(formulas, affinity=affinity.range_with_zero)
        if isinstance(packing, TargetLoadPacking):
            if packing.may_score_below_zero:
                raise _UnknownError  # such a score fails the cycle
            formulas = replace(formulas, packing=packing.follows)
        return _Parts(
            formulas=formulas,
            fit_plugin=fit_plugin if isinstance(fit_plugin, NodeResourcesFit) else None,
            admitted=admitted,
            added=np.zeros(len(self.state.nodes), np.int64) + cycle.static.added,
            needed=self._needed(filters.get(NodeResourcesFit), kind),
            fit=fit,
            fit_weight=weights[NodeResourcesFit.name] if fit else 0,
            balanced=balanced,
            balance_weight=weights[NodeResourcesBalancedAllocation.name] if balanced else 0,
            soft=soft,
            soft_weight=weights[PodTopologySpread.name] if soft else 0,
            hard=hard,
            unwanted=self._unwanted(filters.get(InterPodAffinity), kind),
            preferred=preferred,
            affinity_weight=weights[InterPodAffinity.name] if preferred else 0,
            capacity_weight=weights[PodCapacityOfNode.name] if PodCapacityOfNode in scores else 0,
            packing_plugin=packing if isinstance(packing, TargetLoadPacking) else None,
            packing_weight=weights[TargetLoadPacking.name] if packing is not None else 0,
            compared=[_compared(static, rows) for static in cycle.static.compared],
            others=_others(cycle.static),
        )

    def _needed(self, plugin: Plugin | None, kind: int) -> IntArray:
        classes = self.state.classes
        needed = np.full(len(classes.resources), _ANY_AMOUNT)
        if isinstance(plugin, NodeResourcesFit):
            for column, room in plugin.room(self.state, kind).resources:
                needed[column] = classes.allocatable[0, column] - room[0]
        return needed

    def _fit_resources(self, plugin: Plugin | None, kind: int) -> Sequence[ScoredResource]:
        if not isinstance(plugin, NodeResourcesFit):
            return ()
        if plugin.is_ratio:
            raise _UnknownError
        return _everywhere(plugin.scored_by(self.state, kind))

    def _balanced_resources(self, plugin: Plugin | None, kind: int) -> tuple[bool, Sequence[ScoredResource]]:
        """The resources that are balanced, and whether what is requested before counts too."""
        if not isinstance(plugin, NodeResourcesBalancedAllocation):
            return False, ()
        compared = plugin.balanced_of(self.state, kind)
        if compared is None:
            return False, ()
        if compared.of_two or len(compared.resources) != len(_CPU_AND_MEMORY):
            raise _UnknownError
        return compared.counts_before, _everywhere(compared.resources)

    def _hard(self, plugin: Plugin | None, kind: int) -> list[Slot]:
        if not isinstance(plugin, PodTopologySpread):
            return []
        return [self._slot_of(counter) for counter in plugin.hard(self.state, kind)]

    def _soft(self, plugin: Plugin | None, kind: int) -> list[Slot]:
        if not isinstance(plugin, PodTopologySpread):
            return []
        constraints = plugin.soft(self.state, kind)
        if constraints.truncated or constraints.ignored is not None:
            raise _UnknownError
        return [self._slot_of(counter) for counter in constraints.counters]

    def _unwanted(self, plugin: Plugin | None, kind: int) -> list[Slot]:
        if not isinstance(plugin, InterPodAffinity):
            return []
        required = plugin.required(self.state, kind)
        if required.affinity:
            raise _UnknownError
        terms = (*required.existing, *required.anti_affinity)
        return [Slot(self._cells.slot(term.counter, term.key)) for term in terms]

    def _preferred(self, plugin: Plugin | None, kind: int) -> list[Slot]:
        if not isinstance(plugin, InterPodAffinity):
            return []
        terms = plugin.scored(self.state, kind)
        return [Slot(self._cells.slot(term.counter, term.key), term.weight) for term in terms]

    def _slot_of(self, counter: DomainCounter) -> Slot:
        by_node = counter.constraint.topology_key == HOSTNAME and counter.on_every_node
        if counter.rows is not None and counter.with_key and not by_node:
            raise _UnknownError
        key = "" if by_node else counter.constraint.topology_key
        cells = self._cells.slot(counter.counter, key)
        if counter.counter < 0 and not by_node:
            raise _UnknownError
        return Slot(cells, constraint=counter)

    def _stack(self, parts: Sequence[_Parts]) -> None:
        """Put the parts of all pods into arrays whose first axis are the pods."""
        classes = self.state.classes
        self.nobody = self._cells.nobody
        self.row = self._cells.row()
        self.admitted = np.array([part.admitted for part in parts])
        self.added = np.array([part.added for part in parts])
        self.needed = np.array([[*part.needed, 1] for part in parts])  # and one more pod
        self.fit_plugin = next((part.fit_plugin for part in parts if part.fit_plugin is not None), None)
        self.fit_resources = next((part.fit for part in parts if part.fit), ())
        none = [0] * len(self.fit_resources)
        self.fit_own = np.array([_own(part.fit) or none for part in parts])
        self.fit_weight = np.array([part.fit_weight for part in parts])
        self.balanced = next((part.balanced for part in parts if part.balanced), ())
        none = [0] * len(self.balanced)
        self.balance_own = np.array([_own(part.balanced) or none for part in parts])
        self.balance_counts_before = self._formulas.balance is not None and self._formulas.balance[0]
        self.range_with_zero = bool(self._formulas.affinity)
        self.balance_weight = np.array([part.balance_weight for part in parts])
        self.soft = stack([part.soft for part in parts], self.nobody)
        self.soft_weight = np.array([part.soft_weight for part in parts])
        self.hard = stack([part.hard for part in parts], self.nobody)
        self.unwanted = stack([part.unwanted for part in parts], self.nobody)
        self.preferred = stack([part.preferred for part in parts], self.nobody)
        self.affinity_weight = np.array([part.affinity_weight for part in parts])
        self.capacity_weight = np.array([part.capacity_weight for part in parts])
        self.packing_weight = np.array([part.packing_weight for part in parts])
        self.compared = [part.compared for part in parts]
        # (pods, nodes) each: what the scheduler may add instead of ``added``, less that.
        self.others: list[IntArray] = []
        nothing = np.zeros(len(self.state.nodes), np.int64)
        for number in range(max(len(part.others) for part in parts)):
            self.others.append(
                np.array([part.others[number] if number < len(part.others) else nothing for part in parts])
            )
        self.compares = np.array([bool(part.compared) for part in parts])
        self.sources = np.array([pod.source for pod in self.pods])
        leaving = [self.state.pod_class[pod.row] for pod in self.pods]
        coming = [pod.replacement for pod in self.pods]
        self.taken_before = np.array([[*classes.present[kind], 1] for kind in leaving])
        self.taken_after = np.array([[*classes.present[kind], 1] for kind in coming])
        self.scored_before = np.array([classes.present_scored[kind] for kind in leaving])
        self.scored_after = np.array([classes.present_scored[kind] for kind in coming])
        self.packing = next((part.packing_plugin for part in parts if part.packing_plugin is not None), None)
        # (pods,) cpu that TargetLoadPacking expects of those that come, whichever scheduler places them, and
        # of those that leave where its figures do not show it.
        self.expected = np.zeros(len(self.pods), np.int64)
        self.missing_before = np.zeros(len(self.pods), np.int64)
        if self.packing is not None:
            for at, pod in enumerate(self.pods):
                self.expected[at] = self.packing.expected(classes, pod.replacement)
                if pod.row in self.packing.recent_pods:
                    self.missing_before[at] = self.packing.expected(classes, leaving[at])
        self.allocatable = classes.allocatable
        self.most_pods = classes.allocatable[:, PODS_COLUMN]
        self.logarithms = np.array([math.log(count + 2) for count in range(len(self.state.nodes) + 1)])

    def _count_changes(self) -> None:
        """Which cells change, and by how much, when a pod begins to terminate, goes, and lands."""
        leaving = [self.state.pod_class[pod.row] for pod in self.pods]
        live = [self._cells.changed_by(kind, terminating=False) for kind in leaving]
        others = [self._cells.changed_by(kind, terminating=True) for kind in leaving]
        coming = [
            [
                *self._cells.changed_by(pod.replacement, terminating=False),
                *self._cells.changed_by(pod.replacement, terminating=True),
            ]
            for pod in self.pods
        ]
        every = [[*first, *second] for first, second in zip(live, others, strict=True)]
        self.terminating_cells, self.terminating_weights = self._at_sources(live)
        self.gone_cells, self.gone_weights = self._at_sources(every)
        width = max(map(len, coming), default=0)
        self.landing_cells = np.full((len(self.pods), len(self.state.nodes), width), self.nobody)
        self.landing_weights = np.zeros((len(self.pods), width), np.int64)
        for at, changes in enumerate(coming):
            for number, (cells, weight) in enumerate(changes):
                self.landing_cells[at, :, number] = np.where(cells >= 0, cells, self.nobody)
                self.landing_weights[at, number] = weight

    def _at_sources(self, changes: Sequence[Sequence[tuple[IntArray, int]]]) -> tuple[IntArray, IntArray]:
        """(pods, changes) cells of the nodes that the pods leave, and their weights."""
        width = max(map(len, changes), default=0)
        at_sources = np.full((len(changes), width), self.nobody)
        weights = np.zeros((len(changes), width), np.int64)
        for at, of_pod in enumerate(changes):
            source = self.pods[at].source
            for number, (cells, weight) in enumerate(of_pod):
                if cells[source] >= 0:
                    at_sources[at, number] = cells[source]
                    weights[at, number] = weight
        return at_sources, weights

    def compared_score(self, pod: int, feasible: BoolArray) -> IntArray | int:
        """(nodes,) the static scores of a pod that depend on which nodes are feasible."""
        if not feasible.any():
            return 0
        total: IntArray = np.zeros(len(feasible), np.int64)
        for scores in self.compared[pod]:
            raw = scores.raw[feasible]
            total += scores.weighted(int(raw.min()), int(raw.max()))
        return total

    def _forget_those_placed_otherwise(self, scheduler_of: Callable[[int], Scheduler | None]) -> None:
        """Take classes for unknown whose first placement is not that of the scheduler."""
        lanes = Lanes(self, 1)
        verdicts: dict[int, bool] = {}
        for at, pod in enumerate(self.pods):
            kind = pod.replacement
            scheduler = scheduler_of(kind)
            if not self.is_known[at] or scheduler is None:
                continue
            if kind not in verdicts:
                placement = scheduler.place(self.state, kind)
                unusual = placement.rejected or placement.score_failure or placement.left_open
                best = np.zeros(len(self.state.nodes), np.bool_)
                best[placement.feasible[placement.chance > 0]] = True
                same = np.array_equal(lanes.place(np.zeros(1, np.int64), np.array([at]))[0], best)
                verdicts[kind] = bool(same and not unusual and not placement.is_sampled)
            self.is_known[at] = verdicts[kind]


class Lanes:
    """So many states, each of which begins as the one of the tables; pods are numbered as there."""

    def __init__(self, tables: LaneTables, count: int) -> None:
        self._tables = tables
        state = tables.state
        room = state.classes.allocatable - state.requested
        self._first_free = np.column_stack([room, tables.most_pods - state.pod_count])
        self._first_scored = state.scored.copy()
        self._cells = np.tile(tables.row, (count, 1))
        self._free = np.tile(self._first_free, (count, 1, 1))
        self._scored = np.tile(self._first_scored, (count, 1, 1))
        # (nodes,) cpu of pods that the figures of TargetLoadPacking do not show
        self._first_missing = np.zeros(len(state.nodes), np.int64)
        if tables.packing is not None:
            self._first_missing += tables.packing.missing(state)
        self._missing = np.tile(self._first_missing, (count, 1))

    def begin_anew(self, lanes: IntArray) -> None:
        """Take back all that happened in some lanes."""
        self._cells[lanes] = self._tables.row
        self._free[lanes] = self._first_free
        self._scored[lanes] = self._first_scored
        self._missing[lanes] = self._first_missing

    def terminate(self, lanes: IntArray, pods: IntArray, sign: int = 1) -> None:
        """Let one pod terminate in each lane; take that back where ``sign`` is -1."""
        tables = self._tables
        self._cells[lanes[:, None], tables.terminating_cells[pods]] -= sign * tables.terminating_weights[pods]

    def remove(self, lanes: IntArray, pods: IntArray, sign: int = 1) -> None:
        """Take pods off their nodes, each in its lane; put them back where ``sign`` is -1."""
        tables = self._tables
        sources = tables.sources[pods]
        gone = lanes[:, None], tables.gone_cells[pods]
        np.subtract.at(self._cells, gone, sign * tables.gone_weights[pods])
        np.add.at(self._free, (lanes, sources), sign * tables.taken_before[pods])
        np.subtract.at(self._scored, (lanes, sources), sign * tables.scored_before[pods])
        if tables.packing is not None:
            np.subtract.at(self._missing, (lanes, sources), sign * tables.missing_before[pods])

    def land(self, lanes: IntArray, pods: IntArray, nodes: IntArray) -> None:
        """Bind the replacements of pods, each in its lane."""
        tables = self._tables
        landing = lanes[:, None], tables.landing_cells[pods, nodes]
        np.add.at(self._cells, landing, tables.landing_weights[pods])
        self._cells[lanes, tables.nobody] = 0
        np.subtract.at(self._free, (lanes, nodes), tables.taken_after[pods])
        np.add.at(self._scored, (lanes, nodes), tables.scored_after[pods])
        if tables.packing is not None:
            np.add.at(self._missing, (lanes, nodes), tables.expected[pods])

    def place(self, lanes: IntArray, pods: IntArray) -> BoolArray:
        """(lanes, nodes) which nodes are the best for the replacement of one pod in each lane."""
        tables = self._tables
        free = self._free[lanes]
        counts = Counts(self._cells, lanes[:, None], pods)
        feasible = tables.admitted[pods] & (free >= tables.needed[pods][:, None]).all(axis=2)
        for slot in tables.hard:
            number = counts.of(slot)
            counted = np.where(slot.is_counted[pods], number, _HIGHEST)
            least = np.where(slot.enough[pods], counted.min(axis=1), 0)
            feasible &= number + (slot.itself[pods] - least)[:, None] <= slot.max_skew[pods][:, None]
        for slot in tables.unwanted:
            feasible &= counts.of(slot) <= 0
        total = tables.added[pods].copy()
        if tables.fit_plugin is not None:
            total += tables.fit_weight[pods][:, None] * self._fit(tables.fit_plugin, lanes, free, pods)
        if tables.balanced:
            total += tables.balance_weight[pods][:, None] * self._balance(lanes, free, pods)
        if tables.soft:
            total += tables.soft_weight[pods][:, None] * self._spread(counts, feasible, pods)
        if tables.preferred:
            total += tables.affinity_weight[pods][:, None] * self._affinity(counts, feasible, pods)
        if tables.packing is not None:
            total += tables.packing_weight[pods][:, None] * self._pack(tables.packing, lanes, pods)
        if tables.capacity_weight.any():
            total += tables.capacity_weight[pods][:, None] * capacity_score(free[:, :, -1], tables.most_pods)
        for lane in tables.compares[pods].nonzero()[0].tolist():
            total[lane] += tables.compared_score(int(pods[lane]), feasible[lane])
        best = _best(feasible, total)
        for more in tables.others:
            best |= _best(feasible, total + more[pods])
        return best

    def _amount(self, resource: ScoredResource, lanes: IntArray, free: IntArray) -> IntArray:
        """(lanes, nodes) what is requested of a resource."""
        if resource.with_defaults:
            return self._scored[lanes, :, resource.column]
        amount: IntArray = self._tables.allocatable[:, resource.column] - free[:, :, resource.column]
        return amount

    def _fit(self, plugin: NodeResourcesFit, lanes: IntArray, free: IntArray, pods: IntArray) -> IntArray:
        tables = self._tables
        total: IntArray = np.zeros(free.shape[:2], np.int64)
        weights = 0
        for number, resource in enumerate(tables.fit_resources):
            requested = self._amount(resource, lanes, free) + tables.fit_own[pods, number][:, None]
            total += resource.weight * plugin.score_of(requested, resource.allocatable)
            weights += resource.weight
        return total // weights

    def _balance(self, lanes: IntArray, free: IntArray, pods: IntArray) -> IntArray:
        tables = self._tables
        every = np.arange(free.shape[1])
        before = [self._amount(resource, lanes, free) for resource in tables.balanced]
        own = tables.balance_own[pods]
        after = [amount + own[:, number, None] for number, amount in enumerate(before)]
        score = balance(tables.balanced, after, every)
        if not tables.balance_counts_before:
            return score
        return gained(score, balance(tables.balanced, before, every))

    def _pack(self, plugin: TargetLoadPacking, lanes: IntArray, pods: IntArray) -> IntArray:
        tables = self._tables
        missing = self._missing[lanes]
        return plugin.score_of(
            tables.state, tables.expected[pods][:, None], missing, np.arange(missing.shape[1])
        )

    def _spread(self, counts: Counts, feasible: BoolArray, pods: IntArray) -> IntArray:
        tables = self._tables
        raw: FloatArray = np.zeros(feasible.shape)
        for slot in tables.soft:
            weight = slot.weights(feasible, pods, tables.logarithms)
            part = counts.of(slot) * weight[:, None] + slot.constant[pods][:, None]
            raw = raw + np.where(slot.has_domain[pods], part, 0.0)
        rounded = np.floor(raw + 0.5).astype(np.int64)
        largest = np.where(feasible, rounded, 0).max(axis=1)[:, None]
        smallest = np.where(feasible, rounded, _HIGHEST).min(axis=1)[:, None]
        score = MAX_SCORE * (largest + smallest - rounded) // np.maximum(largest, 1)
        return np.where(largest <= 0, MAX_SCORE, score)

    def _affinity(self, counts: Counts, feasible: BoolArray, pods: IntArray) -> IntArray:
        tables = self._tables
        raw: IntArray = np.zeros(feasible.shape, np.int64)
        for slot in tables.preferred:
            raw += counts.of(slot) * slot.weight[pods][:, None]
        largest = np.where(feasible, raw, _LOWEST).max(axis=1)[:, None]
        smallest = np.where(feasible, raw, _HIGHEST).min(axis=1)[:, None]
        if tables.range_with_zero:
            largest = np.maximum(largest, 0)
            smallest = np.minimum(smallest, 0)
        span = np.maximum(largest - smallest, 1)
        share = np.where(largest > smallest, raw - smallest, 0) / span.astype(np.float64)
        score: IntArray = (float(MAX_SCORE) * share).astype(np.int64)
        return score


def _best(feasible: BoolArray, total: IntArray) -> BoolArray:
    """(lanes, nodes) which of the feasible nodes have the highest total."""
    total = np.where(feasible, total, _LOWEST)
    best: BoolArray = feasible & (total == total.max(axis=1)[:, None])
    return best


def _compared(scores: RawScores, rows: IntArray) -> _ComparedScores:
    """The scores of a plugin, if these nodes all take part in its extremes, and none fails the cycle."""
    if EXCLUDED in scores.raw[rows] or (len(rows) and scores.of(rows).is_out_of_range):
        raise _UnknownError
    return _ComparedScores(scores)


def _others(static: StaticScores) -> list[IntArray]:
    """(nodes,) each: what the scheduler may add instead of ``added``, less that."""
    several = [scores for scores in static.scores if scores.others is not NO_OTHER_SCORES]
    if not several:
        return []
    scores = several[0]
    others = scores.others
    is_added = scores not in static.compared
    if len(several) > 1 or not is_added or others.bounds is not None or len(others.listed) > _MOST_OTHERS:
        raise _UnknownError
    return [RawScores(scores.plugin, scores.weight, raw).weighted - scores.weighted for raw in others.listed]


def _own(resources: Sequence[ScoredResource]) -> list[int]:
    """What a pod requests of each."""
    return [resource.own for resource in resources]


def _everywhere(resources: Sequence[ScoredResource]) -> Sequence[ScoredResource]:
    """Resources that every node offers."""
    if not resources or any(resource.offered is not None for resource in resources):
        raise _UnknownError
    return resources
