"""What follows from a result is the same for every stage: the run, its reports, and the runs after it."""

from __future__ import annotations

from rebalancer.errors import ExitCode
from rebalancer.state.results import BAD_RESULTS, LoadAfter, Result
from tests.rows import rows


def test_a_run_stops_after_what_its_plan_did_not_allow_for_and_after_what_it_does_not_know() -> None:
    assert {result for result in Result if result.ends_run()} == BAD_RESULTS | {Result.UNKNOWN}


def test_the_policy_lets_a_run_go_on_after_an_unexpected_landing_and_after_nothing_else() -> None:
    went_on = {result for result in Result if result.ends_run() and not result.ends_run("continue")}
    assert went_on == {Result.UNEXPECTED}


def test_only_moves_that_the_plan_did_not_allow_for_are_not_soon_repeated() -> None:
    assert {result.value for result in BAD_RESULTS} == {
        *("Unexpected", "Pending", "NotReady", "NotReplaced", "RolloutStalled")
    }


@rows("result", Result)
def test_a_pod_that_nobody_was_asked_to_move_keeps_its_load_and_is_no_warning(result: Result) -> None:
    if not result.was_requested:
        assert result.load is LoadAfter.STAYED
        assert not result.is_warning


@rows("result", Result)
def test_the_load_of_a_pod_whose_replacement_landed_is_where_the_replacement_is(result: Result) -> None:
    assert not result.landed or result.load is LoadAfter.MOVED


@rows("result", Result)
def test_the_load_of_a_pod_that_is_still_being_moved_is_not_known(result: Result) -> None:
    assert not result.is_under_way or result.load is LoadAfter.UNKNOWN


def test_a_result_leaves_a_run_done_partly_done_or_stopped() -> None:
    assert {result.exit_code for result in Result} == {
        *(ExitCode.DONE, ExitCode.PARTLY_DONE, ExitCode.STOPPED)
    }


def test_a_result_that_only_a_newer_version_knows_counts_as_unknown() -> None:
    assert Result.of("LandedTwice") is Result.UNKNOWN
    assert all(Result.of(result.value) is result for result in Result)


def test_a_move_that_was_requested_and_ended_otherwise_than_wished_is_a_warning() -> None:
    expected = BAD_RESULTS | {Result.REFUSED, Result.UNKNOWN}
    assert {result for result in Result if result.is_warning} == expected
