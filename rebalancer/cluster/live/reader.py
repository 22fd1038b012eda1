"""Reads a live cluster: every LIST in pages of raw bytes, consistent within a kind or read again.

A page is on the wire while the one before it is decoded; never more than a few of them are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rebalancer.cluster import records
from rebalancer.cluster.kinds import KINDS, METRICS, REQUIRED, Kind
from rebalancer.cluster.live.connection import Answer, NotServedError, RawApi
from rebalancer.cluster.live.read_ahead import running_ahead
from rebalancer.cluster.recordings.listing import Listing, ListingBuilder, Recording, collector_paused
from rebalancer.cluster.wire.json_items import Page, decode_head
from rebalancer.cluster.wire.protobuf_pods import MEDIA_TYPE, Pods, decode_answer
from rebalancer.errors import RebalancerError, RightsError, UnreachableError

PAGE_SIZE = 500
MAX_PAGES = 10_000  # of one LIST: more than any cluster has, so that a server that never ends does
_RESTARTS = 3
_EXPIRED = 410
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _Begun:
    """A LIST begins, or begins again: what was read of it so far does not count."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A page as it came."""

    kind: Kind
    head: Page
    body: bytes
    protobuf: Pods | None  # None for JSON
    read_at: float  # when the LIST began


@dataclass(frozen=True, slots=True)
class _Failed:
    """A LIST that ended otherwise."""

    kind: Kind
    error: RebalancerError


_Event = _Begun | _Fetched | _Failed


class LiveReader:
    """Reads kinds from an API server; a kind that cannot be read is said to be unread, never empty."""

    def __init__(
        self,
        api: RawApi,
        clock: Callable[[], float],
        page_size: int = PAGE_SIZE,
        most_pages: int = MAX_PAGES,
        *,
        protobuf: bool = True,
    ) -> None:
        self._api = api
        self._clock = clock
        self._page_size = page_size
        self._most_pages = most_pages
        self._protobuf = protobuf

    def read(
        self, kinds: Iterable[Kind] = KINDS, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Read all kinds. Raises when nodes or pods, without which nothing can be said, cannot be read."""
        wanted = tuple(kinds)
        reading = _Reading(self._api.host)
        with collector_paused(), running_ahead(lambda: self._events(wanted)) as events:
            for event in events:
                if isinstance(event, _Begun):
                    progress(event.kind.plural)
                    reading.begin(event.kind)
                elif isinstance(event, _Failed):
                    reading.fail(event.kind, event.error)
                else:
                    reading.take(event)
        return Recording(self._api.host, reading.listings, reading.unread, refused=frozenset(reading.refused))

    def _events(self, kinds: Iterable[Kind]) -> Iterator[_Event]:
        """What is fetched, kind after kind."""
        for kind in kinds:
            try:
                yield from self._list(kind)
            except RebalancerError as error:
                yield _Failed(kind, error)
                if kind in REQUIRED:  # nothing can be said without it
                    return

    def _list(self, kind: Kind) -> Iterator[_Event]:
        for _ in range(_RESTARTS):
            yield _Begun(kind)
            try:
                yield from self._list_once(kind)
            except NotServedError as error:
                # 410: the list expired between two pages; what was read so far is no longer consistent.
                if error.status != _EXPIRED:
                    raise
            else:
                return
        raise UnreachableError(
            f"list {kind.plural}: expired {_RESTARTS} times between pages",
            where=self._api.host,
            hint="the cluster changes faster than it can be read",
        )

    def _list_once(self, kind: Kind) -> Iterator[_Fetched]:
        token = ""
        seen: set[str] = set()
        read_at = self._clock()
        while len(seen) < self._most_pages:
            page = self._page(kind, token, read_at)
            yield page
            token = page.head.continue_token
            if not token:
                return
            if token in seen:
                raise _unusable(kind, self._api.host, "the same page is offered again")
            seen.add(token)
        raise _unusable(kind, self._api.host, f"does not end after {self._most_pages} pages")

    def _page(self, kind: Kind, token: str, read_at: float) -> _Fetched:
        options: dict[str, object] = {"limit": self._page_size} if kind.paged else {}
        if token:
            options["_continue"] = token
        answer = self._answer(kind, options)
        pods: Pods | None = None
        try:
            if answer.content_type.startswith(MEDIA_TYPE):
                head, pods = decode_answer(answer.body)
            else:
                head = decode_head(answer.body)
        except (ValueError, LookupError, RecursionError) as error:
            raise _unusable(kind, self._api.host, f"the answer is no list: {error}") from error
        if head.kind != f"{kind.name}List":
            raise _unusable(kind, self._api.host, f"the answer is no {kind.name}List but {head.kind[:60]!a}")
        return _Fetched(kind, head, answer.body, pods, read_at)

    def _answer(self, kind: Kind, options: Mapping[str, object]) -> Answer:
        if not self._protobuf or kind.record is not records.Pod:
            return self._api.list_page(kind, **options)
        try:
            return self._api.list_page(kind, **options, _headers={"Accept": f"{MEDIA_TYPE}, {_JSON}"})
        except (NotServedError, RightsError) as error:
            if isinstance(error, NotServedError) and error.status == _EXPIRED:
                raise
            # Something between us and the server may know JSON alone; and only in JSON does the client hand
            # us what a refusal says.
            self._protobuf = False
            return self._api.list_page(kind, **options)


class _Reading:
    """What was read so far."""

    def __init__(self, host: str) -> None:
        self.listings: dict[str, Listing] = {}
        self.unread: dict[str, str] = {}
        self.refused: set[str] = set()
        self._host = host
        self._builder: ListingBuilder | None = None

    def begin(self, kind: Kind) -> None:
        """Take the pages of a kind from now on, from its first one."""
        self._builder = ListingBuilder(kind)

    def take(self, page: _Fetched) -> None:
        """Decode a page."""
        builder = self._builder
        assert builder is not None
        builder.resource_version = builder.resource_version or page.head.resource_version
        try:
            if page.protobuf is None:
                builder.add_list(page.body)
            else:
                builder.add_protobuf(page.protobuf)
        except (ValueError, RecursionError) as error:
            self.fail(page.kind, _unusable(page.kind, self._host, f"the answer is no list: {error}"))
            return
        if not page.head.continue_token:
            self.listings[page.kind.plural] = builder.listing(page.read_at)

    def fail(self, kind: Kind, error: RebalancerError) -> None:
        """Say why a kind is not read; raise where nothing can be said without it."""
        if isinstance(error, NotServedError) and kind not in REQUIRED:
            if kind.optional:
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


def _unusable(kind: Kind, host: str, why: str) -> UnreachableError:
    return UnreachableError(
        f"list {kind.plural}: {why}", where=host, hint="is this an API server, or a proxy before one?"
    )
