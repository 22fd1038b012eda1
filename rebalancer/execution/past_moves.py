"""What the next run must know about this one: the outcomes of its moves, as the state keeps them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from rebalancer.execution.outcomes import Outcome, Result
from rebalancer.state import PastMove, RunState, after_moves


def past_moves(outcomes: Iterable[Outcome]) -> tuple[PastMove, ...]:
    """The moves whose pods were, or may have been, evicted; the others changed nothing in the cluster."""
    return tuple(_past_move(outcome) for outcome in outcomes if outcome.evicted_at is not None)


def after_outcomes(
    state: RunState | None, outcomes: Iterable[Outcome], now: float, horizon_seconds: float
) -> RunState:
    """The state with these outcomes; moves older than the horizon are dropped.

    The provisional entry written before an eviction is dropped too once it is known that the pod stayed.
    """
    known = tuple(outcomes)
    untouched = {outcome.move.pod.uid for outcome in known if outcome.evicted_at is None}
    if state is not None and untouched:
        kept = tuple(move for move in state.moves if not _withdrawn(move, untouched))
        state = msgspec.structs.replace(state, moves=kept)
    return after_moves(state, past_moves(known), now, horizon_seconds)


def _withdrawn(move: PastMove, untouched: Collection[str]) -> bool:
    return move.uid in untouched and move.result == Result.UNKNOWN


def _past_move(outcome: Outcome) -> PastMove:
    pod = outcome.move.pod
    landed = outcome.result in (Result.LANDED, Result.LANDED_ELSEWHERE, Result.UNEXPECTED)
    return PastMove(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        workload=pod.workload,
        controller_uid=pod.controller_uid,
        from_node=outcome.move.from_node,
        to_node=outcome.node,
        result=outcome.result.value,
        evicted_at=outcome.evicted_at or 0.0,
        landed_at=(outcome.ready_at or outcome.bound_at) if landed else None,
        load=dict(outcome.move.load),
    )
