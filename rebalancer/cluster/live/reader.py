"""Reads a live cluster: every LIST in pages of raw bytes, consistent within a kind or read again.

A few kinds are read at the same time, and a page is on the wire while others are decoded; never more than a
few pages are in memory. Pods that do not fit one page come as one answer, where the server allows that.

    with prefetch([nodes, pods, budgets, …], is_page, workers=3) as pages:
        for page in pages: …

``nodes`` begins alone; with its first page ``pods`` and ``budgets`` begin as well, and each thread that is
done takes the next kind. So a server that does not answer is noticed by one request, and not by several.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from queue import Full, Queue
from typing import Generic, TypeVar

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording, collector_paused
from rebalancer.cluster.kinds import KINDS, METRICS, REQUIRED, Kind
from rebalancer.cluster.live import lists
from rebalancer.cluster.live.client import PAGE_SIZE, Query, RawApi
from rebalancer.cluster.live.discovery import Discovery, NotServedError
from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE
from rebalancer.errors import RebalancerError, RightsError, UnreachableError
from rebalancer.http import Answer

_Value = TypeVar("_Value")
_LOOK_SECONDS = 0.05
_END = object()


class _Raised:
    """What an iterator raised, on its way to the consumer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Prefetcher(Generic[_Value]):
    """The threads that make the values, and the queue they wait in."""

    def __init__(
        self,
        sources: Iterable[Callable[[], Iterator[_Value]]],
        proceed_after: Callable[[_Value], bool],
        buffer: int,
        workers: int,
    ) -> None:
        self._waiting = deque(sources)
        self._values: Queue[object] = Queue(buffer)
        self._left = False  # nobody asks for more
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._at_work = 0
        self._proceed_after = proceed_after
        self._workers = workers
        if self._waiting:
            self._start_up_to(1)
        else:
            self._values.put(_END)

    def consume(self) -> Iterator[_Value]:
        while (value := self._values.get()) is not _END:
            if isinstance(value, _Raised):
                raise value.error
            yield value  # type: ignore[misc]

    def leave(self) -> None:
        """Ask for no more; what is under way ends by its own deadline."""
        with self._lock:  # a thread that is being started has begun, and none is from now on
            self._left = True
        for thread in self._threads:
            thread.join(_LOOK_SECONDS)

    def _start_up_to(self, count: int) -> None:
        with self._lock:
            count = min(count, len(self._threads) + len(self._waiting))
            while len(self._threads) < count and not self._left:
                thread = threading.Thread(target=self._work, name="prefetch", daemon=True)
                self._threads.append(thread)
                self._at_work += 1
                thread.start()

    def _work(self) -> None:
        try:
            while (source := self._next()) is not None:
                for value in source():
                    if not self._put(value):
                        return
                    if self._proceed_after(value):
                        self._start_up_to(self._workers)
                self._start_up_to(self._workers)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._put(_Raised(error))
        finally:
            with self._lock:
                self._at_work -= 1
                last = not self._at_work
            if last:
                self._put(_END)

    def _next(self) -> Callable[[], Iterator[_Value]] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._left else None

    def _put(self, value: object) -> bool:
        while not self._left:
            with contextlib.suppress(Full):
                self._values.put(value, timeout=_LOOK_SECONDS)
                return True
        return False


@contextmanager
def prefetch(
    sources: Iterable[Callable[[], Iterator[_Value]]],
    proceed_after: Callable[[_Value], bool] = lambda _: True,
    buffer: int = 1,
    workers: int = 1,
) -> Iterator[Iterator[_Value]]:
    """Values of iterators that threads run ahead of their one consumer.

    The first of ``sources`` begins alone; once it has ended, or has made a value after which to proceed, up
    to ``workers`` of them run at the same time. At most ``buffer`` values wait, and one more in each
    thread. Those of one iterator come in its order, those of several as they are made. What an iterator
    raises is raised in its place. When the consumer leaves early nothing more is asked of any.
    """
    prefetcher = _Prefetcher(sources, proceed_after, buffer, workers)
    try:
        yield prefetcher.consume()
    finally:
        prefetcher.leave()


LOGGER = logging.getLogger(__name__)
KINDS_AT_ONCE = 4
_JSON = "application/json"


class _Event(msgspec.Struct, frozen=True):
    source: lists.ListSource
    what: lists.ListBegins | lists.FetchedPage | RebalancerError | None  # None: the kind is not served
    began_at: float  # when the LIST began, Unix seconds


class LiveReader:
    """Reads kinds from an API server; a kind that cannot be read is reported as unread, never as empty."""

    def __init__(
        self,
        api: RawApi,
        clock: Callable[[], float],
        page_size: int = PAGE_SIZE,
        max_pages: int = lists.MAX_PAGES,
        *,
        protobuf: bool = True,
        keep: Callable[[Listing, ListingBuilder], object] = lambda _listing, _builder: None,
    ) -> None:
        """``keep`` is called with each listing as it is done, and with what made it.

        The reader asks the API server for ``READING_SECONDS`` at most, from now on.
        """
        self._api = api.within(lists.READING_SECONDS)
        self._ends_at = api.retries.clock() + lists.READING_SECONDS
        self._clock = clock
        self._page_size = page_size
        self._max_pages = max_pages
        self._protobuf = protobuf
        self._keep = keep

    def read(
        self, kinds: Iterable[Kind] = KINDS, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Read all kinds. Raises when nodes or pods, which every plan needs, cannot be read."""
        reading = _Reading(self._keep)
        try:
            self._read(reading, kinds, progress)
        except UnreachableError as error:
            if self._api.retries.clock() < self._ends_at:
                raise
            late = f"the cluster was not read within {lists.READING_SECONDS:.0f} s"
            why = (reading.unfinished() or error.message, self._api.client.slowness())
            raise UnreachableError(
                "; ".join((late, *filter(None, why))),
                where=self._api.cluster,
                hint="is it overloaded, or the network to it slow?",
            ) from error
        return Recording(
            self._api.cluster, reading.listings, reading.unread, refused=frozenset(reading.refused)
        )

    def _read(self, reading: _Reading, kinds: Iterable[Kind], progress: Callable[[str], None]) -> None:
        discovery = Discovery(self._api)
        kinds = tuple(kinds)
        begun = set[Kind]()
        fetches = [functools.partial(self._events, discovery, kind) for kind in kinds]
        with (
            collector_paused(),
            prefetch(
                fetches, lambda event: isinstance(event.what, lists.FetchedPage), workers=KINDS_AT_ONCE
            ) as events,
        ):
            for event in events:
                self._api.retries.run.check("read the cluster")
                kind = event.source.kind
                if isinstance(event.what, lists.ListBegins):
                    begun.add(kind)
                    progress(f"reading {kind.plural}, kind {len(begun)} of {len(kinds)}")
                    reading.begin(kind)
                elif isinstance(event.what, lists.FetchedPage):
                    reading.take(event.source, event.what, event.began_at)
                    if unfinished := reading.unfinished():
                        progress(f"reading {unfinished}")
                elif event.what is None:
                    reading.take_none(kind)
                else:
                    reading.fail(kind, event.what)

    def _events(self, discovery: Discovery, kind: Kind) -> Iterator[_Event]:
        """What the LIST of a kind brings, in the newest version that the API server serves."""
        source = self._source(kind)
        try:
            try:
                yield from self._listed(source)
            except RequestRejectedError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                form = _served_form(discovery, kind, error)
                if form is None:
                    yield _Event(source, None, self._clock())
                else:
                    source = self._source(form)
                    yield from self._listed(source)
        except RebalancerError as error:
            if kind in REQUIRED:  # no plan can be made without it
                raise
            yield _Event(source, error, self._clock())

    def _source(self, kind: Kind) -> lists.ListSource:
        return lists.ListSource(
            kind,
            f"list {kind.plural}",
            self._api.cluster,
            lambda paging: self._answer(kind, paging),
            self._page_size,
            self._max_pages,
        )

    def _listed(self, source: lists.ListSource) -> Iterator[_Event]:
        began_at = self._clock()
        for what in self._pages(source):
            if isinstance(what, lists.ListBegins):
                began_at = self._clock() - self._api.client.seconds_ahead(source.kind.path)
            yield _Event(source, what, began_at)

    def _pages(self, source: lists.ListSource) -> Iterator[lists.ListBegins | lists.FetchedPage]:
        """The pages of a list, or the whole of it in one answer where that is better."""
        for what in source.pages():
            if isinstance(what, lists.FetchedPage) and self._is_better_streamed(what):
                break
            yield what
        else:
            return
        yield lists.ListBegins()
        try:
            yield from lists.streamed_list(self._api, source.kind, what)
        except (RightsError, UnreachableError) as error:
            LOGGER.debug("%s; read in pages", error)
            self._api.client.lists_whole = False  # nor later
            yield from source.pages()

    def _is_better_streamed(self, page: lists.FetchedPage) -> bool:
        """Whether so many pods follow this page that the list is better read as a whole."""
        client = self._api.client
        if page.last or page.protobuf is None:
            return False
        if client.lists_whole is None:
            try:
                client.lists_whole = lists.is_streamed_by(self._api)
            except (RightsError, UnreachableError):
                client.lists_whole = False
        return client.lists_whole

    def _answer(self, kind: Kind, query: Query) -> Answer:
        if not self._protobuf or kind.record is not records.EncodedPod:
            return self._api.list_page(kind, query)
        try:
            return self._api.list_page(kind, query, {"Accept": f"{MEDIA_TYPE}, {_JSON}"})
        except (RequestRejectedError, RightsError) as error:
            if isinstance(error, RequestRejectedError) and error.status == lists.EXPIRED:
                raise
            # A proxy may accept JSON only; and the client passes the text of a refusal on only as JSON.
            self._protobuf = False
            return self._api.list_page(kind, query)


class _Reading:
    def __init__(self, keep: Callable[[Listing, ListingBuilder], object]) -> None:
        self._keep = keep
        self.listings: dict[str, Listing] = {}
        self.unread: dict[str, str] = {}
        self.refused: set[str] = set()
        self._builders: dict[Kind, ListingBuilder] = {}

    def begin(self, kind: Kind) -> None:
        """Take the pages of a kind from now on, from its first one."""
        self._builders[kind] = ListingBuilder(kind)

    def take(self, source: lists.ListSource, page: lists.FetchedPage, began_at: float) -> None:
        kind = source.kind
        builder = self._builders.get(kind)
        if builder is None:  # a page before it could not be decoded
            return
        try:
            page.add_to(builder)
        except (ValueError, RecursionError) as error:
            del self._builders[kind]
            self.fail(kind, source.no_list(error))
            return
        if page.last:
            listing = self.listings[kind.plural] = builder.listing(began_at)
            del self._builders[kind]
            self._keep(listing, builder)

    def unfinished(self) -> str:
        """Which kinds have pages to come, with how many objects came of each so far; empty for none."""
        begun = {kind: builder.count for kind, builder in self._builders.items() if builder.count}
        return ", ".join(f"{kind.plural}: {count:,} so far" for kind, count in begun.items())

    def take_none(self, kind: Kind) -> None:
        """Note that there are no objects of a kind."""
        self._builders.pop(kind, None)
        self.listings[kind.plural] = ListingBuilder(kind).listing()

    def fail(self, kind: Kind, error: RebalancerError) -> None:
        """Note why a kind is not read; raise the error when every plan needs it."""
        if isinstance(error, RequestRejectedError) and kind not in REQUIRED:
            self.unread[kind.plural] = error.message
        elif isinstance(error, RightsError) and kind not in REQUIRED:
            self.unread[kind.plural] = error.message
            self.refused.add(kind.plural)
        elif isinstance(error, UnreachableError) and kind in METRICS:
            # An aggregated API (metrics.k8s.io) may be down while the API server is well.
            self.unread[kind.plural] = error.message
        else:
            raise error


def _served_form(discovery: Discovery, kind: Kind, refusal: RequestRejectedError) -> Kind | None:
    """The kind in the version that is served instead of the one whose LIST was answered with 404.

    None where none is, and so there are no objects. Raises NotServedError where they are needed all the same,
    or cannot be read, and RequestRejectedError where the 404 proves nothing.
    """
    try:
        form = discovery.form(kind)
    except NotServedError:
        raise
    except (RightsError, UnreachableError) as error:
        why = f"{refusal.message}, and what the API server serves is not known: {error.message}"
        raise _not_read(why, refusal) from error
    if form is None and kind in (*REQUIRED, *METRICS):
        raise discovery.not_served(kind)
    if form is not None and form.api_version == kind.api_version:
        why = f"{refusal.message}, although the API server serves {kind.api_version}"
        raise _not_read(why, refusal)
    return form


def _not_read(why: str, refusal: RequestRejectedError) -> RequestRejectedError:
    return RequestRejectedError(why, where=refusal.where, hint=refusal.hint, status=refusal.status)
