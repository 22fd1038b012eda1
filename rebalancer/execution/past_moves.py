"""What the next run must know about this one: the outcomes of its moves, as the state keeps them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from rebalancer.execution.outcomes import Outcome, Result
from rebalancer.state import PastMove, RunState, after_moves

_LANDED = frozenset(
    {
        Result.LANDED,
        Result.LANDED_ELSEWHERE,
        Result.RESTARTED,
        Result.RESTARTED_ELSEWHERE,
        Result.UNEXPECTED,
    }
)


def past_moves(outcomes: Iterable[Outcome], run: str = "") -> tuple[PastMove, ...]:
    """The moves whose pods were, or may have been, evicted; the others changed nothing in the cluster."""
    return tuple(_past_move(outcome, run) for outcome in outcomes if outcome.evicted_at is not None)


def after_outcomes(
    state: RunState | None, outcomes: Iterable[Outcome], now: float, horizon_seconds: float, run: str = ""
) -> RunState:
    """The state with these outcomes of a run; moves older than the horizon are dropped.

    The provisional entry that this run wrote before an eviction is withdrawn once it is known that the pod
    stayed. What another run wrote about the pod is not touched: it may know better.
    """
    known = tuple(outcomes)
    untouched = {outcome.move.pod.uid for outcome in known if outcome.evicted_at is None}
    if state is not None and untouched:
        kept = tuple(move for move in state.moves if not _withdrawn(move, untouched, run))
        state = msgspec.structs.replace(state, moves=kept)
    return after_moves(state, past_moves(known, run), now, horizon_seconds)


def _withdrawn(move: PastMove, untouched: Collection[str], run: str) -> bool:
    return move.run == run and move.uid in untouched and move.result == Result.UNKNOWN


def _past_move(outcome: Outcome, run: str) -> PastMove:
    pod = outcome.move.pod
    landed = outcome.result in _LANDED
    return PastMove(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        run=run,
        workload=pod.workload,
        controller_uid=outcome.replacement_controller_uid or pod.controller_uid,
        from_node=outcome.move.from_node,
        to_node=outcome.node,
        result=outcome.result.value,
        evicted_at=outcome.evicted_at or 0.0,
        landed_at=(outcome.ready_at or outcome.bound_at) if landed else None,
        load=dict(outcome.move.load),
    )
