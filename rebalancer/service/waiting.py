"""What a replica does between runs: it looks for nodes that have turned hot, or keeps the cluster at hand.

The next run begins before it is due when a node has turned hot since the last one. Where a strategy of the
policy minds, such as duplicates, so it does when a node can be used that could not be at the look before, or
the other way round. The cluster is looked at only when a run could begin:

    12:00  run: node-3 is hot and stays so              the next one is due at 12:15
    12:05  minRunInterval is over: look; node-3 is hot, as it was
    12:06  look; node-3 and node-7 are hot              node-7 was not: the next run begins now

A node counts as new once: what the early run finds hot is what the next look compares with. So however often
a node crosses its threshold, runs are at least ``minRunInterval`` apart; and looks, which read the cluster as
a plan does, take at most a tenth of the time. A load that cannot be read, or of which too little is known,
makes no node hot: the next run begins when it is due, and says itself what is missing.

A standby reads the cluster and keeps it up to date, so that its first run reads only what changed, as that of
a replica that has led for long does. It reads on a thread of its own: a slow API server delays no look at the
lease.

    stands by        LIST once, then WATCH; again every minute, for what is not watched or was cut
    has the lease    what is being read may be finished for ten seconds, then it is given up
    is asked to stop what is being read is given up
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable

import msgspec

from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.planning.prepared import Sight
from rebalancer.policy.hotness import HotNodes
from rebalancer.reporting.words import sample
from rebalancer.telemetry import span

LOGGER = logging.getLogger(__name__)
MAX_SHARE = 0.1  # of the time that looks may take
_MAX_NAMED = 5
_FIGURE = re.compile(r"\d\S*")


class EarlyRuns(msgspec.Struct, eq=False):
    """Looks at the load between two runs."""

    _sight: Callable[[float], Sight]  # what there is, within so many seconds
    _clock: Callable[[], float] = time.monotonic
    _known: frozenset[str] | None = None  # hot at the last run or look; None: not known yet
    _usable: frozenset[str] = frozenset()  # usable at the last look; none: not known yet
    _next_look: float = -float("inf")
    _said: str = ""

    def planned(self, hot: frozenset[str] | None) -> None:
        """A run, or a look before, found these nodes hot."""
        self._known = hot

    def begins(self, began: float, due: float, settings: HotNodes) -> bool:
        """Whether the run after the one that began then, due at another moment, begins now.

        Raises StopRequestedError.
        """
        now = self._clock()
        may_look = bool(settings.check_interval) and now >= max(
            began + settings.min_run_interval, self._next_look
        )
        if not may_look or now >= due:
            return False
        seen = self._look(due - now)
        took = self._clock() - now
        self._next_look = self._clock() + max(settings.check_interval, took / MAX_SHARE)
        if seen is None:
            return False
        reasons = self._reasons(seen)
        self._known = seen.hot
        self._usable = seen.usable
        if reasons:
            said = "; ".join(reasons)
            LOGGER.info("a run begins %.0f s early: %s", due - self._clock(), said)
        return bool(reasons)

    def _reasons(self, seen: Sight) -> list[str]:
        hot = frozenset[str]() if self._known is None else seen.hot - self._known
        before = self._usable or seen.usable
        now = seen.usable or self._usable
        found = (
            (hot, "turned hot since the last one"),
            (now - before, "can be used now"),
            (before - now, "cannot be used any more"),
        )
        return [f"{sample(sorted(names), _MAX_NAMED)} {what}" for names, what in found if names]

    def _look(self, seconds: float) -> Sight | None:
        try:
            with span("check"):
                seen = self._sight(seconds)
        except StopRequestedError:
            raise
        except RebalancerError as error:
            said = f"whether a node turned hot is not known, the next run begins when it is due: {error}"
            kept = self._said  # each look changes how old the load is
            self._said = _FIGURE.sub("", said)
            if self._said != kept:
                LOGGER.warning("%s", said)
            return None
        self._said = ""
        return seen


READ_AGAIN_SECONDS = 60.0
FINISHING_SECONDS = 10.0
_LOOK_SECONDS = 0.05


class WarmCluster(msgspec.Struct, eq=False):
    """Reads the cluster again and again, from ``begin`` until ``finish`` or ``end``."""

    _read: Callable[[Deadline], object]  # raises RebalancerError
    _stop: StopRequest
    _seconds: float  # that one reading may take
    _over: threading.Event = msgspec.field(default_factory=threading.Event)
    _given_up: StopRequest = msgspec.field(default_factory=StopRequest)
    _thread: threading.Thread | None = None
    is_read: bool = False  # at least once
    trouble: str = ""  # why the last reading failed

    def begin(self) -> None:
        """Begin to read; what has begun goes on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="standby", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Finish what is being read, if that is soon done, and read no more."""
        self._over.set()
        end = time.monotonic() + FINISHING_SECONDS
        while self._thread is not None and self._thread.is_alive():
            if self._stop.is_set() or time.monotonic() >= end:
                break
            self._thread.join(_LOOK_SECONDS)
        self.end()

    def end(self) -> None:
        """Give up what is being read; nothing of this reads the cluster once this returns.

        A program that was asked to stop waits for ten seconds at most: what reads ends with it.
        """
        self._over.set()
        self._given_up.set()
        while self._thread is not None and self._thread.is_alive():
            if self._stop.is_over(FINISHING_SECONDS):
                return
            self._thread.join(_LOOK_SECONDS)

    def _work(self) -> None:
        while not self._over.is_set():
            try:
                self._read(Deadline(time.monotonic() + self._seconds, stop=self._given_up))
            except StopRequestedError:
                return
            except RebalancerError as error:
                if str(error) != self.trouble:
                    LOGGER.warning("the cluster could not be read while standing by: %s", error)
                self.trouble = str(error)
            except Exception as error:  # a defect: the lease is looked at all the same
                LOGGER.warning("read the cluster while standing by: %s", error, exc_info=True)
                self.trouble = f"{type(error).__name__}: {error}"
                return
            else:
                self.is_read = True
                self.trouble = ""
            self._over.wait(READ_AGAIN_SECONDS)
