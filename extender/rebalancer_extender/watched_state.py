"""The pods on each node, counted as they are bound and go: what an extender answers from.

Nodes and pods are listed once and then watched. Once a minute the columns are made anew, because that is when
a node's changes count; in between each event of a pod changes the two cells that it concerns:

    LIST: 40 pods on node a      ADDED web-1, on none      MODIFIED web-1, on a      DELETED web-1
    40                           40                        41                        40

The scheduler places the next pod before a watch has shown where the last one went. So whoever asks where it
went is made to wait a moment (``await_bound``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rebalancer.cluster.changes import Change, ChangeLog, PodThen
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording
from rebalancer.cluster.kinds import NODE_METRICS, NODES, PODS, Kind
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.cluster.live.watching.latest_objects import Key, latest_objects
from rebalancer.cluster.pod_classes import PodClass, key_of
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import UnreachableError
from rebalancer.scheduling.state.cluster_state import UNBOUND, ClusterState

_CLOSING_SECONDS = 0.5
MAX_NEW_CLASSES = 4096  # that requests and events may add, until the columns are made anew


class Counted:
    """The pods of a snapshot in a state of the model, to which events are added."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.state = ClusterState.of(snapshot)
        self.is_stale = False  # something came that only new columns hold
        self.seen = 0  # how much of the log is counted
        self._numbers = dict(snapshot.pods.row)  # of the pods in the state, by namespace and name
        keys = map(key_of, snapshot.pods.classes)
        self._classes = {key: number for number, key in enumerate(keys)}
        self._most_classes = len(self._classes) + MAX_NEW_CLASSES

    def class_of(self, key: bytes, pod: PodClass) -> int | None:
        """The number of a class; None where no node offers what it asks for, or too many came."""
        if key not in self._classes:
            if len(self._classes) >= self._most_classes:
                self.is_stale = True
                return None
            try:
                self._classes[key] = self.state.classes.add(pod)
            except ValueError:
                self.is_stale = True
                return None
        return self._classes[key]

    def is_bound(self, key: Key) -> bool:
        """Whether a pod is on a node."""
        number = self._numbers.get(key)
        return number is not None and self.state.node[number] != UNBOUND

    def apply(self, change: Change) -> None:
        """Count a pod as an event has it."""
        state = self.state
        after = change.after
        number = self._numbers.pop(change.key, None)
        if not isinstance(after, PodThen) or after.fields.finished:
            if number is not None:
                state.remove(number)
            return
        fields = after.fields
        pod_class = self.class_of(key_of(after.pod_class), after.pod_class)
        row = self.snapshot.nodes.row.get(fields.node_name, UNBOUND)
        self.is_stale |= bool(fields.node_name) and row == UNBOUND  # a node that came since
        if number is not None and (state.node[number], state.pod_class[number]) != (row, pod_class):
            state.remove(number)
            number = None
        if number is None and pod_class is not None:
            number = state.add(pod_class)
            if row != UNBOUND:
                state.bind(number, row)
        if number is not None:
            self._numbers[change.key] = number
            if fields.deleted is not None and row != UNBOUND:
                state.evict(number)


class WatchedState:
    """The cluster behind an API server; whoever uses ``counted`` holds ``changed``."""

    def __init__(self, api: RawApi, *, node_metrics: bool, clock: Callable[[], float] = time.time) -> None:
        """``node_metrics``: metrics-server is read too, each time the columns are made."""
        self.changed = threading.Condition(threading.RLock())
        self.counted: Counted | None = None
        self._api = api
        self._clock = clock
        self._node_metrics = node_metrics
        self._feeds: dict[Kind, Feed] = {}
        self._log = ChangeLog(clock)
        self._events: list[Change] = []  # since the columns were made

    def close(self) -> None:
        """End the watches."""
        for feed in self._feeds.values():
            feed.close()
        for feed in self._feeds.values():
            feed.join(_CLOSING_SECONDS)
        self._feeds = {}

    @property
    def is_stale(self) -> bool:
        """Whether the columns have to be made anew at once."""
        counted = self.counted
        return counted is None or counted.is_stale or self._is_cut

    @property
    def _is_cut(self) -> bool:
        return not self._feeds or bool(self._log.gaps) or any(feed.over for feed in self._feeds.values())

    def renew(self) -> Snapshot:
        """Make the columns anew, from lists where a watch has ended. Raises as reading a cluster does."""
        if self._is_cut:
            self.close()
            self._log = ChangeLog(self._clock)
            LiveReader(self._api, self._clock, keep=self._follow).read((NODES, PODS))
        now = self._clock()
        with self.changed:
            listings = {kind.plural: feed.listing(now) for kind, feed in self._feeds.items()}
            self._events += self._log.take_all()
            seen = len(self._events)
        if self._node_metrics:
            listings.update(LiveReader(self._api, self._clock).read((NODE_METRICS,)).listings)
        counted = Counted(build_snapshot(Recording(self._api.host, listings)))
        with self.changed:
            del self._events[:seen]
            self.counted = counted
        return counted.snapshot

    def up_to_date(self) -> Counted:
        """The pods with what events brought. The caller holds ``changed``, and knows that it was renewed."""
        assert self.counted is not None
        self._events += self._log.take_all()
        for change in self._events[self.counted.seen :]:
            self.counted.apply(change)
        self.counted.seen = len(self._events)
        return self.counted

    def await_bound(self, key: Key, seconds: float) -> bool:
        """Whether a pod is on a node, now or within so many seconds. The caller holds ``changed``."""
        return self.changed.wait_for(lambda: self.up_to_date().is_bound(key), seconds)

    def _follow(self, listing: Listing, builder: ListingBuilder) -> None:
        objects = latest_objects(listing, builder)
        if objects is None:
            raise UnreachableError(f"{listing.kind.plural} cannot be watched: their list has no version")
        if listing.kind is PODS:
            objects.log = self._log
        self._feeds[listing.kind] = Feed(self._api, objects, self.changed)
        self._feeds[listing.kind].start()
