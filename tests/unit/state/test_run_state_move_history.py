"""What was moved is left alone, the longer the more often."""

from __future__ import annotations

from rebalancer.state.run_state import MoveHistory
from tests.rows import rows
from tests.unit.state.past_moves import NOW, a_past_move

HOUR = 3600.0
WEB = "shop/Deployment/web"


@rows("age, cooling", [(0, True), (3599, True), (3600, False), (-60, True)])
def test_a_workload_is_in_cooldown_until_its_latest_move_is_old_enough(age: float, cooling: bool) -> None:
    history = MoveHistory([a_past_move(at=NOW - age)])
    assert (history.in_cooldown(NOW, HOUR, workload=WEB) is not None) is cooling
    assert (history.in_cooldown(NOW, HOUR, controller_uid="of-Deployment/web") is not None) is cooling


def test_another_workload_or_an_unnamed_one_is_not_in_cooldown() -> None:
    history = MoveHistory([a_past_move()])
    assert history.in_cooldown(NOW, HOUR, workload="elsewhere/Deployment/web") is None
    assert history.in_cooldown(NOW, HOUR, controller_uid="other") is None
    assert history.in_cooldown(NOW, HOUR) is None
    assert MoveHistory().in_cooldown(NOW, HOUR, workload=WEB) is None


def test_a_good_landing_does_not_hide_an_earlier_bad_one() -> None:
    bad = a_past_move("web-1", at=NOW - HOUR, result="Unexpected")
    history = MoveHistory([bad, a_past_move("web-2", at=NOW, result="Landed")])
    assert history.in_cooldown(NOW, 24 * HOUR, workload=WEB, results={"Unexpected"}) == bad


@rows("runs, hours", [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 24), (50, 24)])
def test_a_cooldown_doubles_with_each_run_that_moved_the_workload(runs: int, hours: float) -> None:
    moves = [a_past_move(f"web-{index}", at=NOW - index, run=f"run-{index}") for index in range(runs)]
    assert cooldown(MoveHistory(moves)) == hours * HOUR


def test_moves_of_one_run_count_once_and_those_before_the_window_not_at_all() -> None:
    one_run = [a_past_move(f"web-{index}", run="run-1") for index in range(5)]
    old = a_past_move("web-9", at=NOW - 48 * HOUR, run="run-0")
    assert cooldown(MoveHistory([old, *one_run])) == HOUR


def test_moves_of_one_run_count_once_whenever_they_were_made_and_those_of_no_known_run_each() -> None:
    one_run = [a_past_move(f"web-{index}", at=NOW - index, run="run-1") for index in range(5)]
    assert cooldown(MoveHistory(one_run)) == HOUR
    of_no_run = [a_past_move(f"web-{index}", at=NOW - index) for index in range(3)]
    assert cooldown(MoveHistory(of_no_run)) == 4 * HOUR


def test_a_cooldown_is_never_shorter_than_the_first() -> None:
    moves = [a_past_move("web-1", run="a"), a_past_move("web-2", run="b")]
    found = MoveHistory(moves).cooldown_seconds(NOW, first=36 * HOUR, workload=WEB)
    assert found == 36 * HOUR


def cooldown(history: MoveHistory) -> float:
    return history.cooldown_seconds(NOW, first=HOUR, workload=WEB)
