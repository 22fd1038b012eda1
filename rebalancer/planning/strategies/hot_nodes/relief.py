"""Moves pods off hot nodes, down to their coolTo, as far as landings and limits allow.

The excess is what hot nodes are above their coolTo, as ``Hotness.excess`` counts it. A resource that cannot
cool, because a protected pod holds it, does not keep the others from cooling. Plans are compared by the
excess they leave, the nodes they leave hot and what they cost, all in points; ``search`` finds the best.

What it would gain with higher limits is said besides, so that the policy can be judged by it. The search goes
on from the plan with those limits lifted that together keep pods where they are, by one draft in one scenario
and with few placements: an estimate, and never part of the plan. Where a move brings too little relief for
its cost, it goes on with what bolder levels of aggressiveness ask for.

    perRun 20 is reached and 20 of 76 hot nodes are cool; without it the search would make 70 moves:
    "perRun 70 would bring 65 of 76 hot nodes down to coolTo (65 %), this plan 20"

The limit that is named is what the moves found need. On a large cluster fewer are looked for, so a lower one
is named, with what that would give.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.counting import counted, listed
from rebalancer.planning.builder import PartialPlan, PlanBuilder, PlannedMove
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.hotness import out_of_reach, short_level
from rebalancer.planning.landing.evaluation import Candidate, Wish
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.hot_nodes.movable import DIGITS, MovablePods
from rebalancer.planning.strategies.hot_nodes.search import RankedPlan, ReliefSearch
from rebalancer.policy.schema import BOLDEST, LEVELS, Limits
from rebalancer.policy.units import Amount

# Placements that each estimate may take, and placements times nodes: large clusters can afford less.
_MOST_PLACEMENTS = 500
_FEWEST_PLACEMENTS = 60
_CELLS = 60_000
_MAX_ESTIMATES = 2
_WORTH_NAMING = 1.0  # points of excess; less is no reason to change a policy
_UNLIMITED = 1 << 30
LIFTED: Mapping[str, object] = {  # what a limit is when none is set, by its name in Limits
    "per_run": _UNLIMITED,
    "per_node": _UNLIMITED,
    "per_namespace": _UNLIMITED,
    "per_workload": Amount(_UNLIMITED),
}


class _Estimate(msgspec.Struct, frozen=True):
    excess: float
    cool: int  # hot nodes at or below their coolTo
    words: str  # perRun 70


def relieve(prepared: PreparedInputs, wish: Wish, so_far: PartialPlan) -> PartialPlan:
    """The plan with the moves that relieve hot nodes, and why the other pods of these nodes stay."""
    candidates: dict[NodeRow, list[Candidate]] = {}
    why_kept: dict[PodRow, NotMoved] = {}
    if not prepared.hotness.hot.any():
        return so_far
    for node in map(NodeRow, np.flatnonzero(prepared.hotness.was_hot).tolist()):
        candidates[node] = []
        if not prepared.hotness.hot[node]:
            continue  # nothing leaves it, and what it is given counts
        blocked = _why_none_may_leave(prepared, node)
        for row in prepared.pods_on(node):
            refusal = why_protected(prepared.eviction, row) or blocked
            if refusal is None:
                candidates[node].append(prepared.candidate(row, wish))
            else:
                why_kept[row] = refusal
    pods = MovablePods(prepared, prepared.disruption, candidates)
    best = ReliefSearch(prepared, pods, so_far.builder).best()
    why_kept |= {pods.candidates[at].row: why for at, why in best.staying.items()}
    every_kept = {**so_far.staying, **why_kept}
    if not prepared.options.explains:
        return PartialPlan(best.builder, every_kept, {**so_far.notes, wish.strategy: ""})
    raised = RaisedLimits(prepared, pods, best)
    notes = {**so_far.notes, wish.strategy: raised.sentence()}
    return PartialPlan(best.builder, every_kept, notes, raised.moved)


def _why_none_may_leave(prepared: PreparedInputs, node: NodeRow) -> NotMoved | None:
    """Why nothing may leave a hot node in this run; None when pods may."""
    settling = prepared.settling(node)
    if settling:
        return settling
    inputs = prepared.inputs
    state = inputs.state
    needed = inputs.policy.hot_nodes.for_runs
    name = inputs.snapshot.nodes.names[node]
    spacing = inputs.policy.hot_nodes.run_spacing_seconds
    runs = state.hot_runs_with(name, inputs.now, spacing) if state else needed
    if runs < needed:
        wait = state.counts_in(inputs.now, spacing) if state else 0.0
        soonest = f"; the next run that counts: in {math.ceil(wait / 60)} min" if wait > 0 else ""
        message = f"its node was hot in {runs} of {needed} required runs{soonest}"
        return NotMoved(Reason.HOT_TOO_BRIEFLY, message)
    return None


def go_on(
    prepared: PreparedInputs,
    pods: MovablePods,
    builder: PlanBuilder,
    limits: Limits,
    asked: float | None = None,
    estimates: int = 1,
) -> PlanBuilder:
    """An estimate of the plan that goes on from a builder with these pods, limits and least relief.

    What this asks for is not counted: the strategies that follow have as many placements left as before.
    Several ``estimates`` share the placements of one.
    """
    affordable = _CELLS // max(len(prepared.nodes), 1)
    placements = min(_MOST_PLACEMENTS, max(_FEWEST_PLACEMENTS, affordable))
    start = builder.copy(limits, placements // estimates)
    start.scenarios = start.scenarios.only(1)  # which is good enough for an estimate
    before = start.evaluator.placed
    further = ReliefSearch(prepared, pods, start, asked).estimate()
    start.evaluator.placed = before
    return further


class RaisedLimits:
    """Goes on from a finished plan without one of its limits."""

    def __init__(self, prepared: PreparedInputs, pods: MovablePods, best: RankedPlan) -> None:
        self._prepared = prepared
        self._pods = pods
        self._best = best
        # By limits that were lifted together: the pods that move besides.
        self.moved: dict[frozenset[str], frozenset[PodRow]] = {}
        # (nodes of ``pods``,)
        self._is_hot = prepared.hotness.hot[pods.nodes]
        # (the same,) no limit would make the others cool, which no eviction cools
        self._within_reach = ~out_of_reach(prepared.inputs, prepared.hotness)[pods.nodes].any(axis=1)

    def sentence(self) -> str:
        """What the most useful of the binding limits would give; empty when none binds or helps."""
        builder = self._best.builder
        now = self._estimate(builder, "")
        estimates = [self._without(names) for names in self._binding()]
        estimates += self._bolder(now)
        best = min(
            estimates,
            key=lambda estimate: (round(estimate.excess, DIGITS), -estimate.cool, estimate.words),
            default=now,
        )
        if best.cool > now.cool:
            nodes = counted(int(np.count_nonzero(self._is_hot)), "hot node")
            gain = f"bring {best.cool} of {nodes} down to {self._cool_to()}, this plan {now.cool}"
        elif best.excess < now.excess - _WORTH_NAMING:
            gain = f"leave {best.excess:.1f} points of excess, not {now.excess:.1f}"
        else:
            return ""
        return f"{best.words} would {gain}"

    def _cool_to(self) -> str:
        """``coolTo (65 %)``; without the level where the hot nodes have several."""
        hotness = self._prepared.hotness
        rows = self._pods.nodes
        levels = {short_level(level) for level in hotness.cool_to[rows][hotness.resources[rows]].tolist()}
        return f"coolTo ({levels.pop()} %)" if len(levels) == 1 else "coolTo"

    def _binding(self) -> list[tuple[str, ...]]:
        """The limits that together keep pods of nodes above their coolTo, those that keep most first."""
        pods = self._pods
        builder = self._best.builder
        above = (self._within_reach & (pods.excess(pods.percent(builder)) > 0))[pods.node]
        counts = Counter(builder.used.reached(pods.candidates[at]) for at in self._best.staying if above[at])
        # What earlier runs used of a rate, or a limit for some pods, is not for a plan to lift.
        counts = Counter(
            {names: count for names, count in counts.items() if names and set(names) <= LIFTED.keys()}
        )
        return sorted(counts, key=lambda names: (-counts[names], names))[:_MAX_ESTIMATES]

    def _without(self, names: tuple[str, ...]) -> _Estimate:
        lifted = self._prepared.policy.limits.model_copy(update={name: LIFTED[name] for name in names})
        further = self._further(lifted)
        self.moved[frozenset(names)] = frozenset(move.candidate.row for move in self._moves_of(further))
        words = [f"{Limits.model_fields[name].alias} {further.used.most_used(name)}" for name in names]
        return self._estimate(further, listed(words))

    def _bolder(self, now: _Estimate) -> list[_Estimate]:
        """The next bolder level that helps, where one keeps any pod for its little relief."""
        policy = self._prepared.policy
        if not any(refusal.reason is Reason.LITTLE_RELIEF for refusal in self._best.staying.values()):
            return []
        for number in range(policy.planning.aggressiveness + 1, BOLDEST + 1):
            further = self._further(policy.limits, LEVELS[number].least_relief)
            estimate = self._estimate(further, f"aggressiveness {number}{self._points(further)}")
            if estimate.cool > now.cool or estimate.excess < now.excess - _WORTH_NAMING:
                return [estimate]
        return []

    def _points(self, further: PlanBuilder) -> str:
        """By how much each of the further moves would relieve its node, in words."""
        number = {candidate.row: at for at, candidate in enumerate(self._pods.candidates)}
        moves = self._moves_of(further)
        points = [float(self._pods.relieves(number[move.candidate.row], move.before).sum()) for move in moves]
        if not points:
            return ""
        least = f"{min(points):.2g}"
        greatest = f"{max(points):.2g}"
        each = least if least == greatest else f"{least} to {greatest}"
        amount = f"{each} {'point' if each == '1' else 'points'}"
        if len(points) == 1:
            return f" and 1 further move of {amount}"
        return f" and {len(points)} further moves of {amount} each"

    def _moves_of(self, further: PlanBuilder) -> Sequence[PlannedMove]:
        """The moves that an estimate makes after those of the plan."""
        return further.moves[len(self._best.builder.moves) :]

    def _further(self, limits: Limits, asked: float | None = None) -> PlanBuilder:
        """The plan, continued under other limits or with another least relief."""
        return go_on(self._prepared, self._pods, self._best.builder, limits, asked)

    def _estimate(self, builder: PlanBuilder, words: str) -> _Estimate:
        left = self._pods.excess(self._pods.percent(builder))
        is_cool = self._is_hot & self._within_reach & (left <= 0)
        return _Estimate(float(left[self._within_reach].sum()), int(np.count_nonzero(is_cool)), words)
