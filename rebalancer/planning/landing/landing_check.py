"""The landing check: whether the node that a replacement may land on is acceptable.

An eviction is only worth it if every node the scheduler may choose is better than the node that is left. A
landing is acceptable when its node

1. is another node than the one that is left,
2. may be counted on: Ready for a while, not being removed, with fresh figures that do not settle,
3. is not made hot; a node that was hot itself is filled up to its coolTo at most; and no node is filled above
   ``planning.maxAfter``, whatever the rules name,
4. ends at least ``planning.minGain`` points below the node left, in every resource that node must cool in.

For example, with cpu hot above 80 % and minGain 5, a pod that is 20 points leaves node a at 92 %:

    b  at 30 % becomes 50 %   acceptable, a gain of 42 points
    c  at 65 % becomes 85 %   not acceptable: it would be hot
    d  at 60 % becomes 80 %   acceptable: not above 80 %, and 12 points below 92 %
    e  has no fresh figure    not acceptable: unknown is not favourable
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.load.report import PERCENT_RESOURCES, percent_of_allocatable
from rebalancer.planning.hotness import Hotness
from rebalancer.planning.inputs import PlanningInputs

# A node that became ready this recently may not stay so.
JUST_READY_SECONDS = 120.0


def excluded_destinations(inputs: PlanningInputs, doubtful: Mapping[int, str]) -> dict[int, str]:
    """Nodes that no landing may count on, with the reason, by row; figures of ``doubtful`` ones mislead."""
    nodes = inputs.snapshot.nodes
    found: dict[int, str] = {}
    known = inputs.load.known.tolist()
    for row in range(len(nodes)):
        reason = _unfit(inputs, row, known=known[row]) or doubtful.get(row, "")
        if reason:
            found[row] = reason
    return found


def _unfit(inputs: PlanningInputs, row: int, *, known: bool) -> str:
    nodes = inputs.snapshot.nodes
    if not nodes.ready[row]:
        return "is not Ready"
    if not known:
        return "has no fresh load figure"
    if nodes.incomplete[row]:
        return "runs a pod that could not be read"
    leaving = why_leaving(nodes.records[row])
    if leaving:
        return leaving
    if inputs.now - nodes.ready_since[row] < JUST_READY_SECONDS:
        return "became Ready only just now"
    return ""


class LandingCheck:
    """Checks the landings of one plan."""

    def __init__(
        self,
        inputs: PlanningInputs,
        hotness: Hotness,
        settling: Mapping[int, str],
        filling: Mapping[int, str],
    ) -> None:
        """By row, with the reason: figures of ``settling`` nodes still show what earlier moves took away or
        brought; those of ``filling`` nodes do not show yet what others brought, so nothing may land there.
        """
        self.settling = settling
        self.excluded = excluded_destinations(inputs, {**filling, **settling})
        self._usable: BoolArray = np.ones(len(inputs.snapshot.nodes), np.bool_)
        self._usable[list(self.excluded)] = False
        self._hotness = hotness
        self._allocatable = inputs.load.allocatable
        self._min_gain = inputs.policy.planning.min_gain
        self._names = inputs.snapshot.nodes.names
        self._resources = inputs.load.percent_resources
        most = inputs.policy.planning.max_after
        # (resources,) percent of allocatable up to which a landing may fill any node
        self._max_after = np.array([most.get(name, np.inf) for name in self._resources], np.float64)

    def percent_after(
        self, rows: IntArray, usage: FloatArray, pod_count: IntArray, pod_usage: FloatArray
    ) -> FloatArray:
        """(rows, resources) percent of allocatable with one more pod on each of the rows."""
        return percent_of_allocatable(usage[rows] + pod_usage, pod_count[rows] + 1, self._allocatable[rows])

    def gains(self, source: NodeRow, before: FloatArray, after: FloatArray) -> FloatArray:
        """(rows, resources) points: the node left before, less the landing after; inf where it need not cool.

        A node must cool in each resource that it is hot in and that is above its coolTo; once there is none
        of these, in every other resource that is above its coolTo.
        """
        above = before > self._hotness.cool_to[source]
        hot = above & self._hotness.resources[source]
        return np.where(hot if hot.any() else above, before - after, np.inf)

    def acceptable(self, source: NodeRow, rows: IntArray, before: FloatArray, after: FloatArray) -> BoolArray:
        """(rows,) whether each landing is acceptable; ``before`` is (resources,) percent of the node left."""
        gains = self.gains(source, before, after)
        better = np.all(gains >= self._min_gain, axis=1)
        cool = np.all(self._cool_enough(after, self._most(rows)), axis=1)
        return np.asarray(self._usable[rows] & (rows != source) & cool & better, np.bool_)

    def _most(self, rows: IntArray) -> FloatArray:
        """(rows, resources) up to which a landing may fill each node."""
        return np.minimum(self._hotness.most(rows), self._max_after)

    @staticmethod
    def _cool_enough(after: FloatArray, most: FloatArray) -> BoolArray:
        """Whether percentages are low enough; unknown ones fail, except of resources no rule mentions."""
        cool = np.asarray(after <= most, np.bool_)
        others = slice(len(PERCENT_RESOURCES), None)
        cool[..., others] |= np.isinf(most[..., others])
        return cool

    def why_not(self, source: NodeRow, row: NodeRow, before: FloatArray, after: FloatArray) -> str:
        """The first reason that a landing on a node is not acceptable; empty when it is."""
        name = self._names[row]
        if row == source:
            return f"{name} is the node it leaves"
        if row in self.excluded:
            return f"{name} {self.excluded[row]}"
        by_rule = self._hotness.most(np.array([row]))[0]
        most = self._most(np.array([row]))[0]
        cool = self._cool_enough(after, most)
        for column, resource in enumerate(self._resources):
            if not cool[column]:
                level = "an unknown level of" if np.isnan(after[column]) else f"{after[column]:.1f} %"
                limit = f", hot above {most[column]:.1f} %"
                if most[column] < by_rule[column]:
                    limit = f", planning.maxAfter {most[column]:.1f} %"
                elif self._hotness.hot[row]:
                    limit = f"; it is hot, and may be filled up to {most[column]:.1f} % only"
                return f"{name} would be at {level} {resource}{limit}"
        gains = self.gains(source, before, after)
        for column, resource in enumerate(self._resources):
            if not gains[column] >= self._min_gain:
                return (
                    f"{name} would gain {gains[column]:.1f} points of {resource}, minGain {self._min_gain:g}"
                )
        return ""

    def settings_behind(
        self, source: NodeRow, row: NodeRow, before: FloatArray, after: FloatArray
    ) -> tuple[str, ...]:
        """The settings of ``planning`` that alone make a landing unacceptable; empty when others do as well.

        A node that would be hot, or no better than the one left, is never a landing.
        """
        gains, rows = self.gains(source, before, after), np.array([row])
        by_rules = self._cool_enough(after, self._hotness.most(rows)[0]).all()
        if row == source or row in self.excluded or not by_rules or not (gains > 0).all():
            return ()
        fills = not self._cool_enough(after, self._most(rows)[0]).all()
        gains_little = not (gains >= self._min_gain).all()
        return ("planning.maxAfter",) * fills + ("planning.minGain",) * gains_little
