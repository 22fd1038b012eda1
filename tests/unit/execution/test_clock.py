"""A run waits by looking again and again, and sooner where a watch shows that a look is worth it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rebalancer.execution.clock import RunClock
from rebalancer.execution.outcomes import Stop
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import FakeTime

FIRST, LONGEST = 0.5, 5.0


class Waiting:
    """A wait for something that becomes true after so many seconds, and when it was looked for."""

    def __init__(self, true_after: float, *, stop_after: float = 1e9) -> None:
        self.time = FakeTime(NOW)
        self.true_after = true_after
        self.looked_at: list[float] = []
        self.clock = RunClock(
            now=self.time.clock,
            monotonic=self.time.clock,
            sleep=self.time.sleep,
            began=NOW,
            max_duration_seconds=300,
            stop_requested=lambda: self.passed >= stop_after,
        )

    @property
    def passed(self) -> float:
        return self.time.now - NOW

    def is_true(self) -> bool:
        self.looked_at.append(self.passed)
        return self.passed >= self.true_after

    def until(
        self,
        seconds: float,
        poke: Callable[[], bool | None] = lambda: None,
        give_up: Callable[[], bool] = lambda: False,
    ) -> float:
        """How long it waited."""
        self.clock.wait_until(self.is_true, NOW + seconds, FIRST, LONGEST, poke=poke, give_up=give_up)
        return self.passed


def test_the_pauses_between_two_looks_grow_and_the_last_look_is_at_the_deadline() -> None:
    waiting = Waiting(true_after=1e9)
    assert waiting.until(30) == pytest.approx(30)
    pauses = waiting.time.slept
    assert pauses[:3] == pytest.approx([0.5, 0.8, 1.28])
    assert max(pauses) == LONGEST
    assert waiting.looked_at[-1] == pytest.approx(30)


def test_waiting_ends_with_the_look_that_finds_it_true() -> None:
    waiting = Waiting(true_after=1.0)
    assert waiting.until(30) == pytest.approx(1.3)
    assert waiting.looked_at == pytest.approx([0.5, 1.3])


def test_a_watch_that_shows_it_ends_a_pause_early() -> None:
    waiting = Waiting(true_after=20.0)
    waited = waiting.until(60, poke=lambda: waiting.passed >= 20.0)
    assert 20.0 <= waited < 20.2
    assert len(waiting.looked_at) < 12  # the watch is asked all the time, and nobody else


def test_a_watch_that_shows_it_too_early_gives_the_answer_half_a_second() -> None:
    waiting = Waiting(true_after=1.2)
    assert waiting.until(60, poke=lambda: True) == pytest.approx(1.5)
    assert waiting.looked_at == pytest.approx([0.5, 1.0, 1.5])


def test_a_watch_that_stays_silent_is_no_reason_not_to_look() -> None:
    waiting = Waiting(true_after=2.0)
    assert waiting.until(60, poke=lambda: False) == pytest.approx(2.58, abs=0.2)


@pytest.mark.parametrize("poke", [lambda: None, lambda: False])
def test_a_request_to_stop_ends_every_wait(poke: Callable[[], bool | None]) -> None:
    assert Waiting(true_after=1e9, stop_after=2.0).until(60, poke=poke) < 4.0


def test_a_run_that_gives_up_waits_no_longer() -> None:
    waiting = Waiting(true_after=1e9)
    assert waiting.until(60, give_up=lambda: waiting.passed > 3.0) < 5.0


def test_no_eviction_begins_after_the_longest_duration_or_a_request_to_stop() -> None:
    waiting = Waiting(true_after=0, stop_after=400)
    assert waiting.clock.why_over() is None
    waiting.time.now += 300
    over = waiting.clock.why_over()
    assert over is not None
    assert (over.stop, over.message) == (Stop.BRAKE, "the run reached its longest duration of 300 s")
    waiting.time.now += 100
    stopped = waiting.clock.why_over()
    assert stopped is not None
    assert stopped.stop is Stop.INTERRUPTED


def test_no_eviction_begins_once_the_taints_of_the_run_may_end_and_again_once_they_are_renewed() -> None:
    time, stand = FakeTime(NOW), [60.0]
    clock = RunClock(
        now=time.clock,
        monotonic=time.clock,
        sleep=time.sleep,
        began=NOW,
        max_duration_seconds=300,
        steers_for=lambda: stand[0],
    )
    time.sleep(60.0)
    over = clock.why_over()
    assert over is not None
    assert "60 s" in over.message
    stand[0] = 400.0
    assert clock.why_over() is None
    time.sleep(240.0)
    over = clock.why_over()
    assert over is not None
    assert "300 s" in over.message


@pytest.mark.parametrize(
    ("steers_for", "setting"),
    [(None, "--max-duration or execution.maxDuration gives"), (60.0, "execution.steerLimit gives")],
)
def test_a_run_that_a_slow_api_server_took_the_time_of_says_so_and_what_gives_it_more(
    steers_for: float | None, setting: str
) -> None:
    clock = RunClock(
        now=lambda: NOW + 300,
        monotonic=lambda: NOW + 300,
        sleep=lambda _: None,
        began=NOW,
        max_duration_seconds=300,
        steers_for=lambda: steers_for,
        slowness=lambda: "the API server is slow: it took 10 s",
    )
    over = clock.why_over()
    assert over is not None
    assert "; the API server is slow: it took 10 s (" in over.message
    assert setting in over.message
