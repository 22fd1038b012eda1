"""Finished pods are removed before the first wave: evicted like any other, and nothing is waited for."""

from __future__ import annotations

from rebalancer.errors import ExitCode
from rebalancer.execution.outcomes import Outcomes, past_moves
from rebalancer.planning.plan import Cleanup
from rebalancer.state.results import Result
from tests.unit.execution.builders import a_move, results
from tests.unit.execution.fake_api import refusal
from tests.unit.execution.tiny_cluster import Run


def a_cleanup(name: str = "web-1") -> Cleanup:
    pod = a_move(name).pod
    return Cleanup(pod=pod, node="hot", because="it failed (Evicted) and is 9 d old", strategy="failed")


def removed(outcomes: Outcomes) -> list[Result]:
    return [item.result for item in outcomes.cleanups]


def test_finished_pods_are_removed_before_the_first_wave_and_nothing_is_waited_for() -> None:
    run = Run("web-1", "web-2", "web-3")
    run.cluster.lands_on = ""
    outcomes = run(cleanups=(a_cleanup("web-1"), a_cleanup("web-2")))

    assert run.cluster.evicted == ["web-1", "web-2"]
    assert removed(outcomes) == [Result.REMOVED] * 2
    assert (outcomes.outcomes, outcomes.exit_code, outcomes.stopped) == ((), ExitCode.DONE, "")


def test_a_removal_is_journaled_before_and_after() -> None:
    run = Run("web-1", "web-2")
    run(a_move("web-2"), cleanups=(a_cleanup("web-1"),))

    assert [event for event, _ in run.journal()][:4] == ["run-started", "removing", "removed", "wave-started"]


def test_moves_after_it_are_verified_as_ever() -> None:
    run = Run("web-1", "web-2")
    outcomes = run(a_move("web-2"), cleanups=(a_cleanup("web-1"),))

    assert (removed(outcomes), results(outcomes)) == ([Result.REMOVED], [Result.LANDED])


def test_the_next_run_knows_nothing_of_it_for_no_load_has_moved() -> None:
    run = Run("web-1", "web-2")
    outcomes = run(a_move("web-2"), cleanups=(a_cleanup("web-1"),))

    assert [move.name for move in past_moves(outcomes.outcomes)] == ["web-2"]
    assert all(outcome.move.pod.name == "web-2" for saved in run.checkpoints for outcome in saved)


def test_a_refused_removal_stops_no_other_and_leaves_the_run_partly_done() -> None:
    run = Run("web-1", "web-2", "web-3")
    run.cluster.refuse["web-1"] = refusal(403, "denied by a webhook")
    outcomes = run(a_move("web-3"), cleanups=(a_cleanup("web-1"), a_cleanup("web-2")))

    assert (removed(outcomes), results(outcomes)) == ([Result.REFUSED, Result.REMOVED], [Result.LANDED])
    assert outcomes.exit_code == ExitCode.PARTLY_DONE


def test_a_missing_right_stops_the_run_before_its_first_wave() -> None:
    run = Run("web-1", "web-2")
    run.cluster.refuse["web-1"] = refusal(403, "cannot create resource pods/eviction")
    outcomes = run(a_move("web-2"), cleanups=(a_cleanup("web-1"),))

    assert (removed(outcomes), results(outcomes)) == ([Result.REFUSED], [Result.SKIPPED])
    assert outcomes.exit_code == ExitCode.RIGHTS_MISSING


def test_no_finished_pod_is_removed_while_a_safety_check_fails() -> None:
    run = Run("web-1")
    outcomes = run(cleanups=(a_cleanup("web-1"),), pause=lambda: "the policy pauses runs")

    assert run.cluster.evicted == []
    assert removed(outcomes) == [Result.SKIPPED]
    assert outcomes.exit_code == ExitCode.STOPPED


def test_a_pod_that_has_changed_since_the_plan_is_left_to_the_next_run() -> None:
    run = Run("web-1")
    outcomes = run(cleanups=(a_cleanup("web-1"),), seen=lambda _pod: False)

    assert run.cluster.evicted == []
    assert removed(outcomes) == [Result.SKIPPED]
    assert outcomes.cleanups[0].because == "it has changed since the plan was made"


def test_a_dry_run_says_that_it_would_be_evicted() -> None:
    run = Run("web-1")
    outcomes = run(cleanups=(a_cleanup("web-1"),), dry_run=True)

    assert (removed(outcomes), run.cluster.evicted) == ([Result.WOULD_EVICT], [])
