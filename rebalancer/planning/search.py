"""Looks for the moves of a plan: each strategy in its turn, which moves the pods that it wishes to move.

Greedy, and bounded by counts, never by time. Everything is ordered by load and by name, never by chance or by
the order of the input, so the same inputs give the same plan, byte by byte.

    search         hotNodes: web-1 and web-2 may go to n4, and then n1 is at 64 %
                   misplaced: api-3 runs on a node whose taint it no longer tolerates
    follow_all     the moves once more, where the search followed only some of what ties may lead to

A strategy that does not search by itself has its pods tried one after the other, see ``one_by_one``.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.builder import PartialPlan, PlanBuilder
from rebalancer.planning.landing.scenarios import MAX_FOLLOWED, MAX_SCENARIOS
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved
from rebalancer.planning.strategies.one_by_one import together_with
from rebalancer.planning.strategies.strategy import Strategy

# Courses times moves, and that times nodes: each course makes all moves again.
_MAX_STEPS_FOLLOWED = 500
_MAX_CELLS_FOLLOWED = 100_000


def search(prepared: PreparedInputs, strategies: Sequence[Strategy]) -> PartialPlan:
    """The moves that the strategies find together, and why other pods stay."""
    plan = PartialPlan(PlanBuilder(prepared, strategies), {})
    for strategy in strategies:
        plan = strategy.extend(plan)
    plan = follow_all(prepared, plan, strategies) if plan.scenarios.are_some else plan
    moved = plan.builder.moved
    refused = {pod: why for pod, why in prepared.so_far.refused.items() if pod not in moved}
    return replace(plan, staying={**refused, **plan.staying}) if refused else plan


def follow_all(prepared: PreparedInputs, plan: PartialPlan, strategies: Sequence[Strategy]) -> PartialPlan:
    """The plan with every course of its landings, without the moves that do not hold in one of them.

    A plan that taints nodes on its way is left as it is.
    """
    moves = max(len(plan.moves), 1)
    bounds = _MAX_STEPS_FOLLOWED // moves, _MAX_CELLS_FOLLOWED // (len(prepared.nodes) * moves)
    max_scenarios = min(MAX_FOLLOWED, *bounds)
    if max_scenarios <= MAX_SCENARIOS or plan.builder.has_tainted:
        return plan
    staying = dict(plan.staying)
    group_of = {strategy.name: strategy.group for strategy in strategies}
    while True:
        builder = plan.builder.anew(prepared, max_scenarios)
        left = [move.candidate for move in plan.moves if move.candidate.row not in staying]
        refused: dict[PodRow, NotMoved] = {}
        for candidate in left:
            refusal = builder.try_move(candidate)
            if refusal is not None:
                refused[candidate.row] = refusal
        if not refused:
            return replace(plan, builder=builder, staying=staying)
        staying |= refused
        for candidate in left:
            group = group_of[candidate.wish.strategy](candidate.row)
            others = [
                other
                for other in refused
                if other == candidate.wish.makes_room_for
                or (group and group_of[candidate.wish.strategy](other) == group)
            ]
            if others and candidate.row not in refused:
                staying[candidate.row] = together_with(prepared, others[0])
