"""A run does what its plan says while nothing speaks against it, and every move gets an outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.errors import ExitCode, InputError
from rebalancer.execution.events import MoveEnded, RunEvent
from rebalancer.execution.outcomes import Outcomes, Stop, exit_code
from rebalancer.execution.verify import MAX_SECONDS_TO_PLACE
from rebalancer.planning.plan import POD_GONE, POD_LEAVING, Landing, Move
from rebalancer.policy.schema import Execution
from rebalancer.state.results import Result
from tests.unit.execution.builders import a_move, results
from tests.unit.execution.fake_api import refusal
from tests.unit.execution.tiny_cluster import Run


def test_each_eviction_is_journaled_before_and_after() -> None:
    run = Run("web-1")
    run(a_move())
    assert run.journal() == [
        ("run-started", ""),
        ("wave-started", ""),
        ("evicting", "shop/web-1"),
        ("evicted", "shop/web-1"),
        ("outcome", "shop/web-1"),
        ("wave-finished", ""),
        ("run-finished", ""),
    ]


def test_an_empty_plan_is_done() -> None:
    outcomes = Run()()
    assert (outcomes.exit_code, outcomes.outcomes) == (ExitCode.DONE, ())


def test_outcomes_keep_the_order_of_the_plan_and_evictions_that_of_the_waves() -> None:
    run = Run("web-1", "web-2", "web-3")
    outcomes = run(a_move("web-1", wave=3), a_move("web-2", wave=1), a_move("web-3", wave=2))
    assert run.cluster.evicted == ["web-2", "web-3", "web-1"]
    assert [outcome.move.pod.name for outcome in outcomes.outcomes] == ["web-1", "web-2", "web-3"]


def test_moves_that_no_longer_hold_are_skipped_with_the_reason() -> None:
    run = Run("web-1", "web-2")
    seen: list[list[str]] = []

    def validate(moves: Sequence[Move]) -> dict[str, str]:
        seen.append([move.pod.name for move in moves])
        return {"uid-web-2": "cool is hot now"} if len(seen) == 2 else {}

    outcomes = run(a_move("web-1", wave=1), a_move("web-2", wave=2), validate=validate)
    assert seen == [["web-1", "web-2"], ["web-2"]]
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert outcomes.outcomes[1].because == "cool is hot now"
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.PARTLY_DONE, "")


@pytest.mark.parametrize("leaving", [POD_GONE, f"{POD_LEAVING}: is already being deleted"])
def test_a_pod_that_left_by_itself_before_its_wave_is_no_failure_of_the_run(leaving: str) -> None:
    run = Run("web-1")
    outcomes = run(
        a_move("web-1", wave=1),
        a_move("web-2", wave=1),
        a_move("web-3", wave=2),
        validate=lambda moves: {"uid-web-3": leaving},
    )
    assert results(outcomes) == [Result.LANDED, Result.GONE, Result.GONE]
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.DONE, "")
    assert [item.move.pod.name for item in run.checkpoints[-1] if item.evicted_at is not None] == ["web-1"]


def test_a_landing_is_compared_with_those_its_move_has_now() -> None:
    run = Run("web-1")
    run.cluster.lands_on = "cold"
    now = a_move(to=("cold",))
    outcomes = run(a_move(), validate=lambda moves: {move.pod.uid: now for move in moves})
    assert results(outcomes) == [Result.LANDED]
    assert [landing.node for landing in outcomes.outcomes[0].move.landings] == ["cold"]
    assert "placed-again" in run.stream.getvalue()


def test_a_pod_is_evicted_once_the_one_before_it_is_placed_again_so_that_they_are_placed_in_order() -> None:
    run = Run("web-1", "web-2", "web-3")
    run.cluster.bound_after = 1.5
    outcomes = run(a_move("web-1"), a_move("web-2"), a_move("web-3"))
    assert results(outcomes) == [Result.LANDED] * 3
    first, second, third = run.cluster.evicted_at
    assert 1.5 <= second - first < MAX_SECONDS_TO_PLACE
    assert 1.5 <= third - second < MAX_SECONDS_TO_PLACE


def test_a_wave_of_which_nothing_holds_evicts_nothing() -> None:
    run = Run("web-1")
    outcomes = run(a_move(), validate=lambda moves: {move.pod.uid: "no" for move in moves})
    assert results(outcomes) == [Result.SKIPPED]
    assert not run.cluster.evicted


def test_a_defect_of_ours_is_not_hidden() -> None:
    def judge(_move: Move, _node: str) -> str | None:
        raise RuntimeError("a defect")

    run = Run("web-1")
    run.cluster.lands_on = "elsewhere"
    with pytest.raises(RuntimeError):
        run(a_move(), check_landing=judge)


def test_a_plan_that_names_a_pod_twice_or_without_a_uid_is_refused_before_anything_happens() -> None:
    run = Run("web-1")
    with pytest.raises(InputError, match="shop/web-1: the plan moves this pod twice"):
        run(a_move(), a_move())
    nameless = replace(a_move(), pod=replace(a_move().pod, uid=""))
    with pytest.raises(InputError, match="without the pod's uid"):
        run(nameless)
    assert not run.stream.getvalue()


def test_a_dry_run_that_a_budget_refuses_says_so() -> None:
    run = Run("web-1", "web-2")
    run.cluster.refuse["web-1"] = refusal(403, "no")
    outcomes = run(a_move("web-1"), a_move("web-2"), dry_run=True)
    assert results(outcomes) == [Result.REFUSED, Result.WOULD_EVICT]
    assert outcomes.exit_code == ExitCode.PARTLY_DONE
    assert not run.cluster.evicted


def test_a_dry_run_has_the_landings_of_the_plan_in_every_wave_and_says_in_every_line_what_it_is() -> None:
    def elsewhere(moves: Sequence[Move], _landed: object) -> dict[str, str | Move]:
        return {
            move.pod.uid: replace(move, landings=(Landing(node="elsewhere", probability=1.0),))
            for move in moves
        }

    run = Run("web-1", "web-2")
    moves = (a_move("web-1"), a_move("web-2", wave=2))
    outcomes = run(*moves, validate=elsewhere, dry_run=True)

    assert [outcome.move for outcome in outcomes.outcomes] == list(moves)
    lines = [json.loads(line) for line in run.stream.getvalue().splitlines()]
    assert all(line["dryRun"] for line in lines)
    assert not {line["event"] for line in lines} & {"evicting", "evicted", "placed-again"}
    assert [line["event"] for line in lines].count("would-evict") == 2


def test_outcomes_are_reported_once_each() -> None:
    reported: list[str] = []

    def watching(event: RunEvent) -> None:
        if isinstance(event, MoveEnded):
            reported.append(event.outcome.move.pod.name)

    run = Run("web-1", "web-2")
    run.cluster.lands_on = "hot"
    run(a_move("web-1", wave=1), a_move("web-2", wave=2), shown_to=(watching,))
    assert reported == ["web-1", "web-2"]


def test_outcomes_are_read_back_as_they_were_written() -> None:
    outcomes = Run("web-1")(a_move())
    content = msgspec.json.encode(outcomes)
    assert msgspec.json.decode(content, type=Outcomes) == outcomes


def test_the_worst_result_decides_the_exit_code_unless_something_stopped_the_run() -> None:
    assert exit_code([Result.LANDED, Result.LANDED_ELSEWHERE], None) == ExitCode.DONE
    assert exit_code([Result.LANDED, Result.REFUSED], None) == ExitCode.PARTLY_DONE
    assert exit_code([Result.REFUSED, Result.UNEXPECTED], None) == ExitCode.STOPPED
    assert exit_code([Result.UNEXPECTED], Stop.INTERRUPTED) == ExitCode.INTERRUPTED
    assert exit_code([], None) == ExitCode.DONE


@pytest.mark.parametrize("pause", [120.0, 0.0])
def test_the_pause_between_waves_begins_when_the_wave_before_has_ended(pause: float) -> None:
    run = Run("web-1", "web-2", "web-3")
    moves = [a_move(f"web-{wave}", wave=wave) for wave in (1, 2, 3)]
    outcomes = run(*moves, execution=Execution(pause_between_waves=pause))
    assert results(outcomes) == [Result.LANDED] * 3
    first, *_, last = run.cluster.evicted_at
    assert 2 * pause <= last - first < 2 * pause + 5


def test_a_run_that_only_asks_does_not_pause_between_waves() -> None:
    run = Run("web-1", "web-2")
    run(a_move("web-1"), a_move("web-2", wave=2), execution=Execution(pause_between_waves=600), dry_run=True)
    assert not run.time.slept


def test_a_pause_between_waves_lasts_no_longer_than_the_run_may() -> None:
    run = Run("web-1", "web-2")
    began = run.time.now
    moves = (a_move("web-1"), a_move("web-2", wave=2))
    outcomes = run(*moves, execution=Execution(pause_between_waves=600), max_duration_seconds=60)
    assert run.cluster.evicted == ["web-1"]
    assert "longest duration of 60 s" in outcomes.stopped
    assert run.time.now - began < 70


def test_a_run_that_is_asked_to_stop_in_a_pause_ends_within_its_next_second() -> None:
    run = Run("web-1", "web-2")
    asked_at = run.time.now + 0.5
    outcomes = run(
        a_move("web-1"),
        a_move("web-2", wave=2),
        execution=Execution(pause_between_waves=600),
        stop_requested=lambda: run.time.now >= asked_at,
    )
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert run.time.now <= asked_at + 1
