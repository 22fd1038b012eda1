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

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import astuple, replace

from rebalancer.cluster import records
from rebalancer.cluster.changes import ChangeLog, PodThen, Then
from rebalancer.cluster.columns import Columns, ColumnsBuilder
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, RecordCollector, decoding_of
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import Malformed, check_names, describe
from rebalancer.cluster.pod_classes import ClassIndex
from rebalancer.cluster.pods import ListedPods, PodFields, listed_pods, read_pod, version_number
from rebalancer.cluster.wire.json_items import PodsInJson
from rebalancer.cluster.wire.protobuf import ProtobufPods
from rebalancer.cluster.wire.watch_events import BOOKMARK, DELETED, WatchEvent

Key = tuple[str, str]
"""Namespace and name."""
_SPARE = 256  # classes that have no pods any more are kept, beside as many as there are with pods
_MANY = 5  # where more than every fifth pod changed, the columns are made anew


class SeenPod(NamedTuple):
    """A pod as its watch last showed it."""

    uid: str
    node_name: str
    ready: bool


class LatestObjects:
    """The objects of a kind at ``position``, the version that the events so far have reached."""

    def __init__(self, listing: Listing, collector: RecordCollector) -> None:
        """``collector`` holds what was listed; ``LatestPods`` keeps pods in another way."""
        self.kind: Kind = listing.kind
        self._collector = collector
        self.position = version_number(listing.resource_version)
        self._malformed: dict[Key, tuple[Malformed, ...]] = {}
        for malformed in listing.malformed:
            key = malformed.namespace, malformed.name
            self._malformed[key] = (*self._malformed.get(key, ()), malformed)
        self._last = WatchEvent("", -1)
        self._last_key = ("", "")
        self._made: Listing | None = listing
        self._decode = decoding_of(self.kind)
        self.log: ChangeLog | None = None  # receives every change

    def apply(self, event: WatchEvent) -> bool:
        """Take an event; returns whether an object changed. Raises ValueError when it cannot be believed."""
        if event.type == BOOKMARK:
            self.position = max(self.position, event.version)
            self._note(("", ""), None)
            return False
        key = event.namespace, event.name
        if event.version <= self.position:
            last = self._last
            again = (event.type, event.version) == (last.type, last.version) and key == self._last_key
            if again or self._version_of(key) >= event.version:
                return False
            raise ValueError(f"an event at {event.version} after one at {self.position}")
        before = self.then(key)
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
        self._last = WatchEvent(event.type, event.version)
        self._last_key = key
        self.position = event.version
        self._note(key, before)
        return True

    def _note(self, key: Key, before: Then | None) -> None:
        if self.log is not None:
            self.log.note(self.kind, self.position, key, before, self.then(key))

    def listing(self, read_at: float) -> Listing:
        """What a LIST at ``position`` would have brought."""
        if self._made is None:
            sealed_records, pods = self._collected()
            malformed = sorted((entry for items in self._malformed.values() for entry in items), key=astuple)
            self._made = Listing(self.kind, sealed_records, tuple(malformed), "", read_at, pods)
        # An unchanged listing shares its objects and columns with the one before.
        return replace(self._made, resource_version=str(self.position), read_at=read_at)

    def pods_of(self, controller_uid: str) -> tuple[SeenPod, ...]:  # noqa: ARG002 - other kinds hold no pods
        """The pods that a controller owns."""
        return ()

    def __len__(self) -> int:
        return len(self._collector.by_key)

    def then(self, key: Key) -> Then | None:
        """An object as it is now, where changes of its kind are kept."""
        record = self._collector.by_key.get(key)
        return record if isinstance(record, records.Node) else None

    def versions(self) -> dict[Key, int]:
        """The version of each object that can be read."""
        records_by_key = self._collector.by_key.items()
        return {key: version_number(record.metadata.resource_version) for key, record in records_by_key}

    def _put(self, event: WatchEvent) -> Malformed | None:
        """Keep an object in place of the one of its name; one that cannot be read is returned."""
        assert isinstance(event.content, bytes)
        try:
            self._collector.replace(self._decode(event.content))
        except (ValueError, RecursionError) as error:
            return describe(self.kind, event.content, 0, str(error))
        return None

    def _remove(self, key: Key) -> None:
        self._collector.by_key.pop(key, None)

    def _version_of(self, key: Key) -> int:
        record = self._collector.by_key.get(key)
        return -1 if record is None else version_number(record.metadata.resource_version)

    def _collected(self) -> tuple[Sequence[records.ApiObject], ListedPods | None]:
        return self._collector.latest(), None


class LatestPods(LatestObjects):
    """Pods by the rows that become columns."""

    def __init__(self, listing: Listing, pods: ListedPods) -> None:
        super().__init__(listing, RecordCollector())
        self.classes = ClassIndex.of(pods.classes, pods.class_keys)
        self._pods: dict[Key, PodFields] = {}
        self._owned: dict[str, set[Key]] = {}  # by the uid of the controller
        # As last collected, in order of namespace and name; None where they have to be collected anew.
        self._columns: Columns[PodFields] | None = None
        self._keys: list[Key] = []  # of its rows
        self._changed: set[Key] = set()  # since then
        for fields in pods.columns.rows():
            self._keep(fields)
        self._in_json = PodsInJson(self.classes)
        self._in_protobuf = ProtobufPods(self.kind, self.classes)

    def __len__(self) -> int:
        return len(self._pods)

    def then(self, key: Key) -> Then | None:
        """A pod as it is now."""
        fields = self._pods.get(key)
        return None if fields is None else PodThen(fields, self.classes.classes[fields.pod_class])

    def versions(self) -> dict[Key, int]:
        """The version of each object that can be read."""
        return {key: fields.version for key, fields in self._pods.items()}

    def pods_of(self, controller_uid: str) -> tuple[SeenPod, ...]:
        """The pods that a controller owns, without those that have finished."""
        pods = (self._pods[key] for key in self._owned.get(controller_uid, ()))
        return tuple(SeenPod(pod.uid, pod.node_name, pod.ready) for pod in pods if not pod.finished)

    def _owner_uid(self, fields: PodFields) -> str:
        return self.classes.classes[fields.pod_class].owner.uid

    def _put(self, event: WatchEvent) -> Malformed | None:
        if not event.is_json:
            fields = self._in_protobuf.read(event.content, 0)
            if isinstance(fields, Malformed):
                return fields
        else:
            assert isinstance(event.content, bytes)
            try:
                fields = read_pod(self._decode(event.content), self._in_json)
            except (ValueError, RecursionError) as error:
                return describe(self.kind, event.content, 0, str(error))
        self._keep(fields)
        return None

    def _keep(self, fields: PodFields) -> None:
        """Keep a pod in place of the one of its name."""
        key = fields.namespace, fields.name
        self._remove(key)
        self._changed.add(key)
        self._pods[key] = fields
        self._owned.setdefault(self._owner_uid(fields), set()).add(key)

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
        pod = self._pods.get(key)
        return -1 if pod is None else pod.version

    def _collected(self) -> tuple[Sequence[records.ApiObject], ListedPods | None]:
        if self._columns is None or len(self._changed) * _MANY > len(self._pods):
            self._keys = sorted(self._pods)
            columns = ColumnsBuilder(PodFields, map(self._pods.__getitem__, self._keys)).columns()
        else:
            columns = self._with_changes(self._columns)
        self._columns = columns
        self._changed.clear()
        pods = listed_pods(columns, self.classes)
        if len(self.classes.classes) > 2 * len(pods.classes) + _SPARE:
            self._forget_classes()
        return (), pods

    def _with_changes(self, columns: Columns[PodFields]) -> Columns[PodFields]:
        """The columns with the rows of changed pods left out, and put in again as they are now."""
        stay = [row for row, key in enumerate(self._keys) if key not in self._changed]
        keys = [self._keys[row] for row in stay]
        new = sorted(key for key in self._changed if key in self._pods)
        places = [bisect_left(keys, key) for key in new]
        order = np.insert(np.array(stay, np.int64), places, np.arange(len(columns), len(columns) + len(new)))
        for place, key in zip(reversed(places), reversed(new), strict=True):
            keys.insert(place, key)
        self._keys = keys
        added = ColumnsBuilder(PodFields, map(self._pods.__getitem__, new)).columns()
        return columns.joined(added).take(order)

    def _forget_classes(self) -> None:
        """Drop the classes that have no pods any more: a workload leaves one behind at each rollout."""
        used = {fields.pod_class for fields in self._pods.values()}
        self.classes, renumbered = self.classes.compacted(sorted(used))
        for fields in self._pods.values():
            fields.pod_class = renumbered[fields.pod_class]
        self._in_json = PodsInJson(self.classes)
        self._in_protobuf = ProtobufPods(self.kind, self.classes)
        self._columns = None


def latest_objects(listing: Listing, builder: ListingBuilder) -> LatestObjects | None:
    """The objects of a listing, to be kept up to date; None where events would match no object."""
    # One that is known by its place in the list alone: its next event would not be known as its.
    nameless = any(malformed.name.startswith("#") for malformed in listing.malformed)
    if version_number(listing.resource_version) < 0 or nameless:
        return None
    if listing.pods is not None:
        return LatestPods(listing, listing.pods)
    return LatestObjects(listing, builder.rows) if isinstance(builder.rows, RecordCollector) else None
