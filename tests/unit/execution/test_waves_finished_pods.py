"""Pods that have finished are removed: evicted like any other, and no replacement is waited for."""

from __future__ import annotations

from msgspec.structs import replace

from rebalancer.errors import ExitCode
from rebalancer.execution.outcomes import past_moves
from rebalancer.planning.plan import Move
from rebalancer.state.results import Result
from tests.unit.execution.builders import a_move, results
from tests.unit.execution.fake_api import refusal
from tests.unit.execution.tiny_cluster import Run


def a_removal(name: str = "web-1", wave: int = 1) -> Move:
    move = a_move(name, to=(), wave=wave)
    return replace(move, finished=True, gain={}, load={}, strategy="failed")


def test_a_finished_pod_is_removed_and_nothing_is_waited_for() -> None:
    run = Run("web-1", "web-2")
    run.cluster.lands_on = ""
    outcomes = run(a_removal("web-1"), a_removal("web-2", wave=2))

    assert run.cluster.evicted == ["web-1", "web-2"]
    assert results(outcomes) == [Result.REMOVED] * 2
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.DONE, "")
    assert all(item.evicted_at is not None and not item.node for item in outcomes.outcomes)


def test_its_removal_is_journaled_before_and_after() -> None:
    run = Run("web-1")
    run(a_removal())

    assert [event for event, _ in run.journal()] == [
        *("run-started", "wave-started", "evicting", "evicted", "outcome", "wave-finished", "run-finished")
    ]


def test_moves_beside_it_are_verified_as_ever() -> None:
    run = Run("web-1", "web-2")
    outcomes = run(a_removal("web-1"), a_move("web-2"))

    assert results(outcomes) == [Result.REMOVED, Result.LANDED]


def test_the_next_run_knows_nothing_of_it_for_no_load_has_moved() -> None:
    run = Run("web-1", "web-2")
    outcomes = run(a_removal("web-1"), a_move("web-2"))

    assert [move.name for move in past_moves(outcomes.outcomes)] == ["web-2"]


def test_a_refused_removal_is_refused_like_any_eviction() -> None:
    run = Run("web-1")
    run.cluster.refuse["web-1"] = refusal(403, "denied by a webhook")
    outcomes = run(a_removal())

    assert results(outcomes) == [Result.REFUSED]
    assert outcomes.exit_code == ExitCode.PARTLY_DONE


def test_a_dry_run_says_that_it_would_be_evicted() -> None:
    run = Run("web-1")
    outcomes = run(a_removal(), dry_run=True)

    assert results(outcomes) == [Result.WOULD_EVICT]
    assert outcomes.outcomes[0].because == "dry run: the API server would evict it"
