"""Follows one kind by a WATCH, on a thread of its own, from the version that a LIST brought.

A WATCH that ends, is cut or falls silent goes on after the last whole event. Where that cannot be, because
the server has forgotten that version (410), refuses, or sends what cannot be believed, the feed is over: it
says why, and the kind has to be listed again. One that ends too soon is begun anew after a pause, whatever it
brought: a proxy may end each after one event.

A feed is never current by itself: silence may mean that nothing happens, or that nothing arrives. Who uses
it asks the server for the present version, and waits until an event or a bookmark has reached that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue

from rebalancer.cluster import records
from rebalancer.cluster.dumps.listing import Listing
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live.client import PAGE_SIZE, RawApi
from rebalancer.cluster.live.failures import RequestRejectedError, translated
from rebalancer.cluster.live.lists import EXPIRED, MAX_PAGES
from rebalancer.cluster.live.watching.latest_objects import Key, LatestObjects, SeenPod
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE
from rebalancer.cluster.wire.watch_events import ERROR, EventSplitter
from rebalancer.errors import RightsError, UnreachableError
from rebalancer.http import Connections, Stream

LOGGER = logging.getLogger(__name__)
WATCH_SECONDS = 290  # a WATCH ends by itself after so long, as the server was asked to
HURRIED_SECONDS = 3  # likewise; servers send a bookmark two seconds before they end one
SILENCE_SECONDS = 90.0  # bookmarks come once a minute
_MAX_OBJECTS = MAX_PAGES * PAGE_SIZE  # as many as a LIST may bring
_MAX_FAILURES = 8  # one after another, without an event between
_FIRST_WAIT_SECONDS = 0.1
_MAX_WAIT_SECONDS = 5.0
_MAX_DOUBLINGS = 10
_LASTING_SECONDS = 1.0  # a WATCH that ends sooner is begun anew after a pause, which doubles
_WHOLE = 0.9  # of the time that was asked for; a WATCH that ends sooner was cut
_JSON = "application/json"


class _OverError(Exception):
    """The feed cannot go on."""


class Feed:
    """Keeps the objects of a kind up to date from ``start`` to ``close``; events call ``changed``."""

    def __init__(
        self,
        api: RawApi,
        objects: LatestObjects,
        changed: threading.Condition,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind: Kind = objects.kind
        self.events = 0  # so far
        self.cuts = 0  # watches that ended before their time: the server may have been restarted
        self._clock = clock
        self._asked_seconds = 0  # for how long the WATCH at work was asked for
        self._api = api
        self._objects = objects
        self._changed = changed
        self.over = ""  # why it goes no further; empty while it does
        self.refused = False  # whether the kind cannot be watched: to begin again would end the same way
        # What ``close`` and ``hurry`` touch a signal cannot leave locked, as it can an ``Event``.
        self._closing = False
        self._at_once: SimpleQueue[None] = SimpleQueue()  # do not wait any longer before the next attempt
        self._hurried = False
        self._stream: Stream | None = None
        self._connections = Connections()  # of the WATCH that is at work
        self.protobuf = self.kind.record is records.EncodedPod  # asked for
        self._thread = threading.Thread(target=self._work, name=f"watch {self.kind.plural}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """End the watch; what it brought remains."""
        self._closing = True
        self._at_once.put(None)
        self._interrupt()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end after ``close``."""
        with contextlib.suppress(RuntimeError):  # a signal came before it had begun
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """Whether its thread is at work."""
        return self._thread.is_alive()

    @property
    def connected(self) -> bool:
        """Whether the server has begun to answer a WATCH that goes on."""
        with self._changed:
            return self._stream is not None

    def __len__(self) -> int:
        with self._changed:
            return len(self._objects)

    @property
    def position(self) -> int:
        """The version up to which everything has arrived."""
        with self._changed:
            return self._objects.position

    def reached(self, version: int) -> bool:
        """Whether everything up to this version has arrived."""
        return self.position >= version

    def listing(self, read_at: float) -> Listing:
        """The objects as they are now."""
        with self._changed:
            return self._objects.listing(read_at)

    def versions(self) -> tuple[int, Mapping[Key, int]]:
        """The version up to which everything has arrived, and that of each object."""
        with self._changed:
            return self._objects.position, self._objects.versions()

    def pods_of(self, controller_uid: str) -> tuple[SeenPod, ...]:
        """The pods of a controller as they were last seen."""
        with self._changed:
            return self._objects.pods_of(controller_uid)

    def hurry(self) -> None:
        """Begin the watch anew, so that the server soon says how far it has come."""
        with self._changed:
            self._hurried = True
        self._at_once.put(None)
        self._interrupt()

    def _interrupt(self) -> None:
        with self._changed:
            self._connections.end()

    def _work(self) -> None:
        try:
            self._follow_on()
        except _OverError as error:
            self._finish(str(error))
        except (RightsError, RequestRejectedError) as error:
            self._finish(str(error), refused=True)
        except Exception as error:  # a defect, too, must not be taken for silence
            LOGGER.warning("watch %s: %s", self.kind.plural, error, exc_info=True)
            self._finish(f"{type(error).__name__}: {error}", refused=True)

    def _follow_on(self) -> None:
        """One WATCH after another, until the feed is closed."""
        failures = short = 0  # one after another
        while not self._closing:
            self._waited(0.0)
            events = self.events
            trouble = ""
            began = self._clock()
            try:
                self._follow()
            except RequestRejectedError:
                raise
            except UnreachableError as error:
                trouble = str(error)
            if self._interrupted:
                continue
            lasted = self._clock() - began
            self.cuts += lasted < self._asked_seconds * _WHOLE
            failures = 0 if self.events > events else failures + 1
            short = short + 1 if lasted < _LASTING_SECONDS else 0
            if trouble and failures > _MAX_FAILURES:
                raise _OverError(f"{trouble}, {failures} times in a row")
            if doublings := min(max(failures, short), _MAX_DOUBLINGS):
                self._waited(min(_FIRST_WAIT_SECONDS * 2.0**doublings, _MAX_WAIT_SECONDS))

    def _waited(self, seconds: float) -> None:
        """Wait so long, or until the next attempt is to be made at once."""
        with contextlib.suppress(Empty):
            self._at_once.get(timeout=seconds)
            while True:
                self._at_once.get_nowait()

    @property
    def _interrupted(self) -> bool:
        with self._changed:
            return self._hurried or self._closing

    def _finish(self, why: str, *, refused: bool = False) -> None:
        with self._changed:
            self.refused = refused
            self.over = why
            self._changed.notify_all()

    def _follow(self) -> None:
        with self._opened() as stream, translated(f"watch {self.kind.plural}", self._api.host):
            splitter = EventSplitter(stream.content_type)
            for piece in stream.pieces():
                try:
                    self._take(splitter, piece)
                except (ValueError, LookupError) as error:
                    raise _OverError(str(error)) from error
                if self._closing:
                    return

    def _take(self, splitter: EventSplitter, piece: bytes) -> None:
        with self._changed:
            for event in splitter.events(piece):
                if event.type == ERROR:
                    raise _OverError(f"the watch ended: {event.code} {event.message[:200]}")
                self.events += 1
                self._objects.apply(event)
                if len(self._objects) > _MAX_OBJECTS:
                    raise _OverError(f"the watch brought more than {_MAX_OBJECTS} objects")
            self._changed.notify_all()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Stream]:
        try:
            stream = self._open()
        except (RightsError, RequestRejectedError) as error:
            if isinstance(error, RequestRejectedError) and error.status == EXPIRED:
                raise _OverError(str(error)) from error
            if not self.protobuf:
                raise
            self.protobuf = False  # a proxy may accept JSON only; see ``LiveReader``
            stream = self._open()
        with self._changed:
            self._stream = stream
        try:
            if self._interrupted:  # while it was being opened
                raise UnreachableError("interrupted")
            yield stream
        finally:
            with self._changed:
                self._stream = None
            stream.close()

    def _open(self) -> Stream:
        with self._changed:
            if self._closing:  # which ended the connections of the one before
                raise UnreachableError("interrupted")
            position = self._objects.position
            hurried = self._hurried
            connections = self._connections = Connections()
            self._hurried = False
            self._asked_seconds = HURRIED_SECONDS if hurried else WATCH_SECONDS
        return self._api.watch(
            self.kind,
            SILENCE_SECONDS,
            {
                "resourceVersion": str(position),
                "allowWatchBookmarks": True,
                "timeoutSeconds": self._asked_seconds,
            },
            {"Accept": f"{MEDIA_TYPE}, {_JSON}" if self.protobuf else _JSON},
            connections,
        )
