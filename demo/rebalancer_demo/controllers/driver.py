"""One thread that brings every controller up to date after each change, and when something falls due.

Events are removed after an hour, as the real API server does by a lease in etcd. What a deleted object owned
is deleted in the background, as kube-controller-manager does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rebalancer.cluster import times
from rebalancer_demo.admission import Registry, dependents
from rebalancer_demo.objects import StatusError, is_terminating, key_of, name_of, namespace_of
from rebalancer_demo.store import Change, Key, Store

_TICK_SECONDS = 0.1
_RETRY_SECONDS = 0.2
_LOG = logging.getLogger(__name__)


class Controller(Protocol):
    """Something that looks at one object at a time and writes what follows from it."""

    def affected(self, change: Change) -> Iterable[Key]:
        """The keys to look at again after a change."""
        ...

    def every(self) -> Iterable[Key]:
        """All keys, as after a start."""
        ...

    def reconcile(self, key: Key, now: float) -> float | None:
        """Look at one; the seconds until it is due again, None when only a change matters."""
        ...


class Driver:
    """Runs controllers on one thread: on changes, on time, and ``routines`` (name, period, function of now).

    Times are those of the store's clock, which may run faster than the wall: it is read at least every 100
    ms.
    """

    def __init__(
        self,
        store: Store,
        controllers: Sequence[Controller],
        routines: Sequence[tuple[float, Callable[[float], object]]] = (),
    ) -> None:
        self._store = store
        self._controllers = tuple(controllers)
        self._routines = tuple(routines)
        self._routine_due = [0.0] * len(routines)
        self._waiting: list[dict[Key, float]] = [{} for _ in controllers]  # key -> when it is due
        self._stopping = threading.Event()
        self._resync = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-controllers")
        self.rounds = 0  # how often it has looked at what changed and what is due

    def start(self) -> None:
        """Begin with a look at everything."""
        self._resync.set()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._store.wake()
        if self._thread.ident is not None:
            self._thread.join()

    def resync(self) -> None:
        """Have everything looked at again, as when a rule outside the store changed."""
        self._resync.set()
        self._store.wake()

    def _run(self) -> None:
        cursor = 0
        while not self._stopping.is_set():
            if self._resync.is_set():
                self._resync.clear()
                cursor = self._store.version
                for controller, waiting in zip(self._controllers, self._waiting, strict=True):
                    waiting.update(dict.fromkeys(controller.every(), 0.0))
            cursor = self._follow(cursor)
            self._work()
            self.rounds += 1

    def _follow(self, cursor: int) -> int:
        try:
            changes = self._store.changes(cursor, wait_seconds=self._patience())
        except StatusError:
            self._resync.set()  # the log was cut, as when a dump is loaded: look at everything
            return cursor
        for change in changes:
            for controller, waiting in zip(self._controllers, self._waiting, strict=True):
                for key in controller.affected(change):
                    waiting[key] = 0.0
            cursor = change.version
        return cursor

    def _patience(self) -> float:
        """How long to wait for a change: until the next key is due, at most a tick."""
        due = [when for waiting in self._waiting for when in waiting.values()]
        if not due:
            return _TICK_SECONDS
        return min(max(min(due) - self._store.clock(), 0.0), _TICK_SECONDS)

    def _work(self) -> None:
        for at, (period, routine) in enumerate(self._routines):
            now = self._store.clock()
            if now >= self._routine_due[at] and not self._stopping.is_set():
                self._routine_due[at] = now + period
                routine(now)
        for controller, waiting in zip(self._controllers, self._waiting, strict=True):
            now = self._store.clock()
            for key in [key for key, when in waiting.items() if when <= now]:
                if self._stopping.is_set():
                    return
                del waiting[key]
                again = self._reconcile(controller, key)
                if again is not None:
                    waiting[key] = self._store.clock() + again

    def _reconcile(self, controller: Controller, key: Key) -> float | None:
        try:
            return controller.reconcile(key, self._store.clock())
        except StatusError:
            # somebody else wrote in between, as in a real cluster
            _LOG.debug("%s will look at %s again", type(controller).__name__, key, exc_info=True)
            return _RETRY_SECONDS
        except Exception:  # noqa: BLE001
            # the edge of the thread: a controller that fails on one object must go on with the others
            _LOG.exception("%s failed on %s", type(controller).__name__, key)
            return None


_EVENT_SECONDS = 3600.0


def remove_old_events(store: Store, now: float) -> None:
    """Remove the events whose hour is over; ``now`` in Unix seconds."""
    for event in store.all("events"):
        last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
        if times.parse(last) + _EVENT_SECONDS < now:
            store.remove("events", *key_of(event))


_OWNERS = frozenset(
    {"deployments", "replicasets", "replicationcontrollers", "statefulsets", "daemonsets", "jobs"}
)


class GarbageCollector:
    """Looks at an owner once it is gone; its key is its namespace and uid.

    Only deletions are followed: what a dump holds without its owner stays.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def affected(self, change: Change) -> Iterable[Key]:
        """The owner that was deleted."""
        if change.kind != "DELETED" or change.resource not in _OWNERS:
            return ()
        owner = change.record.object
        return ((namespace_of(owner), owner["metadata"]["uid"]),)

    def every(self) -> Iterable[Key]:
        """Nothing."""
        return ()

    def reconcile(self, key: Key, now: float) -> float | None:  # noqa: ARG002 - nothing here depends on time
        """Delete what it owned; a ReplicaSet's own pods follow when that is gone."""
        for plural, dependent in dependents(self._registry.store, *key):
            if not is_terminating(dependent):
                self._registry.delete(plural, namespace_of(dependent), name_of(dependent))
        return None
