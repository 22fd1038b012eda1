"""A standby's view of the lease: it looks again and again, and takes the lease as soon as that is allowed.

``RunLease.acquire`` is for a run that either gets the lease now or leaves. A standby stays, so it has seen
for how long the lease has been unchanged whenever that matters, and counts that by its own clock:

    0 s    A renews; B looks, and remembers what it saw
    20 s   A renews; B sees another record, and counts from here
    30 s   A is killed
    80 s   B has seen the same record for the 60 s that it is held for, and takes the lease

Where A ends in order it gives the lease up, and B has it at its next look.
"""

from __future__ import annotations

from typing import Any

from rebalancer.cluster.live.updates import NotWrittenError
from rebalancer.execution.safeguards.lease import MAX_WATCHED_SECONDS, HeldLease, RunLease
from rebalancer.execution.safeguards.lease_object import duration_of, record_of, spec_of, text_of


class LeaseWatch:
    """Looks at a lease that somebody else may hold."""

    def __init__(self, lease: RunLease) -> None:
        self._lease = lease
        self._seen: dict[str, Any] | None = None
        self._since = 0.0
        self.holder = ""  # who held it at the last look

    def look(self) -> HeldLease | None:
        """Take the lease if it is free, or was seen unchanged for its whole duration; else None.

        Raises RightsError, UnreachableError, InputError when its namespace does not exist, or
        StopRequestedError.
        """
        began = self._lease.monotonic()
        item = self._lease.read()  # as it was at ``began`` or later
        spec = spec_of(item)
        self.holder = text_of(spec, "holderIdentity")[:200]
        if item is not None and not self._lease.is_free(spec) and not self._expired(item, began):
            return None
        try:
            held = self._lease.take(item)
        except NotWrittenError:
            return None  # somebody else was faster, or the answer was lost: the next look tells
        self._seen = None
        return held

    def _expired(self, item: dict[str, Any], now: float) -> bool:
        record, seconds = record_of(item), duration_of(spec_of(item), self._lease.duration_seconds)
        if record != self._seen:
            self._seen, self._since = record, self._lease.monotonic()
            return False
        return seconds <= MAX_WATCHED_SECONDS and now - self._since >= seconds
