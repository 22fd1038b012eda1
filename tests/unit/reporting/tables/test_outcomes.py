from __future__ import annotations

from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from rebalancer.execution.outcomes import PlanOfRun
from rebalancer.reporting.tables.outcomes import outcomes_table
from rebalancer.reporting.tables.text import Style
from rebalancer.state.results import Result
from tests.rows import rows
from tests.unit.reporting.builders import an_outcome, some_outcomes


def test_outcomes_say_where_each_pod_went_and_how_long_it_took(snapshot: SnapshotAssertion) -> None:
    outcomes = some_outcomes(
        an_outcome(),
        an_outcome(Result.UNEXPECTED, "api-1", "landed on node-0007, which is hot then: cpu 93 %"),
        an_outcome(Result.SKIPPED, "api-2", "the run stopped before"),
        stopped="an outcome the plan did not allow for: api-1 landed on node-0007",
        exit_code=3,
    )

    assert outcomes_table(outcomes).plain == snapshot


def test_a_run_that_planned_again_says_what_became_of_each_plan() -> None:
    first = PlanOfRun(inputs="1", hot_nodes=15, moves=24, made=9, elsewhere=2, skipped=15)
    last = PlanOfRun(inputs="2", hot_nodes=1, moves=0)
    text = outcomes_table(replace(some_outcomes(an_outcome()), plans=(first, last))).plain

    assert "15 hot nodes, 24 moves planned: 9 made, 2 of them elsewhere than most likely" in text
    assert "then 1 hot node, nothing more to gain" in " ".join(text.split())
    assert "planned" not in outcomes_table(replace(some_outcomes(an_outcome()), plans=(first,))).plain


@rows("result", list(Result))
def test_every_result_can_be_shown(result: Result) -> None:
    text = outcomes_table(some_outcomes(an_outcome(result, because="because of this"))).plain

    assert result.value in text


def test_an_outcome_that_went_wrong_is_never_left_out_of_a_summary() -> None:
    many = [an_outcome(name=f"web-{number}") for number in range(60)]
    many[50] = an_outcome(Result.NOT_READY, "web-50", "not ready after 300 s")
    text = outcomes_table(some_outcomes(*many, exit_code=3)).plain

    assert "not ready after 300 s" in text
    assert "40 more moves (--all)" in text
    assert "web-59" in outcomes_table(some_outcomes(*many), Style(everything=True)).plain


def test_a_dry_run_says_where_each_replacement_would_land() -> None:
    outcome = replace(an_outcome(Result.WOULD_EVICT), node="")
    text = outcomes_table(replace(some_outcomes(outcome), dry_run=True)).plain

    assert "TO is where the plan puts each replacement" in text
    (row,) = [line for line in text.splitlines() if "WouldEvict" in line and "shop/" in line]
    assert row.split()[3] == outcome.move.likeliest.node


def test_a_run_without_moves_says_so() -> None:
    assert outcomes_table(some_outcomes()).plain.startswith("Outcome: nothing was evicted")


def test_a_replacement_is_never_bound_before_its_eviction() -> None:
    # The API server's clock may be behind ours.
    early = replace(an_outcome(), bound_at=999.6)

    row = outcomes_table(some_outcomes(early)).plain.splitlines()[-1]
    assert row.split()[-2:] == ["0", "6"]


def test_hostile_reasons_are_printed_and_never_obeyed() -> None:
    text = outcomes_table(
        some_outcomes(an_outcome(Result.REFUSED, "a\x1b[2J", "\x1b]0;title\x07"), stopped="\x9bX")
    ).plain

    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert "\x9b" not in text
