"""Counters tell what decisions add up to, and nobody can make them grow."""

from __future__ import annotations

import math

import pytest

from rebalancer.agreement.decisions import (
    KEPT_DECISIONS,
    KEPT_MISSES,
    MAX_NAMES,
    OTHERS,
    Decision,
    Result,
    Tally,
)


def a_decision(number: int = 0, result: Result = Result.AS_COMPUTED, **fields: object) -> Decision:
    given = {"scheduler": "default-scheduler", "chance": 1.0, "possible": 1, **fields}
    return Decision(
        pod=f"default/web-{number}",
        uid=str(number),
        version=number,
        at=float(number),
        node="a",
        result=result,
        **given,  # type: ignore[arg-type]
    )


def test_only_decisions_that_were_computed_count() -> None:
    tally = Tally("test", 0.0)
    tally.add(
        [
            a_decision(1),
            a_decision(2, Result.REORDERED, chance=0.5),
            a_decision(3, Result.MISSED),
            a_decision(4, Result.UNPREDICTABLE, because="no reason"),
        ]
    )

    report = tally.report(60.0)

    assert (report.decisions, report.landed, report.in_another_order) == (3, 2, 1)
    assert report.share == pytest.approx(2 / 3)
    assert report.unpredictable == {"no reason": 1}
    assert report.profiles[0].surprise == pytest.approx(math.log(2) / 2, abs=1e-4)


def test_decisions_are_counted_by_profile() -> None:
    tally = Tally("test", 0.0)
    tally.add([a_decision(1), a_decision(2, Result.MISSED, scheduler="batch")])

    assert {item.scheduler: item.missed for item in tally.report(1.0).profiles} == {
        "default-scheduler": 0,
        "batch": 1,
    }


def test_what_is_kept_is_bounded_whatever_users_call_their_schedulers() -> None:
    tally = Tally("test", 0.0)
    tally.add(
        a_decision(number, Result.UNPREDICTABLE, scheduler=f"mine-{number}", because=f"reason {number}")
        for number in range(3 * MAX_NAMES)
    )
    tally.add(a_decision(number, Result.MISSED) for number in range(2 * KEPT_DECISIONS))

    report = tally.report(1.0)

    assert len(report.profiles) == MAX_NAMES + 1
    assert len(report.unpredictable) == MAX_NAMES + 1
    assert report.unpredictable[OTHERS] == 2 * MAX_NAMES
    assert (len(report.misses), len(report.latest)) == (KEPT_MISSES, KEPT_DECISIONS)
    assert report.decisions == 2 * KEPT_DECISIONS


def test_without_decisions_there_is_no_share() -> None:
    assert Tally("test", 0.0).report(1.0).share is None


def test_the_rules_of_a_minor_that_agree_more_often_are_named() -> None:
    tally = Tally("test", 0.0)
    present = [a_decision(1), a_decision(2, Result.MISSED), a_decision(3, Result.MISSED)]
    tally.add(present)
    same = [a_decision(1), a_decision(2, Result.MISSED), a_decision(3, Result.MISSED)]
    tally.minors.add(present, {"1.36": [a_decision(number) for number in (1, 2, 3)], "1.31": same})

    (suspect,) = tally.report(1.0).suspects

    assert (suspect.what, suspect.explained, suspect.decisions, suspect.compared) == ("1.36", 2, 3, 3)
    assert tally.why() == f"; {suspect.sentence}"


def test_a_profile_has_every_result_from_its_first_decision_on() -> None:
    added = Tally("cluster", 0.0).add([a_decision(1, Result.MISSED)])

    assert {result for _, result in added} == {result.value for result in Result}
    assert added.total() == 1
