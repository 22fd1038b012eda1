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
from typing import TypeVar

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
        began, attempt = self.clock(), 0
        while True:
            attempt += 1
            try:
                return request()
            except Exception as error:
                retry = again(error)
                cut_short = None if retry is None else self._cut_short(what, attempt, began, retry)
                if retry is None or cut_short is None:
                    raise
                if cut_short:
                    raise StopRequestedError(f"{what}: asked to stop; {retry.reason}") from error

    def until(
        self, what: str, request: Callable[[], _Result], again: Callable[[_Result], Retry | None]
    ) -> _Result:
        """The first result that ``again`` finds final; the last one when there is no further attempt."""
        began, attempt = self.clock(), 1
        result = request()
        while (retry := again(result)) is not None and self._cut_short(what, attempt, began, retry) is False:
            attempt += 1
            result = request()
        return result

    def _cut_short(self, what: str, attempt: int, began: float, retry: Retry) -> bool | None:
        """Wait for another attempt; whether that wait was cut short, None where there is no other."""
        seconds = self.wait_seconds(attempt, retry.retry_after)
        too_late = self.clock() - began + seconds > self.deadline_seconds or seconds >= self.run.seconds_left
        if attempt >= self.attempts or too_late:
            return None
        LOGGER.log(
            logging.INFO if seconds >= _LONG_WAIT_SECONDS else logging.DEBUG,
            "%s: %s; trying again in %.1f s (attempt %d of %d)",
            *(what, retry.reason, seconds, attempt, self.attempts),
        )
        return self.wait(seconds)

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
