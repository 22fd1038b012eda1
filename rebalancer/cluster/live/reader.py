"""Reads a live cluster: every LIST in pages of raw bytes, consistent within a kind or read again.

A page is on the wire while the one before it is decoded; never more than a few of them are in memory.
"""

from __future__ import annotations

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
from rebalancer.cluster.recordings.listing import Listing, ListingBuilder, Recording, collector_paused
from rebalancer.cluster.wire.protobuf_pods import MEDIA_TYPE
from rebalancer.errors import RebalancerError, RightsError, UnreachableError

_JSON = "application/json"
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that happened while a LIST was fetched."""

    source: ListSource
    what: ListBegins | FetchedPage | RebalancerError
    began_at: float  # when the LIST began, Unix seconds


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
        with collector_paused(), running_ahead(lambda: self._events(wanted)) as events:
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

    def _events(self, kinds: Iterable[Kind]) -> Iterator[_Event]:
        """What is fetched, kind after kind."""
        for kind in kinds:
            source = self._source(kind)
            began_at = self._clock()
            try:
                for what in source.pages():
                    began_at = self._clock() if isinstance(what, ListBegins) else began_at
                    yield _Event(source, what, began_at)
            except RebalancerError as error:
                yield _Event(source, error, began_at)
                if kind in REQUIRED:  # no plan can be made without it
                    return

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
        self._builder: ListingBuilder | None = None

    def begin(self, kind: Kind) -> None:
        """Take the pages of a kind from now on, from its first one."""
        self._builder = ListingBuilder(kind)

    def take(self, source: ListSource, page: FetchedPage, began_at: float) -> None:
        """Decode a page."""
        builder = self._builder
        assert builder is not None
        try:
            page.add_to(builder)
        except (ValueError, RecursionError) as error:
            self.fail(source.kind, source.no_list(error))
            return
        if not page.head.continue_token:
            listing = self.listings[source.kind.plural] = builder.listing(began_at)
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
