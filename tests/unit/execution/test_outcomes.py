"""The next run learns of every pod that was evicted, or perhaps was."""

from __future__ import annotations

import pytest

from rebalancer.execution.outcomes import Outcome, after_outcomes, past_moves
from rebalancer.state.results import Result
from rebalancer.state.run_state import PastMove
from tests.rows import rows
from tests.unit.execution.builders import NOW, a_move


def an_outcome(result: Result, *, evicted: bool = True, node: str = "") -> Outcome:
    return Outcome(
        move=a_move(),
        result=result,
        because="",
        node=node,
        evicted_at=NOW if evicted else None,
        bound_at=NOW + 1 if node else None,
        ready_at=NOW + 3 if result is Result.LANDED else None,
    )


def test_a_landed_move_is_remembered_with_its_load() -> None:
    assert past_moves([an_outcome(Result.LANDED, node="cool")]) == (
        PastMove(
            namespace="shop",
            name="web-1",
            uid="uid-web-1",
            workload="Deployment/web",
            controller_uid="rs-uid",
            from_node="hot",
            to_node="cool",
            result="Landed",
            evicted_at=NOW,
            landed_at=NOW + 3,
            load={"cpu": 500, "memory": 1 << 20},
        ),
    )


@pytest.mark.parametrize("result", [Result.SKIPPED, Result.REFUSED])
def test_what_was_not_evicted_is_not_remembered(result: Result) -> None:
    assert past_moves([an_outcome(result, evicted=False)]) == ()


@rows("result", [Result.UNKNOWN, Result.PENDING, Result.NOT_REPLACED, Result.NOT_READY])
def test_what_did_not_land_is_remembered_without_a_landing(result: Result) -> None:
    [move] = past_moves([an_outcome(result)])
    assert (move.result, move.landed_at) == (result.value, None)


def test_an_unexpected_landing_counts_where_it_is() -> None:
    [move] = past_moves([an_outcome(Result.UNEXPECTED, node="hot")])
    assert (move.to_node, move.landed_at) == ("hot", NOW + 1)


def test_a_later_account_of_a_pod_replaces_the_provisional_one() -> None:
    state = after_outcomes(None, [an_outcome(Result.UNKNOWN)], NOW, 3600)
    state = after_outcomes(state, [an_outcome(Result.LANDED, node="cool")], NOW + 5, 3600)
    assert [move.result for move in state.moves] == ["Landed"]


@pytest.mark.parametrize("result", [Result.SKIPPED, Result.REFUSED])
def test_an_eviction_that_was_announced_and_not_made_is_forgotten(result: Result) -> None:
    state = after_outcomes(None, [an_outcome(Result.UNKNOWN)], NOW, 3600)
    assert after_outcomes(state, [an_outcome(result, evicted=False)], NOW + 5, 3600).moves == ()


def test_a_move_that_landed_is_not_forgotten_for_a_later_one_that_was_not_made() -> None:
    state = after_outcomes(None, [an_outcome(Result.LANDED, node="cool")], NOW, 3600)
    later = after_outcomes(state, [an_outcome(Result.SKIPPED, evicted=False)], NOW + 5, 3600)
    assert later.moves == state.moves
