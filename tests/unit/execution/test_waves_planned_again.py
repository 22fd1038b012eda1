"""A run plans again while the cluster differs from its plan, and ends when nothing more is to be gained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rebalancer.errors import ExitCode, UnreachableError
from rebalancer.execution.outcomes import Outcomes, Stop
from rebalancer.planning.plan import Move, Plan
from rebalancer.policy.schema import Execution, Safety
from rebalancer.state.results import Result
from tests.unit.execution.builders import a_move, a_plan, results
from tests.unit.execution.tiny_cluster import Run


class Plans:
    """The further plans of a run, one after another, and what they were asked for with."""

    def __init__(self, *plans: Plan | UnreachableError) -> None:
        self.plans = list(plans)
        self.asked: list[tuple[list[str], int]] = []
        self.risks: list[list[float]] = []  # of the moves made, by plan

    def __call__(self, made: Sequence[Move], waves: int) -> Plan:
        self.asked.append(([move.pod.name for move in made], waves))
        self.risks.append([move.risk for move in made])
        plan = self.plans.pop(0)
        if isinstance(plan, UnreachableError):
            raise plan
        return plan


def skipping(*names: str) -> Callable[[Sequence[Move]], Mapping[str, str]]:
    """Says of each of these pods once that its move no longer holds."""
    left = {f"uid-{name}" for name in names}

    def validate(moves: Sequence[Move]) -> Mapping[str, str]:
        found = {move.pod.uid: "it would be hot" for move in moves if move.pod.uid in left}
        left.difference_update(found)
        return found

    return validate


def a_run(again: Plans | None, *moves: Move, **changes: Any) -> tuple[Outcomes, Run]:
    run = Run(*[f"web-{number}" for number in range(1, 6)])
    return run(*moves, again=again, **changes), run


MOVES = (a_move("web-1"), a_move("web-2", wave=2))
ELSEWHERE = ("cold", "cool")  # most likely on cold, and it lands on cool


def test_a_plan_that_went_as_expected_is_the_only_one() -> None:
    again = Plans()
    outcomes, _ = a_run(again, *MOVES)
    assert again.asked == []
    assert [(plan.moves, plan.made) for plan in outcomes.plans] == [(2, 2)]
    assert outcomes.plans[0].is_as_planned


def test_where_moves_were_skipped_the_run_plans_again_by_the_cluster_as_it_is() -> None:
    again = Plans(a_plan(a_move("web-3", wave=3)))
    outcomes, run = a_run(again, *MOVES, validate=skipping("web-2"))
    assert again.asked == [(["web-1"], 2)]
    assert [(plan.made, plan.skipped) for plan in outcomes.plans] == [(1, 1), (1, 0)]
    assert run.cluster.evicted == ["web-1", "web-3"]
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED, Result.LANDED]


def test_where_replacements_landed_elsewhere_than_most_likely_it_plans_until_a_plan_is_empty() -> None:
    again = Plans(a_plan(a_move("web-2", to=ELSEWHERE, wave=2)), a_plan())
    outcomes, run = a_run(again, a_move("web-1", to=ELSEWHERE))
    assert again.asked == [(["web-1"], 1), (["web-1", "web-2"], 2)]
    counted = [(plan.moves, plan.made, plan.elsewhere, plan.skipped) for plan in outcomes.plans]
    assert counted == [(1, 1, 1, 0), (1, 1, 1, 0), (0, 0, 0, 0)]
    assert run.cluster.evicted == ["web-1", "web-2"]
    lines = [msgspec.json.decode(line) for line in run.stream.getvalue().splitlines()]
    told = [
        (line["moves"], line["before"]["elsewhere"]) for line in lines if line["event"] == "planned-again"
    ]
    assert told == [(1, 1), (0, 1)]


def test_a_landing_that_was_verified_is_no_risk_of_the_next_plan() -> None:
    again = Plans(a_plan())
    risky = [msgspec.structs.replace(move, risk=0.04) for move in MOVES]
    a_run(again, *risky, validate=skipping("web-2"))
    assert again.risks == [[0.0]]


def test_within_a_plan_only_landings_still_to_come_are_a_risk() -> None:
    asked: list[list[float]] = []
    run = Run(*[f"web-{number}" for number in range(1, 6)])
    risky = [msgspec.structs.replace(move, risk=0.04) for move in MOVES]
    run(*risky, progressed=lambda progress: asked.append([move.risk for move in progress.made]))
    assert asked == [[], [0.0]]


def test_what_a_plan_had_to_skip_is_no_failure_of_a_run_that_has_planned_again() -> None:
    outcomes, _ = a_run(Plans(a_plan()), *MOVES, validate=skipping("web-2"))
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert outcomes.exit_code == ExitCode.DONE


def test_what_the_last_plan_had_to_skip_is_one() -> None:
    again = Plans(a_plan(a_move("web-3", wave=3)))
    outcomes, _ = a_run(again, *MOVES, validate=skipping("web-2", "web-3"))
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED, Result.SKIPPED]
    assert outcomes.exit_code == ExitCode.PARTLY_DONE
    assert len(again.asked) == 1  # nothing of it was made, so another one would be the same


def test_a_cluster_that_cannot_be_read_again_ends_the_run_with_what_was_made() -> None:
    outcomes, _ = a_run(Plans(UnreachableError("down")), *MOVES, validate=skipping("web-2"))
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.UNREACHABLE, ExitCode.UNREACHABLE)


def test_a_plan_of_which_nothing_was_made_is_the_last() -> None:
    again = Plans()
    outcomes, _ = a_run(again, a_move("web-1"), validate=skipping("web-1"))
    assert (again.asked, outcomes.exit_code) == ([], ExitCode.PARTLY_DONE)


def test_a_pod_that_an_earlier_plan_skipped_has_one_outcome_the_last() -> None:
    again = Plans(a_plan(a_move("web-2", wave=3)))
    outcomes, run = a_run(again, *MOVES, validate=skipping("web-2"))
    assert results(outcomes) == [Result.LANDED, Result.LANDED]
    assert [plan.skipped for plan in outcomes.plans] == [1, 0]
    kept = {item.move.pod.name: item.result for item in run.checkpoints[-1]}
    assert kept == {"web-1": Result.LANDED, "web-2": Result.LANDED}


def test_a_run_that_is_stopped_over_or_dry_does_not_plan_again() -> None:
    stopped, over, dry = Plans(), Plans(), Plans()
    run = Run("web-1", "web-2", "web-3")
    paused = lambda: Safety(pause=bool(run.cluster.evicted))  # noqa: E731
    run(*MOVES, a_move("web-3", wave=3), again=stopped, validate=skipping("web-2"), safety=paused)
    a_run(over, *MOVES, validate=skipping("web-2"), stop_requested=lambda: True)
    a_run(dry, *MOVES, validate=skipping("web-2"), dry_run=True)
    assert stopped.asked == over.asked == dry.asked == []


def test_an_outcome_that_the_plan_did_not_allow_for_ends_the_run_without_another_plan() -> None:
    again, run = Plans(), Run("web-1", "web-2")
    run.cluster.lands_on = "hot"
    outcomes = run(a_move("web-1"), again=again)
    assert (again.asked, outcomes.stop) == ([], Stop.OUTCOME)


def test_a_policy_may_have_it_that_a_run_plans_once() -> None:
    assert Execution().replan
    outcomes, _ = a_run(None, *MOVES, validate=skipping("web-2"))
    assert (len(outcomes.plans), outcomes.exit_code) == (1, ExitCode.PARTLY_DONE)


def test_a_run_that_stops_within_a_later_plan_says_what_it_did_not_reach() -> None:
    again = Plans(a_plan(a_move("web-2", wave=2), a_move("web-3", wave=3)))
    run = Run("web-1", "web-2", "web-3")

    def safety() -> Safety:
        return Safety(pause=len(run.cluster.evicted) == 2)

    outcomes = run(a_move("web-1", to=ELSEWHERE), again=again, safety=safety)
    assert results(outcomes) == [Result.LANDED, Result.LANDED, Result.SKIPPED]
    assert "the run stopped before it" in outcomes.outcomes[2].because
    assert outcomes.stop is Stop.BRAKE


def test_a_plan_that_went_as_expected_and_left_nodes_hot_is_followed_by_another() -> None:
    """What its landings left open is known by now, so more may be possible."""
    again = Plans(a_plan())
    run = Run("web-1")
    outcomes = run(a_move("web-1"), again=again, unsolved={"hot": "stays at 85 %"})
    assert again.asked == [(["web-1"], 1)]
    assert outcomes.exit_code == ExitCode.DONE


def test_a_further_plan_that_moves_a_pod_twice_is_not_begun() -> None:
    again = Plans(a_plan(a_move("web-3", wave=3), a_move("web-3", wave=4)))
    outcomes, run = a_run(again, *MOVES, validate=skipping("web-2"))
    assert run.cluster.evicted == ["web-1"]
    assert (outcomes.stop, outcomes.stopped) == (Stop.SETTINGS, "shop/web-3: the plan moves this pod twice")
