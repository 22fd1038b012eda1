"""Nothing waits longer than it was allowed to, and a request to stop is heard in every wait."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from rebalancer.deadlines import ANSWER_SECONDS, CLOSING_SECONDS, Deadline, StopRequest
from rebalancer.errors import StopRequestedError, UnreachableError
from tests.waiting import NEVER_SECONDS, no_hang


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def endless() -> Iterator[threading.Event]:
    """Work that never ends, until the test does."""
    over = threading.Event()
    yield over
    over.set()


def test_what_is_done_in_time_returns_its_result_or_raises_its_own_error(clock: Clock) -> None:
    deadline = Deadline(clock=clock).within(5)
    assert deadline.bound("add", lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        deadline.bound("divide", lambda: 1 / 0)


def test_what_is_not_done_in_time_is_left_alone(clock: Clock, endless: threading.Event) -> None:
    def takes_too_long() -> None:
        clock.advance(0.2)
        endless.wait()

    with (
        no_hang("the deadline ends the wait"),
        pytest.raises(TimeoutError, match=r"no whole answer within 0\.2 s"),
    ):
        Deadline(clock=clock).within(0.2).bound("wait", takes_too_long)


def test_an_answer_that_comes_in_the_last_second_is_taken() -> None:
    answer = Future[str]()
    looks = itertools.count()

    def clock() -> float:
        if next(looks) == 4:
            answer.set_result("late")
        return 100.0

    with no_hang("the answer ends the wait"):
        assert Deadline(clock=clock).within(0.5).awaited("read", answer) == "late"


def test_work_that_is_left_alone_keeps_no_program_that_ends() -> None:
    assert Deadline().bound("look", lambda: threading.current_thread().daemon)


def test_nothing_is_begun_after_the_deadline_or_a_request_to_stop(clock: Clock) -> None:
    begun: list[str] = []
    with pytest.raises(TimeoutError, match="no time is left"):
        Deadline(at=clock.now, clock=clock).bound("late", lambda: begun.append("late"))
    stop = StopRequest()
    stop.set()
    with pytest.raises(StopRequestedError, match="read: asked to stop"):
        Deadline(stop=stop).bound("read", lambda: begun.append("stopped"))
    assert begun == []


def test_a_request_to_stop_is_heard_while_work_is_awaited(endless: threading.Event) -> None:
    stop = StopRequest()

    def asked_meanwhile() -> None:
        stop.set()
        endless.wait()

    with no_hang("the request to stop ends the wait"), pytest.raises(StopRequestedError):
        Deadline(stop=stop).within(NEVER_SECONDS).bound("wait", asked_meanwhile)


def test_a_request_to_stop_is_heard_in_a_pause(clock: Clock) -> None:
    waits: list[float] = []

    def asked_meanwhile(seconds: float) -> None:
        waits.append(seconds)
        stop.set()

    stop = StopRequest(clock, asked_meanwhile)
    assert Deadline(clock=clock, stop=stop).pause(60.0)
    assert len(waits) == 1
    assert waits[0] < 1.0


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


def test_a_second_request_to_stop_leaves_half_a_second_for_an_answer_and_another_half_to_close(
    clock: Clock,
) -> None:
    stop = StopRequest(clock)
    answer = Deadline(clock=clock, stop=stop).finishing(ANSWER_SECONDS)
    closing = Deadline(clock=clock, stop=stop).finishing(CLOSING_SECONDS)
    stop.set()
    clock.now += 1
    stop.hurry()
    assert not answer.stopped
    clock.now += 0.5
    assert (answer.stopped, closing.stopped) == (True, False)
    clock.now += 0.5
    assert closing.stopped


def test_work_that_waits_for_nothing_looks_for_both(clock: Clock) -> None:
    stop = StopRequest(clock)
    deadline = Deadline(at=160.0, clock=clock, stop=stop)
    clock.now = 159.5
    deadline.check("plan")
    clock.now = 160.0
    with pytest.raises(UnreachableError, match="plan: no time is left for it"):
        deadline.check("plan")
    stop.set()
    with pytest.raises(StopRequestedError, match="plan: asked to stop"):
        deadline.check("plan")


def test_a_pause_that_nobody_cuts_short_lasts_as_long_as_asked(clock: Clock) -> None:
    assert not Deadline(clock=clock, stop=StopRequest(clock, clock.advance)).pause(0.12)
    assert clock.now == pytest.approx(100.12)
