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

import msgspec

from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording
from rebalancer.cluster.kinds import NODE_METRICS, NODES, PODS, Kind
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.cluster.live.watching.latest_objects import Key, LatestObjects, LatestPods, latest_objects
from rebalancer.cluster.pod_classes import PodClass, key_of
from rebalancer.cluster.pods import PodFields, version_number
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import UnreachableError
from rebalancer.scheduling.state.cluster_state import UNBOUND, ClusterState

_CLOSING_SECONDS = 0.5


class _Change(msgspec.Struct, frozen=True):
    """A pod as an event has it; ``node_name`` is None where it counts no longer."""

    key: Key
    node_name: str | None
    class_key: bytes = b""
    pod_class: PodClass | None = None
    terminating: bool = False


class _LoggedPods(LatestPods):
    """Pods of a watch, with what changed since they were last taken."""

    def __init__(self, listing: Listing) -> None:
        assert listing.pods is not None
        self.log: list[_Change] = []
        super().__init__(listing, listing.pods)

    def _keep(self, fields: PodFields) -> None:
        before = len(self.log)
        super()._keep(fields)  # in place of the one of its name
        del self.log[before:]
        key, of, number = (fields.namespace, fields.name), self.classes, fields.pod_class
        node = None if fields.finished else fields.node_name
        self.log.append(_Change(key, node, of.keys[number], of.classes[number], fields.deleted is not None))

    def _remove(self, key: Key) -> None:
        super()._remove(key)
        self.log.append(_Change(key, None))


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

    def class_of(self, key: bytes, pod: PodClass) -> int | None:
        """The number of a class; None where it asks for what no node of the snapshot offers."""
        if key not in self._classes:
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

    def apply(self, change: _Change) -> None:
        """Count a pod as an event has it."""
        state, number = self.state, self._numbers.get(change.key)
        if change.node_name is None or change.pod_class is None:
            if number is not None:
                state.remove(self._numbers.pop(change.key))
            return
        pod_class = self.class_of(change.class_key, change.pod_class)
        row = self.snapshot.nodes.row.get(change.node_name, UNBOUND)
        if change.node_name and row == UNBOUND:
            self.is_stale = True  # a node that came since
        if pod_class is None:
            return
        if number is None or (state.node[number], state.pod_class[number]) != (row, pod_class):
            if number is not None:
                state.remove(number)
            number = self._numbers[change.key] = state.add(pod_class)
            if row != UNBOUND:
                state.bind(number, row)
        if change.terminating and row != UNBOUND:
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
        self._pods: _LoggedPods | None = None

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
        return counted is None or counted.is_stale or any(feed.over for feed in self._feeds.values())

    def renew(self) -> Snapshot:
        """Make the columns anew, from lists where a watch has ended. Raises as reading a cluster does."""
        if not self._feeds or any(feed.over for feed in self._feeds.values()):
            self.close()
            LiveReader(self._api, self._clock, keep=self._follow).read((NODES, PODS))
        now, listings = self._clock(), dict[str, Listing]()
        with self.changed:
            for kind, feed in self._feeds.items():
                listings[kind.plural] = feed.listing(now)
            assert self._pods is not None
            seen = len(self._pods.log)
        if self._node_metrics:
            listings.update(LiveReader(self._api, self._clock).read((NODE_METRICS,)).listings)
        counted = Counted(build_snapshot(Recording(self._api.host, listings)))
        with self.changed:
            del self._pods.log[:seen]
            self.counted = counted
        return counted.snapshot

    def up_to_date(self) -> Counted:
        """The pods with what events brought. The caller holds ``changed``, and knows that it was renewed."""
        assert self.counted is not None
        assert self._pods is not None
        for change in self._pods.log[self.counted.seen :]:
            self.counted.apply(change)
        self.counted.seen = len(self._pods.log)
        return self.counted

    def await_bound(self, key: Key, seconds: float) -> bool:
        """Whether a pod is on a node, now or within so many seconds. The caller holds ``changed``."""
        return self.changed.wait_for(lambda: self.up_to_date().is_bound(key), seconds)

    def _follow(self, listing: Listing, builder: ListingBuilder) -> None:
        """Watch a kind from the version of its list on."""
        if version_number(listing.resource_version) < 0:
            raise UnreachableError(f"{listing.kind.plural} cannot be watched: their list has no version")
        objects: LatestObjects | None
        if listing.pods is not None:
            objects = pods = _LoggedPods(listing)
            with self.changed:
                self._pods = pods
                if self.counted is not None:
                    self.counted.seen = 0
        else:
            objects = latest_objects(listing, builder)
        if objects is not None:
            self._feeds[listing.kind] = Feed(self._api, objects, self.changed)
            self._feeds[listing.kind].start()
