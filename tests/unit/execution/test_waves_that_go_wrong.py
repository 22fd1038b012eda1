"""What is seen between two evictions of a wave counts at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest

from rebalancer.errors import StopRequestedError, UnreachableError
from rebalancer.execution.outcomes import Outcome, Stop
from rebalancer.execution.verify import MAX_SECONDS_TO_PLACE
from rebalancer.planning.plan import Move, Progress
from rebalancer.policy.schema import Execution
from rebalancer.state.results import Result
from tests.unit.execution.builders import a_move, results
from tests.unit.execution.fake_api import refusal
from tests.unit.execution.tiny_cluster import Run

FIVE = [f"web-{number}" for number in range(5)]


def a_run_of_five() -> tuple[Run, list[Move]]:
    return Run(*FIVE), [a_move(name) for name in FIVE]


@pytest.mark.parametrize(
    ("lands_on", "bound_after", "result"),
    [("hot", 0.0, Result.UNEXPECTED), ("cool", 1e9, Result.PENDING), ("", 0.0, Result.NOT_REPLACED)],
)
def test_nothing_more_is_evicted_once_a_replacement_goes_astray(
    lands_on: str, bound_after: float, result: Result
) -> None:
    run, moves = a_run_of_five()
    run.cluster.lands_on, run.cluster.bound_after = lands_on, bound_after
    outcomes = run(*moves)
    assert run.cluster.evicted == ["web-0"]
    assert results(outcomes) == [result, *[Result.SKIPPED] * 4]
    assert outcomes.stop is Stop.OUTCOME


def test_a_workload_that_was_scaled_down_meanwhile_is_said_to_want_no_replacement() -> None:
    run, moves = a_run_of_five()
    run.cluster.lands_on = ""
    metadata = {"name": "web", "namespace": "shop", "uid": "rs-uid"}
    controller = {"metadata": metadata, "spec": {"replicas": 4}, "status": {"replicas": 4}}
    run.cluster.controllers = [controller]
    outcomes = run(*moves)
    because = "its controller has made no replacement; ReplicaSet web wants 4 pods and has them"
    assert outcomes.outcomes[0].because == because
    assert outcomes.stopped == f"shop/web-0: NotReplaced: {because}"


def test_an_unexpected_landing_that_the_policy_bears_lets_the_wave_go_on_with_moves_that_still_hold() -> None:
    run, moves = a_run_of_five()
    run.cluster.lands_on = "hot"
    judged: list[str] = []

    def next_in_wave(_landed: Sequence[Outcome], move: Move) -> str | Move:
        judged.append(move.pod.name)
        return move

    bears = Execution(on_unexpected_landing="continue")
    assert results(run(*moves, execution=bears, next_in_wave=next_in_wave)) == [Result.UNEXPECTED] * 5
    assert judged == FIVE[1:]


def test_a_replacement_that_is_long_in_coming_holds_up_the_wave_until_it_is_verified() -> None:
    run, moves = a_run_of_five()
    run.cluster.bound_after = 30.0
    assert results(run(*moves)) == [Result.LANDED] * 5
    pauses = [later - earlier for earlier, later in pairwise(run.cluster.evicted_at)]
    assert min(pauses) >= 30.0 > MAX_SECONDS_TO_PLACE
    assert [event for event, _ in run.journal()].count("wave-finished") == 5


def test_where_a_replacement_lands_on_a_node_that_was_not_listed_the_next_moves_are_judged_by_that() -> None:
    run, _ = a_run_of_five()
    moves = [a_move(name, to=("cold",)) for name in FIVE]  # alone on cold, and lands on cool
    judged: list[str] = []

    def next_in_wave(_landed: Sequence[Outcome], move: Move) -> str | Move:
        judged.append(move.pod.name)
        return "cool would be hot" if move.pod.name == "web-3" else move

    outcomes = run(*moves, next_in_wave=next_in_wave)
    assert judged == FIVE[1:]
    elsewhere = Result.LANDED_ELSEWHERE
    assert results(outcomes) == [*[elsewhere] * 3, Result.SKIPPED, elsewhere]


def test_a_pod_that_changed_since_its_wave_was_checked_is_checked_again_at_its_own_eviction() -> None:
    run, moves = a_run_of_five()

    def validate(moves: Sequence[Move]) -> dict[str, str]:
        return {"uid-web-2": "protected"} if len(moves) == 1 else {}

    outcomes = run(*moves, validate=validate, seen=lambda pod: pod.metadata.name != "web-2")
    assert results(outcomes) == [Result.LANDED, Result.LANDED, Result.SKIPPED, *[Result.LANDED] * 2]
    assert outcomes.outcomes[2].because == "protected"
    lines = [msgspec.json.decode(line) for line in run.stream.getvalue().splitlines()]
    assert [line["because"] for line in lines if line["event"] == "skipped"] == ["protected"]


def test_a_pod_that_cannot_be_checked_again_is_not_evicted_and_the_run_ends() -> None:
    run, moves = a_run_of_five()

    def validate(moves: Sequence[Move]) -> dict[str, str]:
        if len(moves) == 1:
            raise UnreachableError("down")
        return {}

    outcomes = run(*moves, validate=validate, seen=lambda _: False)
    assert results(outcomes) == [Result.SKIPPED] * 5
    assert outcomes.stop is Stop.UNREACHABLE
    assert not run.cluster.evicted


def test_where_a_landing_was_one_of_several_each_next_move_is_judged_by_where_it_was() -> None:
    """All nodes are listed, but what may follow on the first of them may not follow on another."""
    run, _ = a_run_of_five()
    moves = [a_move(name, to=("cool", "cold")) for name in FIVE]
    judged: list[tuple[str, list[str]]] = []

    def next_in_wave(landed: Sequence[Outcome], move: Move) -> str | Move:
        judged.append((move.pod.name, [outcome.node for outcome in landed]))
        return "cool would be hot" if len(landed) == 2 else move

    outcomes = run(*moves, next_in_wave=next_in_wave)
    assert results(outcomes) == [Result.LANDED] * 2 + [Result.SKIPPED] * 3
    assert [outcome.because for outcome in outcomes.outcomes[2:]] == ["cool would be hot"] * 3
    assert judged == [("web-1", ["cool"]), *((f"web-{number}", ["cool"] * 2) for number in (2, 3, 4))]


def test_a_signal_while_the_next_move_is_judged_ends_the_wave_with_what_became_of_those_made() -> None:
    run, _ = a_run_of_five()
    moves = [a_move(name, to=("cool", "cold")) for name in FIVE]

    def next_in_wave(landed: Sequence[Outcome], move: Move) -> str | Move:
        if len(landed) == 2:
            raise StopRequestedError("plan: asked to stop")
        return move

    outcomes = run(*moves, next_in_wave=next_in_wave)
    assert run.cluster.evicted == ["web-0", "web-1"]
    assert results(outcomes) == [Result.LANDED] * 2 + [Result.SKIPPED] * 3
    assert outcomes.stop is Stop.INTERRUPTED


def test_once_an_eviction_is_refused_each_next_move_is_judged_by_what_was_made_and_what_was_not() -> None:
    run, moves = a_run_of_five()
    run.cluster.refuse["web-1"] = refusal(403, "the webhook says no")
    seen: list[tuple[list[str], ...]] = []

    def progressed(progress: Progress) -> None:
        seen.append(
            tuple(
                [move.pod.name for move in part] for part in (progress.made, progress.stayed, progress.left)
            )
        )

    def next_in_wave(_landed: Sequence[Outcome], move: Move) -> str | Move:
        return "it would move only together with web-1" if move.pod.name == "web-3" else move

    outcomes = run(*moves, next_in_wave=next_in_wave, progressed=progressed)
    landed, skipped = Result.LANDED, Result.SKIPPED
    assert results(outcomes) == [landed, Result.REFUSED, landed, skipped, landed]
    assert seen[1:] == [
        (["web-0"], ["web-1"], FIVE[2:]),
        (["web-0", "web-2"], ["web-1"], FIVE[3:]),
        (["web-0", "web-2"], ["web-1", "web-3"], FIVE[4:]),
    ]


def test_where_each_landing_is_certain_nothing_is_judged_again() -> None:
    run, moves = a_run_of_five()

    def next_in_wave(_landed: Sequence[Outcome], _move: Move) -> str:
        return "must not be asked"

    assert results(run(*moves, next_in_wave=next_in_wave)) == [Result.LANDED] * 5
