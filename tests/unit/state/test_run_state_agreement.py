"""Where the policy asks for it, a run acts only on what is known of the scheduler's decisions."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.planning.inputs import About
from rebalancer.planning.warnings import of_agreement
from rebalancer.policy.schema import RebalancePolicy, Safety
from rebalancer.state.run_state import (
    MAX_AGE_SECONDS,
    MIN_DECISIONS,
    MeasuredAgreement,
    RunState,
    decode,
    encode,
    the_one_to_keep,
    why_refused,
)
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import NOW as CLOCK
from tests.unit.planning.builders import plan_of, planning_inputs

NOW = 1_800_000_000.0
GOOD = MeasuredAgreement(decisions=48_211, landed=48_205, until=NOW)
STRICT = Safety.model_validate({"minAgreement": "99.9%"})


def test_without_the_setting_nothing_is_refused() -> None:
    assert why_refused(Safety(), None, NOW) == ""


def test_enough_decisions_as_computed_let_a_run_act() -> None:
    assert why_refused(STRICT, GOOD, NOW + 86_400) == ""


@rows(
    "measured, because",
    [
        (None, "is not known"),
        (
            replace(GOOD, landed=48_000),
            "48,000 landed as computed (99.56%), and safety.minAgreement is 99.90%",
        ),
        (replace(GOOD, decisions=MIN_DECISIONS - 1, landed=MIN_DECISIONS - 1), "fewer than 100"),
        (replace(GOOD, until=NOW - 2 * MAX_AGE_SECONDS), "too long ago"),
        (replace(GOOD, until=NOW + 2 * MAX_AGE_SECONDS), "which is dated more than 30 days after this run"),
        (
            replace(GOOD, decisions=MIN_DECISIONS, landed=MIN_DECISIONS, until=NOW - 2 * MAX_AGE_SECONDS),
            "too long ago",
        ),
        (replace(GOOD, landed=GOOD.decisions + 1), "0.00%"),
    ],
)
def test_too_little_or_unknown_agreement_refuses_and_says_what_measures_it(
    measured: MeasuredAgreement | None, because: str
) -> None:
    why = why_refused(STRICT, measured, NOW)

    assert because in why
    assert "rebalancer agreement" in why


@pytest.mark.parametrize(
    "measured",
    [
        replace(GOOD, decisions=1000, landed=999),  # as much as is asked for
        replace(GOOD, until=NOW - MAX_AGE_SECONDS),
        replace(GOOD, decisions=MIN_DECISIONS, landed=MIN_DECISIONS),
    ],
)
def test_what_is_just_enough_is_enough(measured: MeasuredAgreement) -> None:
    assert why_refused(STRICT, measured, NOW) == ""


def test_one_decision_of_one_is_all_of_them() -> None:
    assert replace(GOOD, decisions=1, landed=1).share == 1.0


def test_a_process_that_has_just_begun_does_not_forget_what_was_known() -> None:
    few = MeasuredAgreement(decisions=3, landed=3, until=NOW)

    assert the_one_to_keep(GOOD, few) == GOOD
    assert the_one_to_keep(None, few) == few
    assert the_one_to_keep(few, GOOD) == GOOD
    later = replace(few, until=NOW + 2 * MAX_AGE_SECONDS)
    assert the_one_to_keep(GOOD, later) == later


def test_misses_of_a_scheduler_that_was_just_changed_are_not_hidden_by_what_was_known() -> None:
    changed = MeasuredAgreement(decisions=40, landed=2, until=NOW)

    assert the_one_to_keep(GOOD, changed) == changed
    assert "2 landed as computed (5.00%), which is fewer than 100" in why_refused(STRICT, changed, NOW)
    poor = replace(GOOD, landed=GOOD.decisions // 2)
    assert the_one_to_keep(poor, changed) == poor


def test_it_is_part_of_the_state_and_a_forged_one_is_no_state() -> None:
    state = RunState(agreement=GOOD)

    assert decode(encode(state), "here").agreement == GOOD
    forged = encode(state).replace(b"48211", b"-1")
    with pytest.raises(Exception, match="not a RunState"):
        decode(forged, "here")
    assert "agreement" in msgspec.to_builtins(state)


def test_a_plan_says_that_a_run_would_refuse_or_what_is_known() -> None:
    strict = RebalancePolicy.model_validate({"safety": {"minAgreement": "99.9%"}})
    some = RunState(agreement=replace(GOOD, landed=48_000))

    (refusal,) = of_agreement(strict, None, NOW)
    assert refusal.about is About.REFUSAL
    assert refusal.sentence.startswith("a run would refuse to act: whether the scheduler decides as computed")
    (known,) = of_agreement(RebalancePolicy(), some, NOW)
    assert (known.about, known.sentence) == (
        About.SCHEDULER,
        "of 48,211 decisions of the scheduler 48,000 landed as computed (99.56%)",
    )
    assert list(of_agreement(RebalancePolicy(), None, NOW)) == []
    every = RunState(agreement=replace(GOOD, landed=GOOD.decisions))
    assert list(of_agreement(strict, every, NOW)) == []


def test_a_plan_says_how_many_decisions_landed_as_computed_where_that_is_known() -> None:
    def said(measured: MeasuredAgreement) -> tuple[str, ...]:
        return plan_of(planning_inputs([a_node("one")], state=RunState(agreement=measured))).notes

    good = replace(GOOD, until=CLOCK)
    assert said(good) == ("of 48,211 decisions of the scheduler 48,205 landed as computed (99.99%)",)
    assert said(replace(good, until=CLOCK - 2 * MAX_AGE_SECONDS)) == ()
