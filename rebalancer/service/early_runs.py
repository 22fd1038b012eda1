"""Whether the next run begins before it is due: when a node has turned hot since the last one.

The load is looked at between two runs, and only when a run could begin:

    12:00  run: node-3 is hot and stays so              the next one is due at 12:15
    12:05  minRunInterval is over: look; node-3 is hot, as it was
    12:06  look; node-3 and node-7 are hot              node-7 was not: the next run begins now

A node counts as new once: what the early run finds hot is what the next look compares with. So however often
a node crosses its threshold, runs are at least ``minRunInterval`` apart; and looks, which read the cluster as
a plan does, take at most a tenth of the time. A load that cannot be read, or of which too little is known,
makes no node hot: the next run begins when it is due, and says itself what is missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.policy.hotness import HotNodes
from rebalancer.reporting.metrics.followed import EARLY_RUN, NOTHING_NEW, UNKNOWN_LOAD
from rebalancer.telemetry import span

LOGGER = logging.getLogger(__name__)
MAX_SHARE = 0.1  # of the time that looks may take
_MAX_NAMED = 5


class EarlyRuns:
    """Looks at the load between two runs."""

    def __init__(
        self,
        hot_now: Callable[[float], frozenset[str]],
        checked: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``hot_now`` names the hot nodes, within so many seconds; ``checked`` counts what looks came to."""
        self._hot_now = hot_now
        self._checked = checked
        self._clock = clock
        self._known: frozenset[str] | None = None  # hot at the last run or look; None: not known yet
        self._next_look = -float("inf")
        self._said = ""

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
        hot = self._look(due - now)
        took = self._clock() - now
        self._next_look = self._clock() + max(settings.check_interval, took / MAX_SHARE)
        if hot is None:
            self._checked(UNKNOWN_LOAD)
            return False
        turned = hot - self._known if self._known is not None else frozenset()
        self._known = hot
        self._checked(EARLY_RUN if turned else NOTHING_NEW)
        if turned:
            more = f" and {len(turned) - _MAX_NAMED} more" if len(turned) > _MAX_NAMED else ""
            LOGGER.info(
                "a run begins %.0f s early: %s%s turned hot since the last one",
                due - self._clock(),
                ", ".join(sorted(turned)[:_MAX_NAMED]),
                more,
            )
        return bool(turned)

    def _look(self, seconds: float) -> frozenset[str] | None:
        try:
            with span("check"):
                hot = self._hot_now(seconds)
        except StopRequestedError:
            raise
        except RebalancerError as error:
            said = f"whether a node turned hot is not known, the next run begins when it is due: {error}"
            if said != self._said:
                LOGGER.warning("%s", said)
            self._said = said
            return None
        self._said = ""
        return hot
