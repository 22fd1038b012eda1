"""How long anything may take: one deadline for a run, one for each request, and the request to stop.

Every wait of the program is given a ``Deadline`` and ends at the first of three moments, counted by a clock
that only moves forward. With a run that ends after 600 s, and a request to stop at 100 s:

    a read begun at 80 s, which may take 65 s       ends at 100 s: nobody needs its answer any more
    an eviction begun at 95 s, with 10 s of grace   ends at 110 s: its answer says what became of a pod
    the lease's release begun at 610 s, grace 20 s  ends at 620 s: the deadline has passed, its grace has not

Sockets have timeouts too, but those begin anew with every byte: a server that sends one byte a second is
never late for them. ``Deadline.bound`` therefore waits for the whole of a request, on a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer.errors import StopRequestedError, UnreachableError

ANSWER_SECONDS = 10.0  # after a request to stop: for the answer to what was asked to be changed
CLOSING_SECONDS = 20.0  # after a request to stop: to save the state and release the lease
_HURRIED_SHARE = 0.05  # of this time is left after a second one: a quick API server releases the lease
_LOOK_SECONDS = 0.05

_Result = TypeVar("_Result")


class StopRequest:
    """A request to stop the program, which a signal makes, and every wait and whatever is counted looks for.

    It takes no lock: a signal handler would wait without end for one that the thread it interrupts holds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._requested_at: float | None = None
        self._hurried_at: float | None = None

    def set(self) -> None:
        """Ask to stop in order; what the grace of its deadline allows is finished."""
        if self._requested_at is None:
            self._requested_at = self._clock()

    def hurry(self) -> None:
        """Ask to stop at once what was asked to stop already."""
        if self._hurried_at is None:
            self._hurried_at = self._clock()

    def is_set(self) -> bool:
        """Whether somebody asked to stop."""
        return self._requested_at is not None

    def is_over(self, grace_seconds: float) -> bool:
        """Whether it is set and the time has passed that work may go on afterwards."""
        if self._requested_at is None:
            return False
        end = self._requested_at + grace_seconds
        if self._hurried_at is not None:
            end = min(end, self._hurried_at + grace_seconds * _HURRIED_SHARE)
        return self._clock() >= end

    def wait(self, seconds: float, grace_seconds: float = 0.0) -> bool:
        """Wait so long, or until the request is over; returns whether it is."""
        end = self._clock() + seconds
        while not self.is_over(grace_seconds):
            left = end - self._clock()
            if left <= 0:
                return False
            self._sleep(min(left, _LOOK_SECONDS))
        return True


class Deadline(msgspec.Struct, frozen=True):
    """Until when something may take: the end of the run, that of one request, and a request to stop."""

    at: float = float("inf")  # the end of the run, by ``clock``
    clock: Callable[[], float] = time.monotonic
    stop: StopRequest = msgspec.field(default_factory=StopRequest)
    grace_seconds: float = 0.0  # for so long it goes on after the end of the run or a request to stop
    request_at: float = float("inf")  # the end of this request, by ``clock``

    def within(self, seconds: float) -> Deadline:
        """At most so many seconds from now."""
        return replace(self, request_at=min(self.request_at, self.clock() + seconds))

    def finishing(self, seconds: float = CLOSING_SECONDS) -> Deadline:
        """For what is finished after the end of the run or a request to stop, for so many seconds."""
        return replace(self, grace_seconds=seconds)

    @property
    def seconds_left(self) -> float:
        """Seconds until the end of the request or the run; negative afterwards."""
        return min(self.at + self.grace_seconds, self.request_at) - self.clock()

    @property
    def stopped(self) -> bool:
        """Whether somebody asked to stop, and the grace is over."""
        return self.stop.is_over(self.grace_seconds)

    def check(self, what: str) -> None:
        """Raise StopRequestedError, or UnreachableError after the deadline: for work that never waits."""
        if self.stopped:
            raise StopRequestedError(f"{what}: asked to stop")
        if self.seconds_left <= 0:
            raise UnreachableError(f"{what}: no time is left for it")

    def pause(self, seconds: float) -> bool:
        """Wait so long; returns True as soon as the program has to stop."""
        return self.stop.wait(seconds, self.grace_seconds)

    def bound(self, what: str, work: Callable[[], _Result]) -> _Result:
        """The result of ``work``, which goes on alone when it is not done in time.

        Raises its error, TimeoutError after the deadline, or StopRequestedError.
        """
        allowed = self._seconds_allowed(what)
        return self._awaited(what, attended(work), allowed)

    def awaited(self, what: str, begun: Future[_Result]) -> _Result:
        """The result of work that has begun. Raises as ``bound`` does."""
        return self._awaited(what, begun, self._seconds_allowed(what))

    def _awaited(self, what: str, begun: Future[_Result], allowed: float) -> _Result:
        while not wait((begun,), min(_LOOK_SECONDS, self.seconds_left)).done:
            if self.stopped:
                raise StopRequestedError(f"{what}: asked to stop")
            if self.seconds_left <= 0:
                raise TimeoutError(f"no whole answer within {allowed:.3g} s")
        return begun.result()

    def _seconds_allowed(self, what: str) -> float:
        if self.stopped:
            raise StopRequestedError(f"{what}: asked to stop")
        allowed = self.seconds_left
        if allowed <= 0:
            raise TimeoutError("no time is left for it")
        return allowed


def attended(work: Callable[[], _Result]) -> Future[_Result]:
    """Work on a thread of its own, which ends with the program at the latest."""
    future: Future[_Result] = Future()

    def attend() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=attend, name="request", daemon=True).start()
    return future
