"""The landing check: whether the node that a replacement may land on is acceptable.

An eviction is only worth it if every node the scheduler may choose is better than the node that is left. What
holds for all landings, whoever wishes to move the pod:

1. it is another node than the one that is left, unless the purpose is served by a new pod on any node,
2. it may be counted on: Ready for a while, not being removed, with fresh figures that do not settle,
3. it is not hot with the pod, and no node is filled above ``planning.maxAfter``, whatever the rules name. A
   node that is hot, or was so earlier in this run, is filled up to its coolTo at most, unless the move
   relieves another one.

What makes a landing better is the purpose of the move, which its strategy brings along. The one that stands
here, ``CoolerNode``, asks for ``planning.minGain`` points in one of the resources in which the node left must
cool, and for no more load than there in any other of them. Nor may it spoil what another strategy of the
policy is for: that one would move pods again, in a loop.

For example, with cpu hot above 80 % and minGain 5, a pod that is 20 points leaves node a at 92 %:

    b  at 30 % becomes 50 %   acceptable, a gain of 42 points
    c  at 65 % becomes 85 %   not acceptable: it would be hot
    d  at 60 % becomes 80 %   acceptable: not above 80 %, and 12 points below 92 %
    e  has no fresh figure    not acceptable: unknown is not favourable
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.load.report import PERCENT_RESOURCES, LoadReport, percent_of_allocatable, with_pods
from rebalancer.planning.hotness import Hotness
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.purpose import Landings, Peer, Purpose
from rebalancer.planning.landing.spread import MOST_LOST, Spread

# A node that became ready this recently may not stay so.
JUST_READY_SECONDS = 120.0
_ROUNDING = 1e-9  # points by which sums of the same figures differ


def excluded_destinations(inputs: PlanningInputs, doubtful: Mapping[int, str]) -> dict[int, str]:
    """Nodes that no landing may count on, with the reason, by row; figures of ``doubtful`` ones mislead."""
    nodes = inputs.snapshot.nodes
    have_figures = inputs.load.known.tolist()
    reasons = (
        _unfit(inputs, row, has_figure=have_figures[row]) or doubtful.get(row, "")
        for row in range(len(nodes))
    )
    return {row: reason for row, reason in enumerate(reasons) if reason}


def _unfit(inputs: PlanningInputs, row: int, *, has_figure: bool) -> str:
    nodes = inputs.snapshot.nodes
    if not nodes.ready[row]:
        return "is not Ready"
    if not has_figure:
        lacking = inputs.load.without_allocatable(row)
        return f"has no allocatable {' or '.join(lacking)}" if lacking else "has no fresh load figure"
    if nodes.incomplete[row]:
        return "runs a pod that could not be read"
    leaving = why_leaving(nodes.records[row])
    if leaving:
        return leaving
    if inputs.now - nodes.ready_since[row] < JUST_READY_SECONDS:
        return "became Ready only just now"
    return ""


def _of_any(by_resource: BoolArray) -> BoolArray:
    """(nodes,) whether any of (nodes, resources) is true."""
    return np.asarray(np.logical_or.reduce(by_resource, axis=1), np.bool_)


def _of_all(by_resource: BoolArray) -> BoolArray:
    """(nodes,) whether all of (nodes, resources) are true."""
    return np.asarray(np.logical_and.reduce(by_resource, axis=1), np.bool_)


class CoolerNode(msgspec.Struct, Purpose, frozen=True, eq=False):
    """Asks that a landing relieves the node left in one resource, and is no worse in any other.

    The node left must cool in each resource that it is hot in and that is above its coolTo; once there is
    none of these, in every other resource that is above its coolTo. A node that is cool asks for nothing. Of
    the resources in which it must cool,

    * in one that the pod takes some of, the landing must be ``planning.minGain`` points below the node left,
      or as many as that is above its coolTo, where these are fewer,
    * in none that the pod brings some of may the landing be fuller than the node left.

    So a rule asks for relief, and never forbids what another rule asks for:

        hot above 80 % cpu, 85 % memory; the node left is at 92 % cpu and 90 % memory; minGain 5
        a pod of 20 points cpu, 1 point memory    a landing at 60 % cpu and 84 % memory gains 32 and 6 points
        the same onto one of 60 % and 89 %        gains 32 points of cpu, and 1 of memory: that is enough
        the same onto one of 60 % and 91 %        memory would be fuller than where it is too full already

    A landing by which replicas lose their spread must gain more: as many points once more for each unit that
    this costs. What a pod takes is unknown where its node has no figure: no gain is seen there, and a landing
    is compared by its own figure.
    """

    hotness: Hotness
    min_gain: float  # points
    spread: Spread
    spread_weight: float  # units that the loss of the last other node, or zone, costs
    relieves: bool = True  # it is why the pod moves, and not only asked for besides
    # By node, (resources,) percent up to which a pod that makes room may fill it; None: it makes none.
    fills: Mapping[int, FloatArray] | None = None

    def makes_room(self, load: LoadReport, pod: PodRow, source: NodeRow, percent: FloatArray) -> CoolerNode:
        """The same for a pod that makes room for another one, which leaves a node that is at ``percent``.

        Two nodes that are hot by different resources may swap pods: the first fills the other node by no more
        than the second takes away from there.
        """
        hot_above = self.hotness.hot_above[source]
        max_percent = np.maximum(hot_above, np.where(np.isfinite(hot_above), percent, 0.0))
        return replace(self, fills={int(source): max_percent + np.nan_to_num(load.points[pod])})

    def _must_cool(self, landings: Landings) -> BoolArray:
        """(resources,) in which the node that is left must cool."""
        to_cool = self.hotness.to_cool(landings.source, landings.before)
        if self.fills is not None and not self.hotness.hot[landings.source]:
            return np.zeros_like(to_cool)
        return to_cool

    def _may_gain(self, landings: Landings, must_cool: BoolArray) -> BoolArray:
        """(resources,) in one of which a landing has to gain: where the pod takes nothing it gains none."""
        return must_cool & (landings.points > 0.0) if self.relieves else must_cool

    def gains(self, landings: Landings) -> FloatArray:
        """(nodes, resources) points that the landing is below the node left; inf where none are asked."""
        may_gain = self._may_gain(landings, self._must_cool(landings))
        return np.where(may_gain, landings.before - landings.after, np.inf)

    @staticmethod
    def _worse(landings: Landings, must_cool: BoolArray) -> BoolArray:
        """(nodes, resources) in which a landing is fuller than the node left, by what the pod brings too."""
        brings = must_cool & ~(landings.points <= 0.0)
        return brings & ~(landings.after <= landings.before + _ROUNDING)

    def _least(self, landings: Landings, must_cool: BoolArray) -> FloatArray:
        """(resources,) points, one of which is enough if no replicas lose their spread; inf where none is."""
        above = landings.before - self.hotness.cool_to[landings.source]
        return np.where(self._may_gain(landings, must_cool), np.minimum(above, self.min_gain), np.inf)

    def serves(self, landings: Landings) -> BoolArray:
        """(nodes,) whether each node gains enough in one resource, and is worse in none."""
        must_cool = self._must_cool(landings)
        if not np.count_nonzero(must_cool):
            return np.ones(len(landings.rows), np.bool_)
        least = self._least(landings, must_cool)
        gains = landings.before - landings.after + _ROUNDING
        not_worse = ~_of_any(self._worse(landings, must_cool))
        most_times = 1.0 + MOST_LOST * self.spread_weight
        enough = _of_any(gains >= least * most_times) & not_worse  # whatever replicas lose
        if np.count_nonzero(enough) == len(enough):
            return enough
        served = _of_any(gains >= least) & not_worse
        if np.count_nonzero(served) > np.count_nonzero(enough):
            served &= _of_any(gains >= least * self._times(landings)[:, None])
        return served

    def _times(self, landings: Landings) -> FloatArray:
        """(nodes,) how many times as many points a landing on each node must gain."""
        if landings.state is None:
            return np.ones(len(landings.rows))
        lost = self.spread.lost(landings.state, landings.pod, landings.source, landings.rows)
        return 1.0 + self.spread_weight * lost.cost

    def objection(self, landings: Landings, at: int) -> str:
        """In which resource the landing is worse, or how little is gained in the best of them."""
        must_cool = self._must_cool(landings)
        if not must_cool.any():
            return ""
        names = self.hotness.names
        worse = np.flatnonzero(self._worse(landings, must_cool)[at])
        if len(worse):
            column = int(worse[0])
            return (
                f"would be at {landings.after[at, column]:.1f} % {names[column]}, above the "
                f"{landings.before[column]:.1f} % of the node that it leaves"
            )
        may_gain = np.flatnonzero(self._may_gain(landings, must_cool))
        if not len(may_gain):
            hot = " and ".join(names[column] for column in np.flatnonzero(must_cool).tolist())
            return f"would take over nothing of the {hot} in which its node must cool"
        gains = landings.before - landings.after[at]
        least = self._least(landings, must_cool)
        column = int(may_gain[np.argmax(np.nan_to_num(gains - least, nan=-np.inf)[may_gain])])
        points = float(gains[column])
        asked = float(least[column])
        words = f"would gain {points:.1f} points of {names[column]}"
        limit = f"minGain {self.min_gain:g}"
        if asked < self.min_gain:
            limit = f"of the {asked:.1f} that its node is above coolTo"
        if not points + _ROUNDING >= asked:
            return f"{words}, {limit}"
        asked *= float(self._times(landings)[at])
        if points + _ROUNDING >= asked:
            return ""
        return (
            f"{words}; since replicas would lose their spread, {limit} and weights.spread "
            f"{self.spread_weight:g} ask for {asked:.1f}"
        )

    def settings_behind(self, landings: Landings, at: int) -> tuple[str, ...] | None:
        """minGain, where something is gained and not enough; None where no setting would help."""
        must_cool = self._must_cool(landings)
        if not must_cool.any():
            return ()
        least = self._least(landings, must_cool)
        gains = landings.before - landings.after[at]
        may_gain = self._may_gain(landings, must_cool)
        if self._worse(landings, must_cool)[at].any() or not (gains > 0)[may_gain].any():
            return None
        if (gains + _ROUNDING >= least * self._times(landings)[at]).any():
            return ()
        enough = (gains + _ROUNDING >= least).any()
        return ("planning.weights.spread",) if enough else ("planning.minGain",)


def _of_each(answers: Sequence[bool] | BoolArray, landings: Landings, of: Purpose | Peer) -> BoolArray:
    """(nodes,) what a strategy says of each landing.

    Raises ValueError where it says too little or too much: what it left out would be taken for good.
    """
    answered = len(answers)
    asked = len(landings.rows)
    if answered != asked:
        raise ValueError(
            f"{type(of).__name__} says something of {answered} landings, and must of each of {asked}"
        )
    return np.asarray(answers, np.bool_)


class LandingCheck:
    """Checks the landings of one plan, whatever their purpose."""

    def __init__(
        self,
        inputs: PlanningInputs,
        hotness: Hotness,
        spread: Spread,
        settling: Mapping[int, str],
        filling: Mapping[int, str],
        lingering: FloatArray,
    ) -> None:
        """By row, with the reason: figures of ``settling`` nodes still show what earlier moves took away or
        brought; those of ``filling`` nodes do not show yet what others brought, so nothing may land there.
        ``lingering``, (nodes, measured resources), is used beside what is expected of nodes, for a while.
        """
        self._peers: Sequence[Peer] = ()
        self._lingering = lingering
        self._lingers = bool(np.count_nonzero(lingering))
        self.spread = spread
        self.settling = settling
        self.excluded = excluded_destinations(inputs, {**filling, **settling})
        self._usable: BoolArray = np.ones(len(inputs.snapshot.nodes), np.bool_)
        self._usable[list(self.excluded)] = False
        self._hotness = hotness
        self._allocatable = inputs.load.allocatable
        self._knows_all = bool((self._allocatable > 0).all())
        self._names = inputs.snapshot.nodes.names
        self._resources = inputs.load.percent_resources
        max_after = inputs.policy.planning.max_after
        # (resources,) percent of allocatable up to which a landing may fill any node
        self._max_after = np.array([max_after.get(name, np.inf) for name in self._resources], np.float64)
        # (nodes, resources) percent up to which the rules let a landing fill each node, whatever it is for
        self._rules_of_all = hotness.landing_limit(np.arange(len(inputs.snapshot.nodes)))

    def beside(self, peers: Sequence[Peer]) -> LandingCheck:
        """The same check, which also asks these strategies what a landing would spoil."""
        other = copy.copy(self)
        other._peers = peers
        return other

    def percent_after(
        self, rows: IntArray, usage: FloatArray, pod_count: IntArray, pod_usage: FloatArray
    ) -> FloatArray:
        """(rows, resources) percent of allocatable with one more pod on each of the rows."""
        there = usage.take(rows, axis=0)
        if self._lingers:
            there += self._lingering[rows]
        there += pod_usage
        count = pod_count.take(rows) + 1
        allocatable = self._allocatable.take(rows, axis=0)
        if not self._knows_all:
            return percent_of_allocatable(there, count, allocatable)
        return np.asarray(100.0 * with_pods(there, count) / allocatable, np.float64)

    def acceptable(self, landings: Landings, purpose: Purpose) -> BoolArray:
        """(nodes,) whether each landing is acceptable."""
        rows = landings.rows
        max_percent = np.minimum(self._by_rules(rows, purpose), self._max_after)
        good = _of_all(self._cool_enough(landings.after, max_percent))
        good &= self._usable.take(rows)
        stays = rows == landings.source
        if purpose.own_node:
            good |= stays
        else:
            good &= ~stays
        if not np.count_nonzero(good):  # most that are looked at: what a strategy asks for costs more to tell
            return good
        good &= _of_each(purpose.serves(landings), landings, purpose)
        for peer in self._peers:
            spoils = peer.spoils(landings) if landings.state is not None and good.any() else None
            if spoils is not None:
                good &= stays | ~_of_each(spoils, landings, peer)
        return good

    def _by_rules(self, rows: IntArray, purpose: Purpose) -> FloatArray:
        """(rows, resources) percent up to which the rules of hot nodes let a landing fill each node."""
        if not isinstance(purpose, CoolerNode) or not purpose.relieves:
            return self._rules_of_all.take(rows, axis=0)
        by_rules = self._hotness.hot_above.take(rows, axis=0)
        for row, levels in (purpose.fills or {}).items():
            by_rules[rows == row] = levels
        return by_rules

    @staticmethod
    def _cool_enough(after: FloatArray, max_percent: FloatArray) -> BoolArray:
        """Whether percentages are low enough; unknown ones fail, except of resources no rule mentions."""
        cool = np.asarray(after <= max_percent, np.bool_)
        if after.shape[-1] > len(PERCENT_RESOURCES):
            others = slice(len(PERCENT_RESOURCES), None)
            cool[..., others] |= np.isinf(max_percent[..., others])
        return cool

    def why_not(self, landings: Landings, at: int, purpose: Purpose) -> str:
        """The first reason that one of the landings is not acceptable; empty when it is."""
        row = int(landings.rows[at])
        name = self._names[row]
        after = landings.after[at]
        if row == landings.source:
            objection = purpose.objection(landings, at) if purpose.own_node else "is the node it leaves"
            return f"{name} {objection}" if objection else ""
        if row in self.excluded:
            return f"{name} {self.excluded[row]}"
        by_rule = self._by_rules(landings.rows[[at]], purpose)[0]
        max_percent = np.minimum(by_rule, self._max_after)
        cool = self._cool_enough(after, max_percent).tolist()
        for column, resource in enumerate(self._resources):
            if not cool[column]:
                level = "an unknown level of" if np.isnan(after[column]) else f"{after[column]:.1f} %"
                limit = f", hot above {max_percent[column]:.1f} %"
                if max_percent[column] < by_rule[column]:
                    limit = f", planning.maxAfter {max_percent[column]:.1f} %"
                elif self._hotness.was_hot[row] and not (
                    isinstance(purpose, CoolerNode) and purpose.relieves
                ):
                    is_hot = "is hot" if self._hotness.hot[row] else "was hot in this run"
                    limit = f"; it {is_hot}, and may be filled up to {max_percent[column]:.1f} % only"
                return f"{name} would be at {level} {resource}{limit}"
        objection = purpose.objection(landings, at)
        if objection:
            return f"{name} {objection}"
        peer = self._spoiled(landings, at)
        return f"{name} {peer.spoiled(landings, at)}, so {peer.name} would move pods again" if peer else ""

    def _spoiled(self, landings: Landings, at: int) -> Peer | None:
        """The first strategy that would have to move pods because of one of the landings."""
        landing = replace(landings, rows=landings.rows[[at]], after=landings.after[[at]])
        for peer in self._peers if landings.state is not None else ():
            spoils = peer.spoils(landing)
            if spoils is not None and spoils[0]:
                return peer
        return None

    def settings_behind(self, landings: Landings, at: int, purpose: Purpose) -> tuple[str, ...]:
        """The settings of the policy that alone make a landing unacceptable; empty when others do as well.

        A node that would be hot, or no better than the one left, is never a landing.
        """
        row = int(landings.rows[at])
        after = landings.after[at]
        if row == landings.source or row in self.excluded:
            return ()
        by_rule = self._by_rules(landings.rows[[at]], purpose)[0]
        if not self._cool_enough(after, by_rule).all():
            return ()
        of_purpose = purpose.settings_behind(landings, at)
        if of_purpose is None:
            return ()
        if self._spoiled(landings, at):
            return ()
        fills = not self._cool_enough(after, np.minimum(by_rule, self._max_after)).all()
        return ("planning.maxAfter",) * fills + of_purpose
