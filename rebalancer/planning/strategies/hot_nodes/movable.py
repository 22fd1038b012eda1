"""The pods that may leave hot nodes: what each takes away with it, and what moving it costs.

Pure arithmetic over all of them at once: nothing is placed here.

    b 90 %, cool at 65 %    hot above 80 %; pods of 27, 10 and 10 points at costs of 1, 1 and 2
    value                   27 takes 25 points, 10 of them above 80 %: 35; 20 / 1 = 20; 20 / 2 = 10
    once 10 of cost 1 left  27 takes the 15 that are left: 15; 10 / 2 = 5

One aspect of a pod's price is the shape that its node is left with. A node that is full
in cpu and empty in memory strands its memory: nothing fits there any more. Of two pods that relieve it alike,
the one that leaves the node more evenly used is the better choice. Here a node uses 90 % cpu and 30 % memory,
so 60 points of memory are stranded; only cpu and memory are compared, since every pod needs both:

    web     10 points cpu, 1 point memory     80 % and 29 %, 51 points: better by 9
    cache   10 points cpu, 20 points memory   80 % and 10 %, 70 points: worse by 10
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.load.report import LoadReport, with_pods
from rebalancer.load.usage import RESOURCES
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.disruption_cost import Disruption, least_relief
from rebalancer.planning.hotness import Hotness
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.landing.scenarios import LandingDistribution
from rebalancer.planning.prepared import PreparedInputs

NEGLIGIBLE = 1e-9  # points; floating-point error of sums
DIGITS = 6  # of points; pods that differ by less are alike
ALL = slice(None)  # pods
_SHAPE_WEIGHT = 0.5  # of the shape beside 1 for the restart: it decides between pods that relieve about alike
_FIT_WEIGHT = 1.0  # of 100 points moved beyond what has to leave: as dear as another restart


class MovablePods:
    """The evictable pods of all hot nodes, by node and name; ``percent`` is (hot nodes, resources).

    Among these nodes are those that were hot when the run made an earlier plan: they have no such pods.
    """

    def __init__(
        self,
        prepared: PreparedInputs,
        disruption: Disruption,
        candidates: Mapping[NodeRow, Sequence[Candidate]],
    ) -> None:
        load = prepared.inputs.load
        names = prepared.pods.full_name
        self._disruption = disruption
        self.hotness = prepared.hotness
        self.nodes = np.array(list(candidates), np.int64)  # their rows
        self.candidates = [
            candidate
            for of_node in candidates.values()
            for candidate in sorted(of_node, key=lambda candidate: names(candidate.row))
        ]
        count = [len(items) for items in candidates.values()]
        self.node: IntArray = np.repeat(np.arange(len(count)), count)  # (pods,) which of ``nodes``
        ends = np.cumsum(count).tolist()
        self._on = [range(end - many, end) for end, many in zip(ends, count, strict=True)]  # pods, by node
        self._allocatable = load.allocatable[self.nodes]
        self.relief = np.zeros((0, len(self.hotness.names)))
        if self.candidates:
            amounts = with_pods(np.array([candidate.relief for candidate in self.candidates]), 1.0)
            self.relief = _points(amounts, self._allocatable[self.node])
        self.oversize = _oversize(prepared, self.candidates)
        all_rows = [candidate.row for candidate in self.candidates]
        rows = [all_rows[pods.start : pods.stop] for pods in self._on]
        self.price = 1.0 + _joined(disruption.costs(pods) for pods in rows if pods)
        shape = (
            shape_cost(load, prepared.hotness, prepared.usage, node, pods)
            for node, pods in zip(candidates, rows, strict=True)
        )
        self.value_price = self.price + _SHAPE_WEIGHT * _joined(shape)

    def prices(self, pods: Sequence[Candidate]) -> FloatArray:
        """(pods,) what moving each of any pods costs."""
        return 1.0 + self._disruption.costs([pod.row for pod in pods]) if pods else np.zeros(0)

    def percent(self, builder: PlanBuilder) -> FloatArray:
        """(hot nodes, resources) percent of allocatable expected after the moves of a plan."""
        return np.array([builder.expected_percent(NodeRow(row)) for row in self.nodes.tolist()])

    def excess(self, percent: FloatArray) -> FloatArray:
        """(hot nodes,) points of excess."""
        return np.asarray(self.hotness.excess(self.nodes, percent).sum(axis=1), np.float64)

    def heats(self, before: FloatArray, after: FloatArray) -> bool:
        """Whether there is more excess after some moves, also of what the nodes were not hot in before."""
        now, then = (self.hotness.excess_by_now(self.nodes, percent).sum() for percent in (before, after))
        return bool(then > now + NEGLIGIBLE)

    def still_hot(self, percent: FloatArray) -> BoolArray:
        """(hot nodes, resources) in what each is still hot."""
        above = percent > self.hotness.hot_above[self.nodes] + NEGLIGIBLE
        return np.asarray(above & self.hotness.resources[self.nodes], np.bool_)

    def no_longer_hot(self, percent: FloatArray) -> BoolArray:
        """(hot nodes, resources) in what each was hot when the plan began, and is below a threshold now."""
        further = self.hotness.further_threshold[self.nodes]
        below_further = np.isfinite(further) & (percent <= further + NEGLIGIBLE)
        cooled = below_further | ~self.still_hot(percent)
        return np.asarray(self.hotness.resources[self.nodes] & cooled, np.bool_)

    def with_all_gone(self, percent: FloatArray) -> FloatArray:
        """(hot nodes, resources) percent of the nodes if all of these pods found a landing."""
        left = percent.copy()
        np.subtract.at(left, self.node, self.relief)
        return left

    def on_changed(self, before: FloatArray, after: FloatArray) -> list[slice]:
        """The pods of the nodes whose percentages differ, as few slices as there are such nodes."""
        changed = np.flatnonzero((before != after).any(axis=1)).tolist()
        if len(changed) == len(self._on):
            return [ALL]
        return [slice(self._on[node].start, self._on[node].stop) for node in changed]

    def relieved(self, percent: FloatArray, pods: slice = ALL) -> FloatArray:
        """(pods,) points above coolTo that leave with each pod alone."""
        return np.asarray(self.relieved_of(percent, pods).sum(axis=1), np.float64)

    def relieved_of(self, percent: FloatArray, pods: slice = ALL) -> FloatArray:
        """(pods, resources) the same by resource."""
        need = self.hotness.above(self.nodes, percent)
        return np.minimum(self.relief[pods], need[self.node[pods]])

    def relieves(self, at: int, percent: FloatArray) -> FloatArray:
        """(resources,) points above coolTo that leave with a pod of a node at (resources,) ``percent``."""
        need = self.hotness.above(int(self.nodes[self.node[at]]), percent)
        return np.asarray(np.minimum(self.relief[at], need), np.float64)

    def value(self, percent: FloatArray, pods: slice = ALL) -> FloatArray:
        """(pods,) points of excess that leave with each pod alone, for each unit of its price."""
        node = self.node[pods]
        removed = self.hotness.removed(self.nodes[node], percent[node], self.relief[pods])
        return removed / self.value_price[pods]

    def added(self, pod: Candidate, landings: LandingDistribution) -> FloatArray:
        """(hot nodes, resources) points that the replacement of any pod brings them, by its chances."""
        chance = np.zeros(len(self.hotness.hot))
        chance[landings.rows] = landings.chance
        on = np.flatnonzero(chance[self.nodes])
        points = np.zeros((len(self.nodes), len(self.hotness.names)))
        if len(on):
            amounts = np.repeat(with_pods(pod.usage[None], 1.0), len(on), axis=0)
            points[on] = chance[self.nodes[on], None] * _points(amounts, self._allocatable[on])
        return points

    def least(self, asked: float, percent: FloatArray) -> FloatArray:
        """(pods,) points above coolTo without which moving a pod can never pay.

        That is ``asked``, a least relief, for a pod that takes away only what its node stays hot in although
        all of its pods leave; else so little as may be usual there.
        """
        cools = self.no_longer_hot(self.with_all_gone(percent))[self.node]
        helps = (self.relieved_of(percent) * cools).sum(axis=1) > NEGLIGIBLE
        return np.where(helps, least_relief(asked, 0.0), asked) * self.price

    def ends_heat(self, percent: FloatArray, pods: slice = ALL) -> BoolArray:
        """(pods,) which cool a node by leaving alone, in a resource in which it is hot."""
        need = self.hotness.above(self.nodes, percent)
        node = self.node[pods]
        enough = self.relief[pods] >= need[node] - NEGLIGIBLE
        return np.asarray((self.still_hot(percent)[node] & enough).any(axis=1), np.bool_)

    def best(self, value: FloatArray, percent: FloatArray) -> int:
        """The pod of most value, of the hottest node; of the pods that cool that alone the best fit."""
        rounded = np.round(value, DIGITS)
        alike = (rounded == rounded.max()).nonzero()[0]
        best = int(alike[0])
        if len(alike) > 1:
            best = int(alike[np.argmax(np.round(self.excess(percent)[self.node[alike]], DIGITS))])
        node = self.node[best]
        need = self.hotness.above(int(self.nodes[node]), percent[node])
        above = need > NEGLIGIBLE
        pods: range = self._on[node]
        here = slice(pods.start, pods.stop)
        relief = self.relief[here][:, above]
        enough = (value[here] > 0) & (relief >= need[above] - NEGLIGIBLE).all(axis=1)
        if not enough[best - pods.start]:
            return best
        beyond = np.maximum(relief - need[above], 0.0).sum(axis=1) / 100.0
        price = np.where(enough, np.round(self.value_price[here] + _FIT_WEIGHT * beyond, 9), np.inf)
        return int(pods[int(np.argmin(price))])


def _oversize(prepared: PreparedInputs, pods: Sequence[Candidate]) -> FloatArray:
    """(pods,) for how many times what a pod uses the scheduler counts it, as shares of cpu and memory."""
    if not pods:
        return np.zeros(0)
    classes = prepared.start.likeliest.after_termination.classes
    counted = np.array([classes.present_scored[pod.replacement] for pod in pods], np.float64)
    used = np.nan_to_num(np.array([pod.usage[: len(RESOURCES)] for pod in pods]))
    columns = [classes.resources.index(name) for name in RESOURCES]
    whole = classes.allocatable[np.array([pod.source for pod in pods])][:, columns]
    return np.asarray((1.0 + _points(counted, whole)).sum(axis=1) / (1.0 + _points(used, whole)).sum(axis=1))


def _joined(parts: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate([np.zeros(0), *parts])


def _points(amounts: FloatArray, whole: FloatArray) -> FloatArray:
    """(pods, resources) amounts in points of (pods, resources) what a node has; 0 where either is unknown."""
    return np.nan_to_num(np.where(whole > 0, 100.0 * amounts / np.where(whole > 0, whole, 1.0), 0.0))


def shape_cost(
    load: LoadReport, hotness: Hotness, usage: FloatArray, node: NodeRow, pods: Sequence[PodRow]
) -> FloatArray:
    """(pods,) by how many hundred points less than the best of them each pod evens out its node.

    All zero unless the node is hot in one of cpu and memory alone: a node that is short of both
    strands nothing.
    """
    hot = [bool(hotness.resources[node, hotness.names.index(name)]) for name in RESOURCES]
    if not pods or hot.count(True) != 1:
        return np.zeros(len(pods))
    evened = fragmentation_relief(load, usage, node, pods)
    return np.asarray((evened.max() - evened) / 100.0, np.float64)


def fragmentation_relief(
    load: LoadReport, usage: FloatArray, node: NodeRow, pods: Sequence[PodRow]
) -> FloatArray:
    """(pods,) points by which each pod's leaving narrows the gap between cpu and memory of a node.

    ``usage`` is (nodes, resources), what is expected of the nodes. Negative where the gap widens; 0 where
    anything that it takes to know is unknown, so that an unknown pod is never preferred.
    """
    columns = [load.percent_resources.index(name) for name in RESOURCES]
    room = load.allocatable[node, columns]
    whole = np.where(room > 0, room, np.nan)
    before = 100.0 * usage[node, : len(RESOURCES)] / whole
    rows = np.array(pods, np.int64)
    after = before - 100.0 * load.relief[rows, : len(RESOURCES)] / whole
    narrowed = np.abs(before[0] - before[1]) - np.abs(after[:, 0] - after[:, 1])
    return np.asarray(np.nan_to_num(narrowed, nan=0.0), np.float64)
