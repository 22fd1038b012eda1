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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tenacity import Future, RetryCallState, Retrying

from rebalancer.deadlines import Deadline
from rebalancer.errors import StopRequestedError

LOGGER = logging.getLogger(__name__)
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_LONG_WAIT_SECONDS = 2.0  # nobody waits longer without being shown why; shorter waits are for -v
_JITTER = 0.5  # at most this part of a wait is added to it

_Result = TypeVar("_Result")

Pause = Callable[[float], object]
"""Waits so many seconds, as ``time.sleep`` does; returns True, as ``Event.wait`` does, when asked to stop."""


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt may help: what went wrong, and the seconds the server asked to wait, if it did."""

    reason: str
    retry_after: float | None = None


def _new_random() -> Callable[[], float]:
    return random.Random().random  # noqa: S311 - spreads requests, protects nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and how long one request is tried, and by which clock; all durations in seconds."""

    attempts: int = 4
    deadline_seconds: float = 120.0  # for all attempts together
    first_wait_seconds: float = 0.2
    max_wait_seconds: float = 5.0  # without Retry-After
    max_retry_after_seconds: float = 30.0
    pause: Pause | None = None  # None: by the run's deadline
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = field(default_factory=_new_random)  # from 0 to 1
    run: Deadline = field(default_factory=Deadline)  # of the whole run

    def call(
        self, what: str, request: Callable[[], _Result], again: Callable[[Exception], Again | None]
    ) -> _Result:
        """The result of ``request``; ``again`` judges what it raises, None being final.

        Raises the error of the last attempt, or StopRequestedError when a wait was cut short.
        """

        def judged(state: RetryCallState) -> Again | None:
            error = state.outcome.exception() if state.outcome else None
            return again(error) if isinstance(error, Exception) else None

        attempts = _Attempts(self, what, judged)
        try:
            result: _Result = attempts.retrying()(request)
        except _StopHeard as stop:
            raise StopRequestedError(f"{what}: asked to stop; {attempts.reason}") from stop.last.exception()
        finally:
            attempts.forget()
        return result

    def until(
        self, what: str, request: Callable[[], _Result], again: Callable[[_Result], Again | None]
    ) -> _Result:
        """The first result that ``again`` finds final; the last one when there is no further attempt."""
        attempts = _Attempts(self, what, lambda state: again(_result(state)))
        try:
            result: _Result = attempts.retrying()(request)
        except _StopHeard as stop:
            result = stop.last.result()
        finally:
            attempts.forget()
        return result

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


class _StopHeard(Exception):  # noqa: N818 - never leaves this module
    """The wait after an attempt was cut short."""

    def __init__(self, last: Future) -> None:
        super().__init__()
        self.last = last


class _Attempts:
    """The attempts of one request: what tenacity asks between two of them."""

    def __init__(self, policy: Retries, what: str, judge: Callable[[RetryCallState], Again | None]) -> None:
        self._policy = policy
        self._what = what
        self._judge = judge
        self._begun = policy.clock()
        self._last: Again | None = None
        self._outcome: Future | None = None  # tenacity drops its own before it waits

    @property
    def reason(self) -> str:
        """Why the last attempt failed."""
        return self._last.reason if self._last else ""

    def forget(self) -> None:
        """Let go of the last outcome: tenacity's loop refers to itself, and so would live on with it.

        It may be a page of a list, and while those are read nothing looks for such cycles.
        """
        self._outcome = None

    def retrying(self) -> Retrying:
        """The loop itself."""
        return Retrying(
            retry=self._may_help,
            wait=self._wait,
            stop=self._out_of_attempts_or_time,
            before_sleep=self._log,
            sleep=self._pause,
            retry_error_callback=_result,  # a failed attempt raises its own error here
        )

    def _may_help(self, state: RetryCallState) -> bool:
        self._outcome = state.outcome
        error = state.outcome.exception() if state.outcome else None
        if error is not None and not isinstance(error, Exception):  # e.g. KeyboardInterrupt
            return False
        self._last = self._judge(state)
        return self._last is not None

    def _wait(self, state: RetryCallState) -> float:
        return self._policy.wait_seconds(state.attempt_number, self._last.retry_after if self._last else None)

    def _out_of_attempts_or_time(self, state: RetryCallState) -> bool:
        elapsed = self._policy.clock() - self._begun
        too_late = elapsed + state.upcoming_sleep > self._policy.deadline_seconds
        too_late |= state.upcoming_sleep >= self._policy.run.seconds_left
        return state.attempt_number >= self._policy.attempts or too_late

    def _log(self, state: RetryCallState) -> None:
        attempts = f"attempt {state.attempt_number} of {self._policy.attempts}"
        level = logging.INFO if state.upcoming_sleep >= _LONG_WAIT_SECONDS else logging.DEBUG
        LOGGER.log(
            level,
            "%s: %s; trying again in %.1f s (%s)",
            self._what,
            self.reason,
            state.upcoming_sleep,
            attempts,
        )

    def _pause(self, seconds: float) -> None:
        if self._policy.wait(seconds) and self._outcome is not None:
            raise _StopHeard(self._outcome)


def _result(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.result()


def retry_after_seconds(headers: Mapping[str, str] | None) -> float | None:
    """Seconds that the ``Retry-After`` of an answer asks to wait; None without a usable one.

    A date is compared with the answer's own ``Date``, so that our clock need not agree with the server's.
    """
    value = headers.get("Retry-After") if headers else None
    if value is None or headers is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        then, now = http_date(value), http_date(headers.get("Date"))
        return None if then is None else max(0.0, then - (time.time() if now is None else now))
    return seconds if 0 <= seconds < float("inf") else None


def http_date(text: str | None) -> float | None:
    """Unix seconds of a date in a header; None when there is none."""
    try:
        date = parsedate_to_datetime(text) if text else None
        return date.replace(tzinfo=date.tzinfo or UTC).timestamp() if date else None
    except (ValueError, TypeError, OverflowError, OSError):
        return None
