"""Reads a live cluster: every LIST in pages of raw bytes, consistent within a kind or read again.

A few kinds are read at the same time, and a page is on the wire while others are decoded; never more than a
few pages are in memory. Pods that do not fit one page come as one answer, where the server allows that.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rebalancer.cluster import records
from rebalancer.cluster.kinds import KINDS, METRICS, REQUIRED, Kind
from rebalancer.cluster.live.answers import Answer, RequestRejectedError
from rebalancer.cluster.live.lists import (
    EXPIRED,
    MAX_PAGES,
    PAGE_SIZE,
    FetchedPage,
    ListBegins,
    ListSource,
)
from rebalancer.cluster.live.raw_api import RawApi
from rebalancer.cluster.live.read_ahead import running_ahead
from rebalancer.cluster.live.whole_list import is_streamed_by, whole_list
from rebalancer.cluster.recordings.listing import Listing, ListingBuilder, Recording, collector_paused
from rebalancer.cluster.wire.protobuf_pods import MEDIA_TYPE
from rebalancer.errors import RebalancerError, RightsError, UnreachableError

LOGGER = logging.getLogger(__name__)
KINDS_AT_ONCE = 4
_JSON = "application/json"
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that happened while a LIST was fetched."""

    source: ListSource
    what: ListBegins | FetchedPage | RebalancerError
    began_at: float  # when the LIST began, Unix seconds


def _is_page(event: _Event) -> bool:
    return isinstance(event.what, FetchedPage)


class LiveReader:
    """Reads kinds from an API server; a kind that cannot be read is reported as unread, never as empty."""

    def __init__(
        self,
        api: RawApi,
        clock: Callable[[], float],
        page_size: int = PAGE_SIZE,
        max_pages: int = MAX_PAGES,
        *,
        protobuf: bool = True,
        keep: Callable[[Listing, ListingBuilder], object] = lambda _listing, _builder: None,
    ) -> None:
        """``keep`` is called with each listing as it is done, and with what made it."""
        self._api = api
        self._clock = clock
        self._page_size = page_size
        self._max_pages = max_pages
        self._protobuf = protobuf
        self._keep = keep

    def read(
        self, kinds: Iterable[Kind] = KINDS, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Read all kinds. Raises when nodes or pods, which every plan needs, cannot be read."""
        wanted = tuple(kinds)
        reading = _Reading(self._keep)
        fetches = [functools.partial(self._events, kind) for kind in wanted]
        with collector_paused(), running_ahead(fetches, _is_page, at_once=KINDS_AT_ONCE) as events:
            for event in events:
                kind = event.source.kind
                if isinstance(event.what, ListBegins):
                    progress(kind.plural)
                    reading.begin(kind)
                elif isinstance(event.what, FetchedPage):
                    reading.take(event.source, event.what, event.began_at)
                else:
                    reading.fail(kind, event.what)
        return Recording(self._api.host, reading.listings, reading.unread, refused=frozenset(reading.refused))

    def _events(self, kind: Kind) -> Iterator[_Event]:
        """What is fetched of a kind."""
        source = self._source(kind)
        began_at = self._clock()
        try:
            for what in self._pages(source):
                began_at = self._clock() if isinstance(what, ListBegins) else began_at
                yield _Event(source, what, began_at)
        except RebalancerError as error:
            if kind in REQUIRED:  # no plan can be made without it
                raise
            yield _Event(source, error, began_at)

    def _pages(self, source: ListSource) -> Iterator[ListBegins | FetchedPage]:
        """The pages of a list, or the whole of it in one answer where that is better."""
        for what in source.pages():
            if isinstance(what, FetchedPage) and self._is_worth_more_than_pages(what):
                break
            yield what
        else:
            return
        yield ListBegins()
        try:
            yield from whole_list(self._api, source.kind, what)
        except (RightsError, UnreachableError) as error:
            LOGGER.debug("%s; read in pages", error)
            self._api.client.lists_whole = False  # nor later
            yield from source.pages()

    def _is_worth_more_than_pages(self, page: FetchedPage) -> bool:
        """Whether so many pods follow this page that the list is better read as a whole."""
        client = self._api.client
        if page.last or page.protobuf is None:
            return False
        if client.lists_whole is None:
            try:
                client.lists_whole = is_streamed_by(self._api)
            except (RightsError, UnreachableError):
                client.lists_whole = False
        return client.lists_whole

    def _source(self, kind: Kind) -> ListSource:
        return ListSource(
            kind,
            f"list {kind.plural}",
            self._api.host,
            lambda paging: self._answer(kind, paging),
            self._page_size,
            self._max_pages,
        )

    def _answer(self, kind: Kind, options: Mapping[str, object]) -> Answer:
        if not self._protobuf or kind.record is not records.Pod:
            return self._api.list_page(kind, **options)
        try:
            return self._api.list_page(kind, **options, _headers={"Accept": f"{MEDIA_TYPE}, {_JSON}"})
        except (RequestRejectedError, RightsError) as error:
            if isinstance(error, RequestRejectedError) and error.status == EXPIRED:
                raise
            # A proxy may accept JSON only; and the client passes the text of a refusal on only as JSON.
            self._protobuf = False
            return self._api.list_page(kind, **options)


class _Reading:
    """What was read so far."""

    def __init__(self, keep: Callable[[Listing, ListingBuilder], object]) -> None:
        self._keep = keep
        self.listings: dict[str, Listing] = {}
        self.unread: dict[str, str] = {}
        self.refused: set[str] = set()
        self._builders: dict[Kind, ListingBuilder] = {}

    def begin(self, kind: Kind) -> None:
        """Take the pages of a kind from now on, from its first one."""
        self._builders[kind] = ListingBuilder(kind)

    def take(self, source: ListSource, page: FetchedPage, began_at: float) -> None:
        """Decode a page."""
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

    def fail(self, kind: Kind, error: RebalancerError) -> None:
        """Note why a kind is not read; raise the error when every plan needs it."""
        if isinstance(error, RequestRejectedError) and kind not in REQUIRED:
            if kind.optional and error.status == _NOT_FOUND:  # its API is not installed: there are none
                self.listings[kind.plural] = ListingBuilder(kind).listing()
            else:
                self.unread[kind.plural] = (
                    f"not served: {error.message}" if kind in METRICS else error.message
                )
        elif isinstance(error, RightsError) and kind not in REQUIRED:
            self.unread[kind.plural] = error.message
            self.refused.add(kind.plural)
        elif isinstance(error, UnreachableError) and kind in METRICS:
            # An aggregated API (metrics.k8s.io) may be down while the API server is well.
            self.unread[kind.plural] = error.message
        else:
            raise error
