"""Tries the pods of a strategy one after the other; those that move all or none together, in a group.

wish      misplaced: api-3 runs on a node whose taint it no longer tolerates
tried     may it be evicted, is a limit reached, does its landing hold in every scenario?
else      it stays, by the first of these that refuses it, and with it the others of its group
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.builder import AcceptedMove, PartialPlan, PlanBuilder
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Wish
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason


def move_in_groups(
    prepared: PreparedInputs,
    so_far: PartialPlan,
    groups: Callable[[PlanBuilder], Iterable[Iterable[PodRow]]],
    wish_of: Callable[[PodRow, PlanBuilder], Wish],
    group_of: Callable[[PodRow], str],
    *,
    siblings_later: bool,
) -> PartialPlan:
    """The plan with the pods moved that a strategy wishes to move, and that hold.

    ``groups`` are the pods to try, by a plan that holds the moves so far: each is asked for once others
    moved. ``wish_of`` has no message for a pod that is not to move. Pods of one name by ``group_of`` move all
    or none; with ``siblings_later`` not all pods of a workload move in one run.
    """
    builder = so_far.builder.copy()
    why_kept = dict(so_far.staying)
    moved = builder.moved
    for group in groups(builder):
        before = None
        tried: dict[PodRow, NotMoved | None] = {}
        for pod in group:
            if pod in moved:
                continue
            wish = wish_of(pod, builder)
            if not wish.message:
                continue
            outcome = move_of(prepared, builder, pod, wish, siblings_later=siblings_later)
            if isinstance(outcome, NotMoved):
                words = f"{outcome.message} ({wish.strategy}: {wish.message})"
                tried[pod] = replace(outcome, message=words)
                continue
            if before is None and group_of(pod):
                before = builder.copy()  # which costs more than to find that the first pod stays
            builder.add(outcome)
            tried[pod] = None
        refused = next((pod for pod, refusal in tried.items() if refusal is not None), None)
        if refused is not None and group_of(refused):
            if before is not None:
                builder.restore(before)
            together = together_with(prepared, refused)
            tried = {pod: refusal or together for pod, refusal in tried.items()}
        for pod, refusal in tried.items():
            if refusal is not None:
                why_kept[pod] = refusal
            else:
                why_kept.pop(pod, None)
    return replace(so_far, builder=builder, staying=why_kept)


def _sibling_first(prepared: PreparedInputs, builder: PlanBuilder, pod: PodRow) -> NotMoved | None:
    """That a run moves as many of a pod's siblings as it may, of a strategy that moves them one by one.

    However many a budget allows, one replica stays as it is, so a run never replaces them all.
    """
    workload = prepared.eviction.workload(pod)
    budgets = prepared.eviction.budgets.of(pod)
    moved = builder.used.counts["per_workload"][workload.key]
    allowed = min((budget.allowed for budget in budgets), default=1)
    if moved < max(1, min(allowed, (workload.desired or 0) - 1)):
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
