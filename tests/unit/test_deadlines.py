"""Nothing waits longer than it was allowed to, and a request to stop is heard in every wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import StopRequestedError

SOON = 5.0  # half a second at most, but a machine may be busy; unheard, the wait is far longer


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def endless() -> Iterator[threading.Event]:
    """Work that never ends, until the test does."""
    over = threading.Event()
    yield over
    over.set()


def test_what_is_done_in_time_returns_its_result_or_raises_its_own_error() -> None:
    assert Deadline().within(5).bound("add", lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        Deadline().within(5).bound("divide", lambda: 1 / 0)


def test_what_is_not_done_in_time_is_left_alone(endless: threading.Event) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no whole answer within 0\.2 s"):
        Deadline().within(0.2).bound("wait", endless.wait)
    assert time.monotonic() - began < SOON


def test_nothing_is_begun_after_the_deadline_or_a_request_to_stop() -> None:
    begun: list[str] = []
    with pytest.raises(TimeoutError, match="no time is left"):
        Deadline(at=time.monotonic() - 1).bound("late", lambda: begun.append("late"))
    stop = StopRequest()
    stop.set()
    with pytest.raises(StopRequestedError, match="read: asked to stop"):
        Deadline(stop=stop).bound("read", lambda: begun.append("stopped"))
    assert begun == []


@pytest.mark.parametrize("seconds", [0.2, 60.0])
def test_a_request_to_stop_is_heard_within_a_second(endless: threading.Event, seconds: float) -> None:
    stop = StopRequest()
    threading.Timer(0.1, stop.set).start()
    began = time.monotonic()
    with pytest.raises((StopRequestedError, TimeoutError)):
        Deadline(stop=stop).within(seconds).bound("wait", endless.wait)
    assert time.monotonic() - began < SOON
    assert Deadline(stop=stop).pause(60.0)
    assert time.monotonic() - began < SOON


def test_the_sooner_of_two_deadlines_counts(clock: Clock) -> None:
    run = Deadline(at=160.0, clock=clock)
    assert run.within(30).seconds_left == 30
    assert run.within(30).within(90).seconds_left == 30
    assert run.within(90).seconds_left == 60


def test_what_a_run_finishes_has_time_after_its_end_and_after_a_request_to_stop(clock: Clock) -> None:
    stop = StopRequest(clock)
    run = Deadline(at=160.0, clock=clock, stop=stop)
    closing = run.finishing(20)
    clock.now = 165.0
    assert run.seconds_left < 0
    assert closing.seconds_left == 15
    stop.set()
    assert (run.stopped, closing.stopped) == (True, False)
    clock.now = 185.0
    assert closing.stopped


def test_a_second_request_to_stop_leaves_half_a_second(clock: Clock) -> None:
    stop = StopRequest(clock)
    closing = Deadline(clock=clock, stop=stop).finishing(20)
    stop.set()
    clock.now += 1
    stop.hurry()
    assert not closing.stopped
    clock.now += 0.5
    assert closing.stopped


def test_a_pause_that_nobody_cuts_short_lasts_as_long_as_asked() -> None:
    began = time.monotonic()
    assert not Deadline().pause(0.12)
    assert time.monotonic() - began >= 0.12
