"""What watches bring of pods and nodes, each change with what was there before it.

A LIST tells how a cluster is; why a scheduler chose a node, only how it was just before tells. So changes
that may count for a scheduler are kept, in the order of their versions, until they are taken: with them a
snapshot is turned back to any moment between two readings.

    the snapshot at 103     web-1 on node b
    the changes since 100   101 web-1 created; 103 web-1: on no node, then on node b
    at 102                  web-1 is on no node

What a kubelet writes every few seconds counts for no scheduler and is not kept. A watch that is begun anew
may have missed changes: then those so far are worth nothing, and ``gaps`` counts it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from rebalancer.cluster.kinds import NODES, PODS, Kind
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.pods import PodFields
from rebalancer.cluster.records import Node

MAX_CHANGES = 100_000  # kept; who takes them that rarely has lost them
FOLLOWED = frozenset({PODS, NODES})


class PodThen(msgspec.Struct, frozen=True, eq=False):
    """A pod as a watch showed it at a version."""

    fields: PodFields  # without the number of its class, which is another one later
    pod_class: PodClass

    def counts_as(self, other: PodThen) -> bool:
        """Whether a scheduler cannot tell the pod from how it was at another version."""
        mine = self.fields
        theirs = other.fields
        return self.pod_class is other.pod_class and (
            (mine.uid, mine.node_name, mine.finished, mine.nominated, mine.deleted is None)
            == (theirs.uid, theirs.node_name, theirs.finished, theirs.nominated, theirs.deleted is None)
        )


Then = PodThen | Node


class Change(msgspec.Struct, frozen=True, eq=False):
    """One object before and after a version; None where it was not there."""

    version: int
    at: float  # Unix seconds, when it was heard of
    key: tuple[str, str]  # namespace and name
    before: Then | None
    after: Then | None

    @property
    def of_node(self) -> bool:
        """Whether a node changed, and not a pod."""
        return isinstance(self.before or self.after, Node)

    @property
    def binds(self) -> bool:
        """Whether a pod that was on no node is on one."""
        before = self.before
        after = self.after
        return (
            isinstance(before, PodThen)
            and isinstance(after, PodThen)
            and before.fields.uid == after.fields.uid
            and not before.fields.node_name
            and bool(after.fields.node_name)
        )


def _same(before: Then, after: Then) -> bool:
    if isinstance(before, PodThen):
        return isinstance(after, PodThen) and before.counts_as(after)
    return (
        isinstance(after, Node)
        and (before.metadata.uid, before.metadata.labels, before.metadata.annotations, before.spec)
        == (after.metadata.uid, after.metadata.labels, after.metadata.annotations, after.spec)
        and (before.status.allocatable, before.status.capacity, before.status.images)
        == (after.status.allocatable, after.status.capacity, after.status.images)
    )


class ChangeLog:
    """The changes of pods and nodes that were not taken yet; watches write it, one other thread takes."""

    def __init__(self, clock: Callable[[], float] = time.time, max_changes: int = MAX_CHANGES) -> None:
        self._clock = clock
        self._max_changes = max_changes
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._reached: dict[Kind, int] = {}
        self.gaps = 0  # times that changes were lost
        self.binds = 0  # pods that were bound, of the changes that are kept

    def begun(self, kind: Kind, version: int) -> None:
        """A kind is watched from a version on; what changed between its last watch and that is not known."""
        with self._lock:
            if kind in self._reached:
                self._lose()
            self._reached[kind] = version

    def note(
        self, kind: Kind, version: int, key: tuple[str, str], before: Then | None, after: Then | None
    ) -> None:
        """Keep what a watch brought, where it may count for a scheduler."""
        with self._lock:
            self._reached[kind] = max(version, self._reached.get(kind, 0))
            if (before is None and after is None) or (before and after and _same(before, after)):
                return
            if len(self._changes) >= self._max_changes:
                self._lose()
            change = Change(version, self._clock(), key, before, after)
            self._changes.append(change)
            self.binds += change.binds

    def _lose(self) -> None:
        self._changes.clear()
        self.gaps += 1
        self.binds = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._changes)

    def reached(self, kind: Kind) -> int:
        """The version up to which everything of a kind has been heard; 0 where it is not watched."""
        with self._lock:
            return self._reached.get(kind, 0)

    def since_taken(self) -> tuple[Change, ...]:
        """All that is kept, in the order of versions."""
        with self._lock:
            return tuple(sorted(self._changes, key=lambda change: change.version))

    def take_all(self) -> tuple[Change, ...]:
        """All that is kept, in the order of versions, and forget it."""
        with self._lock:
            changes = self._changes
            self._changes = []
            self.binds = 0
        return tuple(sorted(changes, key=lambda change: change.version))

    def take(self, version: int) -> None:
        """Forget what happened up to a version."""
        with self._lock:
            self._changes = [change for change in self._changes if change.version > version]
            self.binds = sum(change.binds for change in self._changes)
