"""A request is tried again while that may help: within bounds, visibly, and not once a stop was asked for."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator
from itertools import pairwise

import pytest

from rebalancer.errors import ExitCode, StopRequestedError
from rebalancer.retries import Retries, Retry

PASSING = ConnectionResetError("reset")


class Clock:
    """A clock that only waiting, and requests that take long, move on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.stop_after: int | None = None

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return self.stop_after is not None and len(self.waits) >= self.stop_after


def retries(clock: Clock, *, jitter: float = 0.0, **settings: float) -> Retries:
    return Retries(pause=clock.pause, clock=clock, random=lambda: jitter, **settings)  # type: ignore[arg-type]


class Request:
    """Raises these errors one by one, then succeeds; each attempt takes some seconds."""

    def __init__(self, clock: Clock, *errors: Exception, seconds: float = 0.0) -> None:
        self.clock = clock
        self.errors = list(errors)
        self.seconds = seconds
        self.attempts = 0

    def __call__(self) -> str:
        self.attempts += 1
        self.clock.now += self.seconds
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def passing(error: Exception) -> Retry | None:
    return Retry("reset") if isinstance(error, ConnectionResetError) else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_passing_error_is_tried_again_until_the_answer_comes(clock: Clock) -> None:
    request = Request(clock, PASSING, PASSING)
    assert retries(clock).call("get", request, passing) == "answer"
    assert request.attempts == 3


def test_any_other_error_is_raised_at_once(clock: Clock) -> None:
    request = Request(clock, ValueError("no list"))
    with pytest.raises(ValueError, match="no list"):
        retries(clock).call("get", request, passing)
    assert (request.attempts, clock.waits) == (1, [])


def test_the_error_of_the_last_attempt_is_raised_as_it_is(clock: Clock) -> None:
    last = ConnectionResetError("the last")
    request = Request(clock, PASSING, PASSING, last)
    with pytest.raises(ConnectionResetError) as caught:
        retries(clock, attempts=3).call("get", request, passing)
    assert caught.value is last
    assert request.attempts == 3


def test_the_wait_doubles_up_to_its_bound(clock: Clock) -> None:
    request = Request(clock, *[PASSING] * 7)
    retries(clock, attempts=8, first_wait_seconds=0.5, max_wait_seconds=5.0).call("get", request, passing)
    assert clock.waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


def test_jitter_adds_at_most_half_of_the_wait() -> None:
    found = []
    for jitter in (0.0, 0.5, 1.0):
        clock = Clock()
        retries(clock, jitter=jitter, first_wait_seconds=1.0).call("get", Request(clock, PASSING), passing)
        found += clock.waits
    assert found == [1.0, 1.25, 1.5]


def test_two_clients_do_not_wait_alike() -> None:
    policies = [Retries(), Retries()]
    waits = [[policy.wait_seconds(1, None) for _ in range(20)] for policy in policies]
    assert waits[0] != waits[1]
    assert all(first != second for first, second in pairwise(waits[0]))


def test_what_the_server_asks_to_wait_is_waited_exactly_within_its_bound(clock: Clock) -> None:
    asked: Iterator[float] = iter([7.0, 9999.0])
    request = Request(clock, PASSING, PASSING)
    policy = retries(clock, jitter=1.0, max_retry_after_seconds=30.0)
    policy.call("get", request, lambda _error: Retry("busy", next(asked)))
    assert clock.waits == [7.0, 30.0]


def test_no_attempt_begins_after_the_deadline(clock: Clock) -> None:
    request = Request(clock, *[PASSING] * 9, seconds=25.0)
    with pytest.raises(ConnectionResetError):
        retries(clock, attempts=10, deadline_seconds=60.0).call("get", request, passing)
    assert request.attempts == 3  # begun at 0, 25.2 and 50.6 s; the fourth would begin after 76 s


def test_a_wait_beyond_the_deadline_is_not_begun(clock: Clock) -> None:
    request = Request(clock, PASSING)
    with pytest.raises(ConnectionResetError):
        retries(clock, deadline_seconds=5.0).call("get", request, lambda _error: Retry("busy", 6.0))
    assert clock.waits == []


def test_a_stop_ends_the_retries_at_once_and_is_an_interruption(clock: Clock) -> None:
    clock.stop_after = 1
    request = Request(clock, PASSING, PASSING)
    with pytest.raises(StopRequestedError, match="list pods: asked to stop; reset") as caught:
        retries(clock).call("list pods", request, passing)
    assert request.attempts == 1
    assert caught.value.exit_code is ExitCode.INTERRUPTED
    assert caught.value.__cause__ is PASSING


def test_a_result_may_be_asked_for_again_and_the_last_one_stands(clock: Clock) -> None:
    results = iter(range(1, 10))
    policy = retries(clock, attempts=3)
    assert policy.until("evict", lambda: next(results), lambda _result: Retry("refused")) == 3
    assert policy.until("evict", lambda: next(results), lambda _result: None) == 4
    clock.waits, clock.stop_after = [], 1
    assert policy.until("evict", lambda: next(results), lambda _result: Retry("refused")) == 5


def test_an_error_while_results_are_asked_for_is_raised(clock: Clock) -> None:
    with pytest.raises(ConnectionResetError):
        retries(clock).until("evict", Request(clock, PASSING), lambda _result: None)


def test_a_keyboard_interrupt_is_never_tried_again(clock: Clock) -> None:
    def request() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retries(clock).call("get", request, lambda _error: Retry("any"))
    assert clock.waits == []


def test_each_retry_is_one_log_line_that_says_what_why_and_how_long(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="rebalancer"):
        retries(clock, first_wait_seconds=1.5).call("list pods", Request(clock, PASSING, PASSING), passing)
    assert caplog.messages == [
        "list pods: reset; trying again in 1.5 s (attempt 1 of 4)",
        "list pods: reset; trying again in 3.0 s (attempt 2 of 4)",
    ]
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.INFO]


@pytest.mark.parametrize("way", ["call", "until"])
def test_a_result_lives_no_longer_than_its_caller_keeps_it(way: str) -> None:
    """Pages of lists are read while the collector of cycles is paused."""

    class Page:
        pass

    made: list[weakref.ref[Page]] = []

    def request() -> Page:
        page = Page()
        made.append(weakref.ref(page))
        return page

    gc.disable()
    try:
        for _ in range(3):
            getattr(Retries(), way)("read", request, lambda _: None)
        assert [page() for page in made] == [None, None, None]
    finally:
        gc.enable()
