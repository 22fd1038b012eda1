"""The time of a run: what it is, how long the run may go on, and how it waits for something to happen.

Every wait of a run is ``wait_until``. It looks again and again, and longer and longer pauses lie between two
looks. Where a watch shows what is waited for, a pause ends as soon as a look is worth it:

    0.0 s   look: not yet
    0.5 s   look: not yet            the pauses grow to 0.8 s, 1.28 s, …
    1.1 s   the watch shows it: look, and it is so
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rebalancer.execution.outcomes import Stop, StopReason

_GROWTH = 1.6
_POLL_SECONDS = 0.05  # between two questions to a watch, which are free
_SETTLE_SECONDS = 0.5  # for the API server to answer what the watch has shown already


class RunClock(msgspec.Struct, frozen=True, kw_only=True):
    """The clocks of a run, its longest duration, and whether somebody asked it to stop."""

    now: Callable[[], float]  # Unix seconds
    monotonic: Callable[[], float]  # moves only forward
    sleep: Callable[[float], object]  # may end early once ``stop_requested`` returns True
    began: float  # when the run began, by ``monotonic``
    max_duration_seconds: float | None = None  # no eviction begins later
    stop_requested: Callable[[], bool] = lambda: False
    steers_for: Callable[[], float | None] = lambda: None  # the same, as long as the run's taints stand
    slowness: Callable[[], str] = lambda: ""  # that the API server is slow, in a sentence; empty: it is not

    def why_over(self) -> StopReason | None:
        """Why no further eviction may begin: asked to stop, or out of time."""
        if self.stop_requested():
            return StopReason(Stop.INTERRUPTED, "asked to stop by a signal")
        limits = (self.max_duration_seconds, self.steers_for())
        seconds = min((limit for limit in limits if limit is not None), default=None)
        if seconds is not None and self.monotonic() >= self.began + seconds:
            own = seconds == self.max_duration_seconds
            setting = "--max-duration or execution.maxDuration" if own else "execution.steerLimit"
            more = f"; {slow} ({setting} gives a run more time)" if (slow := self.slowness()) else ""
            return StopReason(Stop.BRAKE, f"the run reached its longest duration of {seconds:.0f} s{more}")
        return None

    def wait_until(
        self,
        condition: Callable[[], bool],
        deadline: float,
        first_pause: float,
        longest_pause: float = float("inf"),
        *,
        poke: Callable[[], bool | None] = lambda: None,
        give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait until the condition holds, first looking after a pause; at most until the deadline.

        ``poke`` says whether a look is worth it before the pause is over; None where nothing can say so.
        """
        pause = first_pause
        while (left := deadline - self.monotonic()) > 0 and not (self.stop_requested() or give_up()):
            self._sleep(min(pause, left), poke)
            if condition():
                return
            pause = min(pause * _GROWTH, longest_pause)

    def _sleep(self, seconds: float, poke: Callable[[], bool | None]) -> None:
        poked = poke()
        if poked is not False:
            self.sleep(min(seconds, _SETTLE_SECONDS) if poked else seconds)
            return
        end = self.monotonic() + seconds
        while (left := end - self.monotonic()) > 0 and not self.stop_requested():
            self.sleep(min(_POLL_SECONDS, left))
            if poke():
                return
