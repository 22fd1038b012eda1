"""The objects of one kind as a LIST brought them and the events of a WATCH changed them since.

What they make is what a LIST at that version would have brought, to the byte: the same decoding, the same
columns, and the same report of an object that cannot be read.

    LIST at 100: web-1, web-2      101 MODIFIED web-1      102 DELETED web-2      103 BOOKMARK
    as a LIST at 103: web-1 as 101 wrote it

The versions of one kind only grow. An event that is not newer than the one before was delivered twice, when
the object is known in that version or a newer one. Else something was left out or changed places on the way,
and nothing that follows can be believed: the kind has to be listed again.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, RecordCollector
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import Malformed, check_names, describe
from rebalancer.cluster.pods import (
    Key,
    ListedPods,
    PodCollector,
    PodFields,
    PodIntake,
    PodRows,
    version_number,
)
from rebalancer.cluster.wire.protobuf import ProtobufPods
from rebalancer.cluster.wire.watch_events import BOOKMARK, DELETED, WatchEvent

_SPARE = 256  # classes and nodes that have no pods any more are kept, beside as many as there are with pods
_MANY = 5  # where more than every fifth pod changed, the columns are made anew


class SeenPod(NamedTuple):
    """A pod as its watch last showed it."""

    uid: str
    node_name: str
    ready: bool


class LatestObjects(ABC):
    """The objects of a kind at ``position``, the version that the events so far have reached."""

    def __init__(self, listing: Listing) -> None:
        self.kind: Kind = listing.kind
        self.position = version_number(listing.resource_version)
        self._malformed: dict[Key, tuple[Malformed, ...]] = {}
        for item in listing.malformed:
            key = item.namespace, item.name
            self._malformed[key] = (*self._malformed.get(key, ()), item)
        self._last, self._last_key = WatchEvent("", -1), ("", "")
        self._made: Listing | None = listing

    def apply(self, event: WatchEvent) -> bool:
        """Take an event; returns whether an object changed. Raises ValueError when it cannot be believed."""
        if event.type == BOOKMARK:
            self.position = max(self.position, event.version)
            return False
        key = event.namespace, event.name
        if event.version <= self.position:
            last = self._last
            again = (event.type, event.version) == (last.type, last.version) and key == self._last_key
            if again or self._version_of(key) >= event.version:
                return False
            raise ValueError(f"an event at {event.version} after one at {self.position}")
        self._made = None
        self._malformed.pop(key, None)
        if event.type == DELETED:
            self._remove(key)
        else:
            check_names(event.namespace, event.name)
            malformed = self._put(event)
            if malformed is not None:
                self._remove(key)
                self._malformed[key] = (malformed,)
        self._last, self._last_key = WatchEvent(event.type, event.version), key
        self.position = event.version
        return True

    def listing(self, read_at: float) -> Listing:
        """What a LIST at ``position`` would have brought."""
        if self._made is None:
            found, pods = self._collected()
            malformed = sorted(
                (item for items in self._malformed.values() for item in items), key=dataclasses.astuple
            )
            self._made = Listing(self.kind, found, tuple(malformed), "", read_at, pods)
        # An unchanged listing shares its objects and columns with the one before.
        return dataclasses.replace(self._made, resource_version=str(self.position), read_at=read_at)

    def pods_of(self, controller_uid: str) -> tuple[SeenPod, ...]:  # noqa: ARG002 - other kinds hold no pods
        """The pods that a controller owns."""
        return ()

    @abstractmethod
    def __len__(self) -> int:
        """How many objects there are."""

    @abstractmethod
    def _put(self, event: WatchEvent) -> Malformed | None:
        """Keep an object in place of the one of its name; one that cannot be read is returned."""

    @abstractmethod
    def _remove(self, key: Key) -> None: ...

    @abstractmethod
    def _version_of(self, key: Key) -> int: ...

    @abstractmethod
    def _collected(self) -> tuple[Sequence[records.Record], ListedPods | None]: ...


class LatestRecords(LatestObjects):
    """Objects as records."""

    def __init__(self, listing: Listing, collector: RecordCollector) -> None:
        super().__init__(listing)
        self._collector = collector
        self._decode = msgspec.json.Decoder(self.kind.record).decode

    def __len__(self) -> int:
        return len(self._collector)

    def _put(self, event: WatchEvent) -> Malformed | None:
        assert isinstance(event.item, bytes)
        try:
            self._collector.replace(self._decode(event.item))
        except (ValueError, RecursionError) as error:
            return describe(self.kind, event.item, 0, str(error))
        return None

    def _remove(self, key: Key) -> None:
        self._collector.remove(key)

    def _version_of(self, key: Key) -> int:
        return version_number(self._collector.version_of(key))

    def _collected(self) -> tuple[Sequence[records.Record], None]:
        return self._collector.latest(), None


class LatestPods(LatestObjects, PodIntake):
    """Pods by the fields that become columns."""

    def __init__(self, listing: Listing, collector: PodCollector) -> None:
        LatestObjects.__init__(self, listing)
        PodIntake.__init__(self, collector.classes)
        self._pods: dict[Key, PodFields] = {}
        self._owned: dict[str, set[Key]] = {}  # by the uid of the controller
        self._rows: PodRows | None = None  # as they were last collected
        self._changed: set[Key] = set()  # since then
        for fields in collector.sealed_fields():
            self.keep(fields)
        self._decode = msgspec.json.Decoder(records.Pod).decode
        self._protobuf = ProtobufPods(self.kind, self)

    def __len__(self) -> int:
        return len(self._pods)

    def keep(self, fields: PodFields) -> None:
        """Keep a pod in place of the one of its name."""
        key = fields.namespace, fields.name
        self._remove(key)
        self._changed.add(key)
        self._pods[key] = fields
        self._owned.setdefault(self._owner_uid(fields), set()).add(key)

    def forget(self, namespace: str, name: str, version: int, node_name: str) -> None:  # noqa: ARG002
        """Leave out a pod that has finished."""
        self._remove((namespace, name))

    def pods_of(self, controller_uid: str) -> tuple[SeenPod, ...]:
        """The pods that a controller owns, without those that have finished."""
        found = (self._pods[key] for key in self._owned.get(controller_uid, ()))
        return tuple(SeenPod(fields.uid, fields.node_name, fields.ready) for fields in found)

    def _owner_uid(self, fields: PodFields) -> str:
        return self.classes.classes[fields.pod_class].owner.uid

    def _put(self, event: WatchEvent) -> Malformed | None:
        if not event.is_json:
            return self._protobuf.add(event.item, 0)
        assert isinstance(event.item, bytes)
        try:
            self.add(self._decode(event.item))
        except (ValueError, RecursionError) as error:
            return describe(self.kind, event.item, 0, str(error))
        return None

    def _remove(self, key: Key) -> None:
        fields = self._pods.pop(key, None)
        if fields is None:
            return
        self._changed.add(key)
        owner = self._owner_uid(fields)
        keys = self._owned[owner]
        keys.discard(key)
        if not keys:
            del self._owned[owner]

    def _version_of(self, key: Key) -> int:
        found = self._pods.get(key)
        return -1 if found is None else found.version

    def _collected(self) -> tuple[Sequence[records.Record], ListedPods | None]:
        if self._rows is None or len(self._changed) * _MANY > len(self._pods):
            self._rows = PodRows(self._pods.values())
        else:
            self._rows.change({key: self._pods.get(key) for key in self._changed})
        self._changed.clear()
        pods = self._rows.listed(self.classes)
        if len(self.classes.classes) > 2 * len(pods.classes) + _SPARE:
            self._forget_classes()
        if self._rows is not None and self._rows.node_name_count > 2 * len(pods.node_names) + _SPARE:
            self._rows = None
        return (), pods

    def _forget_classes(self) -> None:
        """Drop the classes that have no pods any more: a workload leaves one behind at each rollout."""
        used = {fields.pod_class for fields in self._pods.values()}
        self.classes, renumbered = self.classes.compacted(sorted(used))
        for fields in self._pods.values():
            fields.pod_class = renumbered[fields.pod_class]
        self._protobuf = ProtobufPods(self.kind, self)
        self._rows = None


def latest_objects(listing: Listing, builder: ListingBuilder) -> LatestObjects | None:
    """The objects of a listing, to be kept up to date; None where events would match no object."""
    if version_number(listing.resource_version) < 0 or _nameless(listing.malformed):
        return None
    if isinstance(builder.rows, PodCollector):
        return LatestPods(listing, builder.rows)
    return LatestRecords(listing, builder.rows) if isinstance(builder.rows, RecordCollector) else None


def _nameless(malformed: Iterable[Malformed]) -> bool:
    """Whether an object is known by its place in the list alone: its next event would not be known as its."""
    return any(item.name.startswith("#") for item in malformed)
