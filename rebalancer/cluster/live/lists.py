"""How a LIST is read: page after page, or as one answer that is decoded while it arrives.

The API server forgets a list a few minutes after its first page; the next page is then answered with 410,
and what was read so far no longer fits the rest. So the list is read from the beginning again, never without
end:

    begins, page 1, page 2, 410 Gone -> begins, page 1, page 2, page 3

How many bytes a page has, nobody knows before: an object may be as large as etcd stores, 1.5 MiB. So a page
that turns out too large is given up and asked for with fewer objects, and the pages after small ones grow:

    limit 500, more than 32 MiB -> limit 125, more -> limit 31, 30 MiB -> limit 31, 2 MiB -> limit 62

Pages are requested one after another, and a server answers the later ones from etcd where it has forgotten
the version of the first. Without pages the answer comes from the server's memory, as fresh, and nothing is
waited for in between. It is asked for only where the server writes it piece by piece as well: older ones
would hold all of it in memory, several times.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, collector_paused
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live.client import MAX_PAGE_BYTES, PAGE_SIZE, Query, RawApi
from rebalancer.cluster.live.failures import AnswerTooLargeError, RequestRejectedError, translated
from rebalancer.cluster.pods import version_number
from rebalancer.cluster.wire.json_items import Page, decode_head
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE, PodListSplitter, Pods, decode_answer
from rebalancer.deadlines import Deadline
from rebalancer.errors import StopRequestedError, UnreachableError
from rebalancer.http import Answer, Connections

if TYPE_CHECKING:
    from rebalancer.http import Stream

# One reading, with all its pages, retries and beginnings. A server forgets a list after some five minutes, so
# what takes longer than this never fits together; and no load is as old as that when it is planned by.
READING_SECONDS = 600.0
MAX_PAGES = 10_000  # of one LIST: more than any cluster has
EXPIRED = 410
_MAX_BEGINNINGS = 3
_FEWER = 4  # by how much a page that is too large is made smaller
_SMALL = 8  # a page of less than this part of the bound may have more objects the next time


class ListBegins(msgspec.Struct, frozen=True):
    """A LIST begins, or begins again: the pages before do not count."""


class FetchedPage(msgspec.Struct, frozen=True):
    """A page as it came, or a part of a whole list, with its items still encoded."""

    head: Page
    body: bytes
    protobuf: Pods | None  # the pods of a protobuf answer; None for JSON
    last: bool = True  # nothing more of the list follows

    def add_to(self, builder: ListingBuilder) -> None:
        """Decode the items into a listing. Raises ValueError or RecursionError when they are not a list."""
        builder.resource_version = builder.resource_version or self.head.resource_version
        if self.protobuf is None:
            builder.add_list(self.body)
        else:
            builder.add_protobuf(self.protobuf)


class ListSource(msgspec.Struct, frozen=True):
    """Where the pages of one LIST come from: ``fetch`` answers a GET with these query options."""

    kind: Kind
    what: str  # as messages name the request, e.g. "list pods"
    host: str
    fetch: Callable[[Query], Answer]
    page_size: int = PAGE_SIZE
    max_pages: int = MAX_PAGES

    def pages(self) -> Iterator[ListBegins | FetchedPage]:
        """All pages, consistent with each other from the last ``ListBegins`` on.

        Raises the errors of ``fetch``, and UnreachableError when the list keeps expiring, does not end or is
        none.
        """
        for _ in range(_MAX_BEGINNINGS):
            yield ListBegins()
            try:
                yield from self._pages_once()
            except RequestRejectedError as error:
                if error.status != EXPIRED:
                    raise
            else:
                return
        raise UnreachableError(
            f"{self.what}: expired {_MAX_BEGINNINGS} times between pages",
            where=self.host,
            hint="the cluster changes faster than it can be read",
        )

    def _pages_once(self) -> Iterator[FetchedPage]:
        token = ""
        objects = self.page_size
        seen: set[str] = set()
        while len(seen) < self.max_pages:
            try:
                page = self._page(token, objects)
            except AnswerTooLargeError:
                if objects == 1 or not self.kind.paged:
                    raise
                objects = max(1, objects // _FEWER)
                continue
            if len(page.body) * _SMALL < MAX_PAGE_BYTES:
                objects = min(2 * objects, self.page_size)
            yield page
            token = page.head.continue_token
            if not token:
                return
            if token in seen:
                raise self.unusable("the same page is offered again")
            seen.add(token)
        raise self.unusable(f"does not end after {self.max_pages} pages")

    def _page(self, token: str, objects: int) -> FetchedPage:
        options: dict[str, object] = {"limit": objects} if self.kind.paged else {}
        if token:
            options["continue"] = token
        answer = self.fetch(options)
        pods: Pods | None = None
        try:
            if answer.content_type.startswith(MEDIA_TYPE):
                head, pods = decode_answer(answer.body)
            else:
                head = decode_head(answer.body)
        except (ValueError, LookupError, RecursionError) as error:
            raise self.no_list(error) from error
        if head.kind != f"{self.kind.name}List":
            raise self.unusable(f"the answer is not a list of {self.kind.plural} but {head.kind[:60]!a}")
        return FetchedPage(head, answer.body, pods, last=not head.continue_token)

    def no_list(self, error: Exception) -> UnreachableError:
        """The error for a page that cannot be decoded."""
        return self.unusable(f"the answer is not a list: {str(error)[:200]}")

    def unusable(self, why: str) -> UnreachableError:
        """The error for answers that nobody can use."""
        return UnreachableError(
            f"{self.what}: {why}", where=self.host, hint="is this an API server, or a proxy before one?"
        )


def read_list(
    api: RawApi,
    kind: Kind,
    what: str,
    path: str,
    query: Query | None = None,
    max_pages: int = MAX_PAGES,
) -> Listing:
    """All objects at a path that a query selects. Raises RightsError or UnreachableError."""
    reading = api.within(READING_SECONDS)
    source = ListSource(
        kind,
        what,
        api.host,
        lambda paging: reading.ask(what, path, {**(query or {}), **paging}),
        max_pages=max_pages,
    )
    builder = ListingBuilder(kind)
    with collector_paused():
        for page in source.pages():
            if isinstance(page, ListBegins):
                builder = ListingBuilder(kind)
                continue
            try:
                page.add_to(builder)
            except (ValueError, RecursionError) as error:
                raise source.no_list(error) from error
    return builder.listing()


_STREAMING_SINCE = (1, 33)  # StreamingCollectionEncodingToProtobuf, on by default
_MAX_PODS = MAX_PAGES * PAGE_SIZE
_PIECE_BYTES = 512 << 10
_LOOK_SECONDS = 0.05


def is_streamed_by(api: RawApi) -> bool:
    """Whether the server writes a large LIST piece by piece. Raises as any request does."""
    major, _, minor = api.server_version().partition(".")
    return bool(minor) and (int(major), int(minor)) >= _STREAMING_SINCE


def streamed_list(api: RawApi, kind: Kind, first: FetchedPage) -> Iterator[FetchedPage]:
    """The pods of a LIST without pages, some of them at a time, the last of which says so.

    ``first`` is the page that was read before: what is older, or has fewer pods, is not the whole list.
    Raises StopRequestedError; UnreachableError or RightsError where it has to be read in pages after all.
    """
    what = f"list {kind.plural}"
    limit = api.retries.limit()
    splitter = PodListSplitter()
    count = 0
    with translated(what, api.host), _opened(api, kind, limit) as stream:
        try:
            if not stream.content_type.startswith(MEDIA_TYPE):
                raise ValueError(f"not protobuf but {stream.content_type[:60]!a}")
            for piece in _in_larger_pieces(stream.pieces()):
                pods = splitter.pods(piece)
                count += len(pods)
                if splitter.head is None:
                    continue
                _check(splitter.head, kind, first.head)
                if count > _MAX_PODS:
                    raise ValueError(f"more than {_MAX_PODS} {kind.plural}")
                if pods:
                    yield FetchedPage(splitter.head, b"", pods, last=False)
            splitter.finish()
            if count < len(first.protobuf or ()):
                raise ValueError(f"a streamed list of {count} {kind.plural}, fewer than its first page has")
        except (ValueError, LookupError) as error:
            raise UnreachableError(f"{what}: {error}", where=api.host) from error
        assert splitter.head is not None
        yield FetchedPage(splitter.head, b"", [])


def _check(head: Page, kind: Kind, first: Page) -> None:
    """ValueError where an answer is not what was asked for, whether it holds anything or not."""
    if head.kind != f"{kind.name}List" or head.continue_token:
        raise ValueError(f"no streamed list of {kind.plural} but {head.kind[:60]!a}")
    if version_number(head.resource_version) < version_number(first.resource_version):
        raise ValueError(
            f"a streamed list at version {head.resource_version[:60]!a}, older than its first page"
        )


def _in_larger_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes; a server sends some ten pods at a time, and to hand over each few would cost more."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(held)
            held = []
            size = 0
    yield b"".join(held)


@contextlib.contextmanager
def _opened(api: RawApi, kind: Kind, limit: Deadline) -> Iterator[Stream]:
    """The answer, whose connection is ended when its time is up or the program is asked to stop.

    What reads it may wait for the next byte, so a thread of its own looks at the clock.
    """
    what = f"list {kind.plural}"

    connections = Connections()

    def open_stream() -> Stream:
        return api.client.stream(kind.path, headers={"Accept": MEDIA_TYPE}, connections=connections)

    try:
        stream = limit.bound(what, open_stream)
    except TimeoutError as error:
        connections.end()
        raise UnreachableError(f"{what}: {error}", where=api.host) from error
    except StopRequestedError:
        connections.end()
        raise
    over = threading.Event()

    def watch_the_clock() -> None:
        while not over.wait(_LOOK_SECONDS):
            if limit.stopped or limit.seconds_left <= 0:
                connections.end()
                return

    threading.Thread(target=watch_the_clock, name=what, daemon=True).start()
    try:
        yield stream
    except Exception as error:
        if limit.stopped:
            raise StopRequestedError(f"{what}: asked to stop") from error
        raise
    finally:
        over.set()
        stream.close()
