"""Reads a live cluster: every LIST in pages of raw bytes, consistent within a kind or read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from rebalancer.cluster.connection import NotServedError, RawApi
from rebalancer.cluster.kinds import KINDS, METRICS, REQUIRED, Kind
from rebalancer.cluster.listing import Listing, Recording, decode_listing
from rebalancer.cluster.wire import Page, decode_page
from rebalancer.errors import RebalancerError, RightsError, UnreachableError

PAGE_SIZE = 500
_RESTARTS = 3


class LiveReader:
    """Reads kinds from an API server; a kind that cannot be read is said to be unread, never empty."""

    def __init__(self, api: RawApi, clock: Callable[[], float], page_size: int = PAGE_SIZE) -> None:
        self._api = api
        self._clock = clock
        self._page_size = page_size

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
                unread[kind.plural] = (
                    f"{error.message}" if kind not in METRICS else f"not served: {error.message}"
                )
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
        items: list[msgspec.Raw] = []
        token, version = "", ""
        read_at = self._clock()
        while True:
            page = self._page(kind, token)
            items.extend(page.items)
            version = version or page.resource_version
            token = page.continue_token
            if not token:
                return decode_listing(kind, items, resource_version=version, read_at=read_at)

    def _page(self, kind: Kind, token: str) -> Page:
        options: dict[str, object] = {"limit": self._page_size} if kind.paged else {}
        if token:
            options["_continue"] = token
        body = self._api.list_page(kind.group, kind.version, kind.resource or kind.plural, **options)
        try:
            return decode_page(body)
        except (msgspec.DecodeError, ValueError) as error:
            raise RebalancerError(f"list {kind.plural}: not a list: {error}", where=self._api.host) from error
