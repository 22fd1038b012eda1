"""Requests that are tried again: one policy for every client.

A request is repeated only while all of these hold: its client says that another attempt may help, attempts
are left, the next one would begin before the deadlines of the request and of the run, and nobody asked the
program to stop. Every repetition is one log line, at level INFO when the wait is a long one.

The server's ``Retry-After`` decides how long to wait, within a bound. Without one the wait doubles from
attempt to attempt and up to half of it is added at random, so that many clients turned away at once do not
come back at once. With ``first_wait_seconds=0.2`` and a random source that always returns 0.5:

    attempt 1  HTTP 503                    wait 0.25 s
    attempt 2  connection reset            wait 0.5 s
    attempt 3  HTTP 429, Retry-After: 7    wait 7 s
    attempt 4  HTTP 503                    no attempt is left: this is the answer
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from rebalancer.deadlines import Deadline
from rebalancer.errors import StopRequestedError

LOGGER = logging.getLogger(__name__)
_LONG_WAIT_SECONDS = 2.0  # nobody waits longer without being shown why; shorter waits are for -v
_JITTER = 0.5  # at most this part of a wait is added to it

_Result = TypeVar("_Result")

Pause = Callable[[float], object]
"""Waits so many seconds, as ``time.sleep`` does; returns True, as ``Event.wait`` does, when asked to stop."""


class Retry(msgspec.Struct, frozen=True):
    """Another attempt may help: what went wrong, and the seconds the server asked to wait, if it did."""

    reason: str
    retry_after: float | None = None


def _new_random() -> Callable[[], float]:
    return random.Random().random  # noqa: S311 - spreads requests, protects nothing


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long one request is tried, and by which clock; all durations in seconds."""

    attempts: int = 4
    deadline_seconds: float = 120.0  # for all attempts together
    first_wait_seconds: float = 0.2
    max_wait_seconds: float = 5.0  # without Retry-After
    max_retry_after_seconds: float = 30.0
    pause: Pause | None = None  # None: by the run's deadline
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = msgspec.field(default_factory=_new_random)  # from 0 to 1
    run: Deadline = msgspec.field(default_factory=Deadline)  # of the whole run

    def call(
        self, what: str, request: Callable[[], _Result], again: Callable[[Exception], Retry | None]
    ) -> _Result:
        """The result of ``request``; ``again`` judges what it raises, None being final.

        Raises the error of the last attempt, or StopRequestedError when a wait was cut short.
        """
        ends: list[_Result | Exception] = []  # how the last attempt ended

        def attempt() -> Retry | None:
            ends.clear()
            try:
                ends.append(request())
            except Exception as error:  # noqa: BLE001 - judged, and raised below
                ends.append(error)
                return again(error)
            return None

        stopped_after = self._repeat(what, attempt)
        end = ends.pop()
        if not isinstance(end, Exception):
            return end
        try:
            if stopped_after is not None:
                raise StopRequestedError(f"{what}: asked to stop; {stopped_after.reason}") from end
            raise end
        finally:
            del end  # its traceback refers to this frame

    def until(
        self, what: str, request: Callable[[], _Result], again: Callable[[_Result], Retry | None]
    ) -> _Result:
        """The first result that ``again`` finds final; the last one when there is no further attempt."""
        results: list[_Result] = []

        def attempt() -> Retry | None:
            results[:] = [request()]
            return again(results[0])

        self._repeat(what, attempt)
        return results.pop()

    def _repeat(self, what: str, attempt: Callable[[], Retry | None]) -> Retry | None:
        """Make attempts until one is final or there is no further one.

        Returns why another one would have been made where the wait for it was cut short. tenacity sees these
        reasons alone: its loop refers to itself, and what it holds lives on until the collector of cycles
        runs, which is paused while pages of lists are read.
        """
        from tenacity import RetryCallState, Retrying, retry_if_result  # noqa: PLC0415 - slow to import

        began = self.clock()
        stopped: list[Retry] = []

        def reason(state: RetryCallState) -> Retry:
            assert state.outcome is not None
            return cast("Retry", state.outcome.result())

        def wait(state: RetryCallState) -> float:
            return self.wait_seconds(state.attempt_number, reason(state).retry_after)

        def is_last(state: RetryCallState) -> bool:
            too_late = self.clock() - began + state.upcoming_sleep > self.deadline_seconds
            too_late |= state.upcoming_sleep >= self.run.seconds_left
            return state.attempt_number >= self.attempts or too_late

        def pause(state: RetryCallState) -> None:
            seconds = state.upcoming_sleep
            LOGGER.log(
                logging.INFO if seconds >= _LONG_WAIT_SECONDS else logging.DEBUG,
                "%s: %s; trying again in %.1f s (attempt %d of %d)",
                *(what, reason(state).reason, seconds, state.attempt_number, self.attempts),
            )
            if self.wait(seconds):
                stopped.append(reason(state))

        Retrying(
            retry=retry_if_result(lambda again: again is not None),
            wait=wait,
            stop=is_last,
            before_sleep=pause,
            sleep=lambda _seconds: None,  # waited for above, where it is known what for
            retry_error_callback=lambda _state: None,
        )(lambda: None if stopped else attempt())
        return stopped[0] if stopped else None

    def limit(self) -> Deadline:
        """When a request that begins now, with all its attempts, has to be done."""
        return replace(self.run, clock=self.clock).within(self.deadline_seconds)

    def wait(self, seconds: float) -> bool:
        """Wait so long; returns True when asked to stop."""
        return (self.pause or self.run.pause)(seconds) is True

    def wait_seconds(self, attempt: int, retry_after: float | None) -> float:
        """How long to wait after this attempt, the first being 1."""
        if retry_after is not None:
            return min(retry_after, self.max_retry_after_seconds)
        doubled = min(self.first_wait_seconds * 2.0 ** (attempt - 1), self.max_wait_seconds)
        return doubled * (1 + _JITTER * self.random())
