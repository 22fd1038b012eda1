"""Reads a live cluster: every LIST in pages of raw bytes, consistent within a kind or read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rebalancer.cluster.connection import NotServedError, RawApi
from rebalancer.cluster.kinds import KINDS, METRICS, REQUIRED, Kind
from rebalancer.cluster.listing import Listing, ListingBuilder, Recording, collector_paused
from rebalancer.cluster.wire import Page, decode_page
from rebalancer.errors import RightsError, UnreachableError

PAGE_SIZE = 500
MOST_PAGES = 10_000  # of one LIST: more than any cluster has, so that a server that never ends does
_RESTARTS = 3


class LiveReader:
    """Reads kinds from an API server; a kind that cannot be read is said to be unread, never empty."""

    def __init__(
        self,
        api: RawApi,
        clock: Callable[[], float],
        page_size: int = PAGE_SIZE,
        most_pages: int = MOST_PAGES,
    ) -> None:
        self._api = api
        self._clock = clock
        self._page_size = page_size
        self._most_pages = most_pages

    def read(
        self, kinds: Iterable[Kind] = KINDS, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Read all kinds. Raises when nodes or pods, without which nothing can be said, cannot be read."""
        listings: dict[str, Listing] = {}
        unread: dict[str, str] = {}
        for kind in kinds:
            progress(kind.plural)
            try:
                listings[kind.plural] = self._list(kind)
            except NotServedError as error:
                if kind in REQUIRED:
                    raise
                if kind.optional:
                    listings[kind.plural] = ListingBuilder(kind).listing()
                    continue
                unread[kind.plural] = f"not served: {error.message}" if kind in METRICS else error.message
            except RightsError as error:
                if kind in REQUIRED:
                    raise
                unread[kind.plural] = error.message
            except UnreachableError as error:
                # An aggregated API (metrics.k8s.io) may be down while the API server is well.
                if kind not in METRICS:
                    raise
                unread[kind.plural] = error.message
        return Recording(self._api.host, listings, unread)

    def _list(self, kind: Kind) -> Listing:
        for _ in range(_RESTARTS):
            try:
                return self._list_once(kind)
            except NotServedError as error:
                # 410: the list expired between two pages; what was read so far is no longer consistent.
                if error.status != 410:
                    raise
        raise UnreachableError(
            f"list {kind.plural}: expired {_RESTARTS} times between pages",
            where=self._api.host,
            hint="the cluster changes faster than it can be read",
        )

    def _list_once(self, kind: Kind) -> Listing:
        builder = ListingBuilder(kind)
        token = ""
        seen: set[str] = set()
        read_at = self._clock()
        while len(seen) < self._most_pages:
            page = self._page(kind, token)
            builder.resource_version = builder.resource_version or page.resource_version
            with collector_paused():
                for item in page.items:
                    builder.add(item)
            token = page.continue_token
            if not token:
                return builder.listing(read_at)
            if token in seen:
                raise self._unusable(kind, "the same page is offered again")
            seen.add(token)
        raise self._unusable(kind, f"does not end after {self._most_pages} pages")

    def _unusable(self, kind: Kind, why: str) -> UnreachableError:
        return UnreachableError(
            f"list {kind.plural}: {why}",
            where=self._api.host,
            hint="is this an API server, or a proxy before one?",
        )

    def _page(self, kind: Kind, token: str) -> Page:
        options: dict[str, object] = {"limit": self._page_size} if kind.paged else {}
        if token:
            options["_continue"] = token
        body = self._api.list_page(kind, **options)
        try:
            page = decode_page(body)
        except (ValueError, RecursionError) as error:
            raise self._unusable(kind, f"the answer is no list: {error}") from error
        if page.kind != f"{kind.name}List":
            raise self._unusable(kind, f"the answer is no {kind.name}List but {page.kind[:60]!a}")
        return page
