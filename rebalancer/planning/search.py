"""Looks for the moves of a plan: each strategy in its turn, which moves the pods that it wishes to move.

Greedy, and bounded by counts, never by time. Everything is ordered by load and by name, never by chance or by
the order of the input, so the same inputs give the same plan, byte by byte.

    search         hotNodes: web-1 and web-2 may go to n4, and then n1 is at 64 %
                   misplaced: api-3 runs on a node whose taint it no longer tolerates
    follow_all     the moves once more, where the search followed only some of what ties may lead to

A strategy that does not search by itself is asked for one pod after the other, and what may move is decided
here in the same way for all of them. Pods of a group move together or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.builder import AcceptedMove, PartialPlan, PlanBuilder
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Wish
from rebalancer.planning.landing.scenarios import MAX_FOLLOWED, MAX_SCENARIOS
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.strategy import Strategy

# Courses times moves, of which each takes some milliseconds, and that times nodes: a second or two at most.
_MAX_STEPS_FOLLOWED = 500
_MAX_CELLS_FOLLOWED = 100_000


def search(prepared: PreparedInputs, strategies: Sequence[Strategy]) -> PartialPlan:
    """The moves that the strategies find together, and why other pods stay."""
    plan = PartialPlan(PlanBuilder(prepared, strategies), {})
    for strategy in strategies:
        attempt = partial(one_by_one, prepared, strategy, plan)
        plan = strategy.extend(plan) or strategy.choose(attempt)
    plan = follow_all(prepared, plan, strategies) if plan.scenarios.are_some else plan
    moved = plan.builder.moved
    refused = {pod: why for pod, why in prepared.so_far.refused.items() if pod not in moved}
    return replace(plan, kept={**refused, **plan.kept}) if refused else plan


def follow_all(prepared: PreparedInputs, plan: PartialPlan, strategies: Sequence[Strategy]) -> PartialPlan:
    """The plan with every course of its landings, without the moves that do not hold in one of them.

    A plan that taints nodes on its way is left as it is.
    """
    moves = max(len(plan.moves), 1)
    bounds = _MAX_STEPS_FOLLOWED // moves, _MAX_CELLS_FOLLOWED // (len(prepared.nodes) * moves)
    most = min(MAX_FOLLOWED, *bounds)
    if most <= MAX_SCENARIOS or plan.builder.has_tainted:
        return plan
    kept = dict(plan.kept)
    group_of = {item.name: item.group for item in strategies}
    while True:
        builder = plan.builder.anew(prepared, most)
        left = [move.candidate for move in plan.moves if move.candidate.row not in kept]
        refused: dict[PodRow, NotMoved] = {}
        for candidate in left:
            refusal = builder.try_move(candidate)
            if refusal is not None:
                refused[candidate.row] = refusal
                continue
            for strategy in strategies:
                strategy.follow(builder)
        if not refused:
            return replace(plan, builder=builder, kept=kept)
        kept |= refused
        for candidate in left:
            group = group_of[candidate.wish.strategy](candidate.row)
            others = [
                other
                for other in refused
                if other == candidate.wish.makes_room_for
                or (group and group_of[candidate.wish.strategy](other) == group)
            ]
            if others and candidate.row not in refused:
                kept[candidate.row] = together_with(prepared, others[0])


def one_by_one(prepared: PreparedInputs, strategy: Strategy, so_far: PartialPlan) -> PartialPlan:
    """The plan with the pods moved that a strategy wishes to move, and that hold."""
    builder = so_far.builder.copy()
    kept = dict(so_far.kept)
    moved = builder.moved
    for group in strategy.groups(builder):
        before = None
        tried: dict[PodRow, NotMoved | None] = {}
        for pod in group:
            message = "" if pod in moved else strategy.why(pod, builder)
            if not message:
                continue
            wish = Wish(strategy.name, strategy.purpose, message, strategy.lifts)
            found = move_of(prepared, builder, pod, wish, siblings_later=strategy.one_by_one)
            if isinstance(found, NotMoved):
                words = f"{found.message} ({strategy.name}: {message})"
                tried[pod] = replace(found, message=words)
                continue
            if before is None and strategy.group(pod):
                before = builder.copy()  # which costs more than to find that the first pod stays
            builder.add(found)
            tried[pod] = None
        refused = next((pod for pod, refusal in tried.items() if refusal is not None), None)
        if refused is not None and strategy.group(refused):
            if before is not None:
                builder.restore(before)
            together = together_with(prepared, refused)
            tried = {pod: refusal or together for pod, refusal in tried.items()}
        for pod, refusal in tried.items():
            if refusal is not None:
                kept[pod] = refusal
            else:
                kept.pop(pod, None)
    notes = {**so_far.notes, strategy.name: strategy.left} if strategy.left else so_far.notes
    return replace(so_far, builder=builder, kept=kept, notes=notes)


def _sibling_first(prepared: PreparedInputs, builder: PlanBuilder, pod: PodRow) -> NotMoved | None:
    """That a run moves as many of a pod's siblings as it may, of a strategy that moves them one by one.

    However many a budget allows, one replica stays as it is, so a run never replaces them all.
    """
    workload = prepared.eviction.workload(pod)
    budgets = prepared.eviction.budgets.of(pod)
    moved = builder.used.counts["per_workload"][workload.key]
    most = min((budget.allowed for budget in budgets), default=1)
    if moved < max(1, min(most, (workload.desired or 0) - 1)):
        return None
    verb = "moves" if moved == 1 else "move"
    message = f"{moved} of {workload.name} {verb} in this run; the others follow in later ones"
    return NotMoved(Reason.SIBLINGS, message)


def together_with(prepared: PreparedInputs, pod: PodRow) -> NotMoved:
    """Why the others of a group stay where this one does."""
    name = prepared.pods.full_name(pod)
    return NotMoved(Reason.GROUP, f"it would move only together with {name}, which stays")


def move_of(
    prepared: PreparedInputs,
    builder: PlanBuilder,
    pod: PodRow,
    wish: Wish,
    *,
    may_wait: bool = True,
    siblings_later: bool = False,
) -> AcceptedMove | NotMoved:
    """The move of a pod that may be evicted and whose landing holds; else why it stays."""
    return (
        prepared.settling(prepared.node_of(pod))
        or why_protected(prepared.eviction, pod, wish.lifts)
        or (_sibling_first(prepared, builder, pod) if siblings_later else None)
        or builder.find(prepared.candidate(pod, wish), may_wait=may_wait)
    )
