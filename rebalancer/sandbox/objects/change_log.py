"""The versions of objects and the log of their changes, which watches and controllers follow.

Every write has one resourceVersion, and the log has one entry for it. The log is bounded: a client that asks
for the changes after a version it no longer reaches back to gets 410 and has to list again, as after a
compaction of etcd.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.status import StatusError, expired

Key = tuple[str, str]  # namespace (empty for cluster-wide kinds), name
ChangeKind = Literal["ADDED", "MODIFIED", "DELETED"]


class Record:
    """One version of one object; never changed once stored, so its JSON is made only once."""

    __slots__ = ("_encoded", "object", "version")

    def __init__(self, item: Object, version: int) -> None:
        self.object = item
        self.version = version
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The object as JSON, without kind and apiVersion: as an item of a list."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.object)
        return self._encoded

    def copy(self) -> Object:
        """A deep copy that may be changed."""
        item: Object = msgspec.json.decode(self.encoded)
        return item


class Change(NamedTuple):
    """One entry of the log.

    The ``record`` of a deletion is the object's last state, under the version of the deletion.
    """

    version: int
    resource: str
    kind: ChangeKind
    record: Record
    previous: Record | None


class ChangeLog:
    """The latest changes, at most ``capacity`` of them; the store's lock guards it."""

    def __init__(self, capacity: int) -> None:
        self._changes: deque[Change] = deque(maxlen=capacity)
        self._oldest = 1  # a watch may start from this version or a later one

    def append(self, change: Change) -> None:
        """Add a change; the oldest is forgotten when the log is full."""
        if len(self._changes) == self._changes.maxlen:
            self._oldest = self._changes[0].version
        self._changes.append(change)

    def restart(self, version: int) -> None:
        """Forget all changes: watches may start from ``version`` or later."""
        self._changes.clear()
        self._oldest = version

    def after(self, version: int) -> list[Change]:
        """The changes after a version; 410 when the log does not reach back to it."""
        if version < self._oldest:
            raise self.too_old(version)
        newer = 0
        for change in reversed(self._changes):
            if change.version <= version:
                break
            newer += 1
        return list(islice(self._changes, len(self._changes) - newer, None))

    def too_old(self, version: int) -> StatusError:
        """The 410 for a version that the log does not reach back to."""
        return expired(f"too old resource version: {version} ({self._oldest})")
