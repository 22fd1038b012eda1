"""What a standby does: it reads the cluster and keeps it up to date.

So its first run reads only what changed, as that of a replica that has led for long does. It reads on a
thread of its own: a slow API server delays no look at the lease.

    stands by        LIST once, then WATCH; again every minute, for what is not watched or was cut
    has the lease    what is being read may be finished for ten seconds, then it is given up
    is asked to stop what is being read is given up
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import RebalancerError, StopRequestedError

LOGGER = logging.getLogger(__name__)
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
