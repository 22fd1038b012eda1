"""The best plan of a cluster that a long random search finds, landings being where the scheduler puts them.

It shares nothing with the planner's own search but what makes a plan valid, the ``PlanBuilder``: every result
is a plan that could be carried out. Pods are drawn by the excess that they would remove, until none moves any
more. Every second search begins with moves of the best one known, some of which are left out.

It may do what the planner may: a move whose relief does not pay, by ``planning.aggressiveness`` and what
moving the pod costs, is none, as seen from the end of the plan. Otherwise many small moves would be
the best known, which the planner must not make.

Two plans are kept: the one that leaves the least excess, and the one that is worth most by what the planner
compares plans by, in which each move costs points and each node that stays hot counts some. Searches begin
with moves of the one and of the other in turn.
"""

from __future__ import annotations

import itertools
import time

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, NodeRow
from rebalancer.load.report import with_pods
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.disruption_cost import Disruption, least_relief
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.hot_nodes.drafting import POINTS_A_HOT_NODE
from rebalancer.planning.strategies.hot_nodes.movable import MovablePods
from rebalancer.planning.strategies.hot_nodes.search import ReliefSearch

_POWERS = (4.0, 2.0, 1.0, 0.5)  # of what pods remove, by which they are drawn
_MOST_LEFT_OUT = 4
_ROUNDS_OF_A_START = 8
_MOST_ROUNDS_OF_A_START = 10_000  # whose numbers are its own
_NEGLIGIBLE = 1e-6  # points


class Built(msgspec.Struct, frozen=True):
    """A plan of the random search."""

    left: float  # points of excess
    points: float  # by which the planner compares plans, less is better
    order: tuple[int, ...]  # the pods moved


class Known(msgspec.Struct, frozen=True):
    """The best plans found: the one with the least excess, and the points of the one worth most."""

    moves: int  # of the first
    excess: float  # points that it leaves
    points: float  # of the second


def best_known(prepared: PreparedInputs, seconds: float) -> Known:
    """What is found in so many seconds of processor time."""
    search, random = _RandomSearch(prepared), np.random.default_rng(0)
    ends = time.process_time() + seconds
    coolest = worthiest = search.build(random, _POWERS[0], ())
    number = 0
    while time.process_time() < ends:
        number += 1
        first: tuple[int, ...] = ()
        order = (worthiest if number % 4 == 1 else coolest).order
        if number % 2 and order:
            out = random.permutation(len(order))[: random.integers(1, _MOST_LEFT_OUT + 1)]
            first = tuple(at for place, at in enumerate(order) if place not in out)
        built = search.build(random, _POWERS[number // 2 % len(_POWERS)], first)
        coolest = min(coolest, built, key=lambda item: (round(item.left, 6), len(item.order)))
        worthiest = min(worthiest, built, key=lambda item: round(item.points, 6))
    return Known(len(coolest.order), coolest.left, worthiest.points)


def best_of_starts(prepared: PreparedInputs, starts: int, seconds: float = 0.0) -> float:
    """The points of the best of so many of the planner's own searches, each with up to twice as many rounds.

    Each has drafts of its own, and goes on with others from the best plan it has found until so many seconds
    of processor time have passed. Where a cluster cannot be drafted, it is the planner's own plan.
    """
    hot = map(NodeRow, np.flatnonzero(prepared.hotness.hot).tolist())
    pods = MovablePods(prepared, prepared.disruption, {node: _evictable(prepared, node) for node in hot})
    search = ReliefSearch(prepared, pods, PlanBuilder(prepared, ()))
    best = search.best()
    drafts = search.drafts()
    if drafts is None:
        return best.quality[0]
    greedy = search.plan()
    for start in range(starts):
        numbers = itertools.count(_MOST_ROUNDS_OF_A_START * start)
        ends = time.process_time() + seconds
        found = greedy
        is_over = False
        while not is_over:
            rounds = itertools.islice(numbers, _ROUNDS_OF_A_START)
            found = min(found, search.best_draft(drafts, found, rounds), key=lambda plan: plan.quality)
            is_over = time.process_time() >= ends
        best = min(best, found, key=lambda plan: plan.quality)
    return best.quality[0]


def _evictable(prepared: PreparedInputs, node: NodeRow) -> list[Candidate]:
    """The pods of a node that may leave it."""
    return [
        prepared.candidate(pod)
        for pod in prepared.pods_on(node)
        if why_protected(prepared.eviction, pod) is None
    ]


class _RandomSearch:
    def __init__(self, prepared: PreparedInputs) -> None:
        self._hotness = prepared.hotness
        self._start = PlanBuilder(prepared, ())
        self._nodes = np.flatnonzero(prepared.hotness.hot)
        self._pods = [pod for node in self._nodes.tolist() for pod in _evictable(prepared, NodeRow(node))]
        self._source = np.array([pod.source for pod in self._pods], np.int64)
        self._relief = np.zeros((len(self._pods), len(prepared.hotness.names)))
        if self._pods:
            amounts = with_pods(np.array([pod.relief for pod in self._pods]), 1.0)
            self._relief = np.nan_to_num(100.0 * amounts / prepared.inputs.load.allocatable[self._source])
        self._asked = prepared.policy.planning.level.least_relief
        disruption = Disruption(prepared.inputs, prepared.eviction.workloads)
        costs = [disruption.costs([pod.row for pod in self._on(node)]) for node in self._nodes.tolist()]
        self._price = 1.0 + np.concatenate([np.zeros(0), *costs])

    def _still_hot(self, percent: FloatArray) -> BoolArray:
        above = (percent > self._hotness.hot_above[self._nodes]) & self._hotness.resources[self._nodes]
        return np.asarray(above.any(axis=1))

    def _on(self, node: int) -> list[Candidate]:
        return [pod for pod in self._pods if pod.source == node]

    def build(self, random: np.random.Generator, power: float, first: tuple[int, ...]) -> Built:
        """A plan that begins with these pods."""
        closed: set[int] = set()
        left, relieved, percent = self._build(random, power, first, closed)
        while unpaid := self._unpaid(relieved, percent):
            closed |= unpaid
            rest = tuple(at for at in relieved if at not in unpaid)
            left, relieved, percent = self._build(random, power, rest, closed)
        cost = sum(self._price[at] for at in relieved)
        times_hot = self._hotness.times_hot(self._nodes, percent)
        points = left + self._asked * cost + POINTS_A_HOT_NODE * times_hot
        return Built(left, float(points), tuple(relieved))

    def _unpaid(self, relieved: dict[int, float], percent: FloatArray) -> set[int]:
        """The moves that relieve their node too little; ``percent`` is of the hot nodes, at the end."""
        unpaid: set[int] = set()
        hot = set(self._nodes[self._still_hot(percent)].tolist())
        for node in self._nodes.tolist():
            here = [at for at in relieved if self._source[at] == node]
            price = sum(self._price[at] for at in here)
            usual = 0.0 if not here else sum(relieved[at] for at in here) / price
            least = self._asked if node in hot else least_relief(self._asked, usual)
            unpaid |= {at for at in here if relieved[at] < least * self._price[at] - _NEGLIGIBLE}
        return unpaid

    def _build(
        self, random: np.random.Generator, power: float, first: tuple[int, ...], closed: set[int]
    ) -> tuple[float, dict[int, float], FloatArray]:
        """The excess left, what each pod moved relieved its node by, and the percentages of the hot nodes."""
        builder, moved, refused = self._start.copy(), dict[int, float](), dict[int, int]()
        self._start.evaluator.placed = 0  # this search ends by time, not by a number of placements
        waiting = list(first)
        while True:
            rows = self._nodes.tolist()
            percent = np.array([builder.expected_percent(NodeRow(row)) for row in rows])
            of_pod = percent[np.searchsorted(self._nodes, self._source)]
            gain = self._hotness.removed(self._source, of_pod, self._relief)
            relieves = np.minimum(self._relief, self._hotness.above(self._source, of_pod)).sum(axis=1)
            gain[relieves < least_relief(self._asked, 0.0) * self._price - _NEGLIGIBLE] = 0.0
            gain[[*closed, *moved, *(at for at, moves in refused.items() if moves == len(moved))]] = 0.0
            gain[gain < _NEGLIGIBLE] = 0.0
            if not gain.any():
                return float(self._hotness.excess(self._nodes, percent).sum()), moved, percent
            weight = (gain / gain.max()) ** power * (gain > 0)
            at = waiting.pop(0) if waiting else int(random.choice(len(gain), p=weight / weight.sum()))
            if gain[at] and builder.try_move(self._pods[at]) is None:
                moved[at] = float(relieves[at])
            else:
                refused[at] = len(moved)
