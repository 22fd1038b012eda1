"""Whether the service lives and is ready, as its probes are answered.

The loop says for how long it may be busy with what it does next. A loop that has not reported by then
hangs, and the probe lets the kubelet start it anew:

    waiting for the next run       reports again within a minute
    a run of at most 5 minutes     reports again within those, a wave's timeout and two minutes more
"""

from __future__ import annotations

import time
from collections.abc import Callable

STARTING = "starting"


class Health:
    """Written by the loop, read by the probes; every field is replaced as a whole."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard_by = clock() + 60.0
        self.role = STARTING
        self.not_ready = STARTING  # why; empty when it is ready

    def busy(self, seconds: float) -> None:
        """The loop reports again within so many seconds."""
        self._heard_by = self._clock() + seconds

    def ready(self, role: str) -> None:
        """The service does what it is for, in this role."""
        self.role, self.not_ready = role, ""

    def failing(self, reason: str) -> None:
        """The service cannot do what it is for."""
        self.not_ready = reason

    @property
    def alive(self) -> bool:
        """Whether the loop keeps what it said."""
        return self._clock() <= self._heard_by
