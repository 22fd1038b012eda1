"""The memory of the embedded cluster: all objects under one resourceVersion, as etcd keeps them.

Every write has one resourceVersion, and the log of changes has one entry for it; watches and controllers
follow the log. It is bounded: a client that asks for the changes after a version it no longer reaches back
to gets 410 and has to list again, as after a compaction of etcd. An index finds the pods of a controller and
those on a node.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from rebalancer.cluster import times
from rebalancer_demo.objects import (
    Clock,
    Object,
    StatusError,
    already_exists,
    controller_of,
    expired,
    key_of,
    node_of,
    not_found,
    stale,
)
from rebalancer_demo.resources import STORED

Key = tuple[str, str]  # namespace (empty for cluster-wide kinds), name
ChangeKind = Literal["ADDED", "MODIFIED", "DELETED"]


class Record:
    """One version of one object; never changed once stored, so its JSON is made only once."""

    __slots__ = ("_encoded", "object", "version")

    def __init__(self, manifest: Object, version: int) -> None:
        self.object = manifest
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
        copied: Object = msgspec.json.decode(self.encoded)
        return copied


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


class PodIndex:
    """The keys of pods by their controller's uid and by their node, oldest entry first."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[Key, None]] = {}
        self._by_node: dict[str, dict[Key, None]] = {}

    def add(self, pod: Object) -> None:
        """Enter a pod under its controller and its node, where it has them."""
        owner = controller_of(pod)
        if owner is not None:
            self._by_owner.setdefault(owner["uid"], {})[key_of(pod)] = None
        if node_of(pod):
            self._by_node.setdefault(node_of(pod), {})[key_of(pod)] = None

    def discard(self, pod: Object) -> None:
        """Take out what ``add`` of this version of the pod entered."""
        owner = controller_of(pod)
        if owner is not None:
            self._by_owner.get(owner["uid"], {}).pop(key_of(pod), None)
        if node_of(pod):
            self._by_node.get(node_of(pod), {}).pop(key_of(pod), None)

    def of_owner(self, uid: str) -> list[Key]:
        """The pods whose controller has that uid."""
        return list(self._by_owner.get(uid, ()))

    def on_node(self, node: str) -> list[Key]:
        """The pods bound to that node."""
        return list(self._by_node.get(node, ()))


class Store:
    """Objects by plural, namespace and name; every write is one version and one entry of the log.

    What it hands out is shared and must not be changed; ``mutate`` and ``update`` store new versions.
    ``log_capacity`` bounds how far back a watch may start, in changes.
    """

    def __init__(self, *, clock: Clock = time.time, seed: int = 0, log_capacity: int = 20_000) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._random = random.Random(seed)  # noqa: S311 - uids must be reproducible, not secret
        self._tables: dict[str, dict[Key, Record]] = {plural: {} for plural in STORED}
        self._sorted: dict[str, list[Key] | None] = dict.fromkeys(STORED)
        self._pods = PodIndex()
        self._log = ChangeLog(log_capacity)
        self._version = 1

    # Backups

    def backup(self) -> tuple[int, dict[str, dict[Key, Record]]]:
        """The version, and all objects as they are."""
        with self.lock:
            return self._version, {plural: dict(table) for plural, table in self._tables.items()}

    def restore(self, backup: tuple[int, dict[str, dict[Key, Record]]]) -> None:
        """Go back to a backup, as etcd does: versions that were given already are given once more."""
        with self.lock:
            self._version, tables = backup
            self._tables = {plural: dict(table) for plural, table in tables.items()}
            self._sorted = dict.fromkeys(STORED)
            self._pods = PodIndex()
            for record in self._tables["pods"].values():
                self._pods.add(record.object)
            self._log.restart(self._version)

    # Reading

    @property
    def version(self) -> int:
        """The newest resourceVersion."""
        return self._version

    def record(self, resource: str, namespace: str, name: str) -> Record | None:
        """The newest version of an object, with its JSON."""
        return self._tables[resource].get((namespace, name))

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """The newest version of an object; not to be changed."""
        record = self.record(resource, namespace, name)
        return record.object if record else None

    def records(self, resource: str, namespace: str = "") -> tuple[list[Record], int]:
        """All objects (of one namespace) by namespace and name, and the version at which that was so."""
        with self.lock:
            table = self._tables[resource]
            keys = self._sorted[resource]
            if keys is None:
                keys = self._sorted[resource] = sorted(table)
            if namespace:
                return [table[key] for key in keys if key[0] == namespace], self._version
            return [table[key] for key in keys], self._version

    def all(self, resource: str, namespace: str = "") -> list[Object]:
        """All objects (of one namespace) by namespace and name; not to be changed."""
        return [record.object for record in self.records(resource, namespace)[0]]

    def count(self, resource: str) -> int:
        """How many objects of that kind there are."""
        return len(self._tables[resource])

    def pods_of(self, owner_uid: str) -> list[Object]:
        """The pods whose controller has that uid, oldest entry first."""
        with self.lock:
            return [self._tables["pods"][key].object for key in self._pods.of_owner(owner_uid)]

    def pods_on(self, node: str) -> list[Object]:
        """The pods bound to that node, oldest entry first."""
        with self.lock:
            return [self._tables["pods"][key].object for key in self._pods.on_node(node)]

    # Writing

    def new_uid(self) -> str:
        """A uid drawn from the seed."""
        with self.lock:
            return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def load(self, resource: str, items: Iterable[Object]) -> int:
        """Put objects in as they are, without log entries: watches begin after the load; returns how many."""
        count = 0
        with self._changed:
            for manifest in items:
                self._complete(resource, manifest)
                self._put(resource, manifest, log=False)
                count += 1
            self._log.restart(self._version)
            self._changed.notify_all()
        return count

    def create(self, resource: str, manifest: Object) -> Object:
        """Store a new object under a fresh uid and creation time; 409 when the name is taken."""
        with self._changed:
            metadata = manifest["metadata"]
            if key_of(manifest) in self._tables[resource]:
                raise already_exists(resource, metadata["name"], STORED[resource].group)
            metadata["uid"] = self.new_uid()
            metadata["creationTimestamp"] = times.render(self.clock())
            metadata.pop("deletionTimestamp", None)
            metadata.pop("deletionGracePeriodSeconds", None)
            if STORED[resource].has_generation:
                metadata["generation"] = 1
            self._complete(resource, manifest)
            return self._put(resource, manifest)

    def update(self, resource: str, manifest: Object) -> Object:
        """Replace an object; 409 when its resourceVersion is given and stale, 404 when there is none.

        A change of the spec bumps ``metadata.generation``; no change at all stores nothing.
        """
        with self._changed:
            metadata = manifest["metadata"]
            namespace, name = key_of(manifest)
            group = STORED[resource].group
            record = self.record(resource, namespace, name)
            if record is None:
                raise not_found(resource, name, group)
            sent = metadata.get("resourceVersion")
            if sent and sent != str(record.version):
                raise stale(resource, name, group)
            old = record.object
            for field in ("uid", "creationTimestamp"):
                metadata[field] = old["metadata"][field]
            metadata["resourceVersion"] = str(record.version)
            if STORED[resource].has_generation:
                metadata["generation"] = old["metadata"].get("generation", 1)
                if manifest.get("spec") != old.get("spec"):
                    metadata["generation"] += 1
            if manifest == old:
                return old
            return self._put(resource, manifest)

    def mutate(
        self, resource: str, namespace: str, name: str, change: Callable[[Object], object]
    ) -> Object | None:
        """Let ``change`` edit a copy and store it, unless it returns False; None when the object is gone."""
        with self.lock:
            record = self.record(resource, namespace, name)
            if record is None:
                return None
            changed = record.copy()
            if change(changed) is False:
                return record.object
            return self.update(resource, changed)

    def remove(self, resource: str, namespace: str, name: str) -> Object | None:
        """Take an object out for good; returns its last state, None when there is none."""
        with self._changed:
            record = self._tables[resource].pop((namespace, name), None)
            if record is None:
                return None
            self._sorted[resource] = None
            if resource == "pods":
                self._pods.discard(record.object)
            self._version += 1
            metadata = {**record.object["metadata"], "resourceVersion": str(self._version)}
            last = Record({**record.object, "metadata": metadata}, self._version)
            self._note(Change(self._version, resource, "DELETED", last, record))
            return last.object

    def _complete(self, resource: str, manifest: Object) -> None:
        """What every stored object has, dumped ones included."""
        manifest.pop("kind", None)
        manifest.pop("apiVersion", None)
        metadata = manifest["metadata"]
        if not STORED[resource].namespaced:
            metadata.pop("namespace", None)
        if not metadata.get("uid"):
            metadata["uid"] = self.new_uid()
        if not metadata.get("creationTimestamp"):
            metadata["creationTimestamp"] = times.render(self.clock())
        metadata.pop("managedFields", None)

    def _put(self, resource: str, manifest: Object, *, log: bool = True) -> Object:
        metadata = manifest["metadata"]
        key = key_of(manifest)
        table = self._tables[resource]
        previous = table.get(key)
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        record = Record(manifest, self._version)
        table[key] = record
        if previous is None:
            self._sorted[resource] = None
        if resource == "pods":
            if previous is not None:
                self._pods.discard(previous.object)
            self._pods.add(manifest)
        if log:
            kind: ChangeKind = "MODIFIED" if previous else "ADDED"
            self._note(Change(self._version, resource, kind, record, previous))
        return manifest

    # The log

    def _note(self, change: Change) -> None:
        self._log.append(change)
        self._changed.notify_all()

    def changes(self, after: int, *, wait_seconds: float = 0.0) -> list[Change]:
        """The changes after a version, waiting for one up to ``wait_seconds``; 410 when it is too old."""
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            while self._version <= after:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
                if self._version <= after:
                    break  # woken without a change: the caller looks whether it has to stop
            return self._log.after(after)

    def wake(self) -> None:
        """Wake everyone who waits for changes."""
        with self._changed:
            self._changed.notify_all()
