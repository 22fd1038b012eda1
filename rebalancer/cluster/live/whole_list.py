"""A large LIST as one answer, decoded while it arrives.

Pages are requested one after another, each once the one before is complete, and a server answers the later
ones from etcd where it has forgotten the version that the first one had. Without pages the answer comes from
the server's memory, as fresh, and nothing is waited for in between. It is asked for only where the server
writes it piece by piece as well: older ones would hold all of it in memory, several times.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live.answers import translated
from rebalancer.cluster.live.client import READ_SECONDS, Stream
from rebalancer.cluster.live.lists import MAX_PAGES, PAGE_SIZE, FetchedPage
from rebalancer.cluster.live.raw_api import RawApi
from rebalancer.cluster.pods import version_number
from rebalancer.cluster.wire.json_items import Page
from rebalancer.cluster.wire.protobuf_list import PodListSplitter
from rebalancer.cluster.wire.protobuf_pods import MEDIA_TYPE
from rebalancer.deadlines import Deadline
from rebalancer.errors import StopRequestedError, UnreachableError

_STREAMING_SINCE = (1, 33)  # StreamingCollectionEncodingToProtobuf, on by default
_MAX_PODS = MAX_PAGES * PAGE_SIZE
_PIECE_BYTES = 512 << 10
_LOOK_SECONDS = 0.05


def is_streamed_by(api: RawApi) -> bool:
    """Whether the server writes a large LIST piece by piece. Raises as any request does."""
    major, _, minor = api.server_version().partition(".")
    return bool(minor) and (int(major), int(minor)) >= _STREAMING_SINCE


def whole_list(api: RawApi, kind: Kind, first: FetchedPage) -> Iterator[FetchedPage]:
    """The pods of a LIST without pages, some of them at a time, the last of which says so.

    ``first`` is the page that was read before: what is older, or has fewer pods, is not the whole list.
    Raises StopRequestedError; UnreachableError or RightsError where it has to be read in pages after all.
    """
    what, limit = f"list {kind.plural}", api.retries.limit()
    splitter, count = PodListSplitter(), 0
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
                raise ValueError(f"a whole list of {count} {kind.plural}, fewer than its first page has")
        except (ValueError, LookupError) as error:
            raise UnreachableError(f"{what}: {error}", where=api.host) from error
        assert splitter.head is not None
        yield FetchedPage(splitter.head, b"", [])


def _check(head: Page, kind: Kind, first: Page) -> None:
    """ValueError where an answer is not what was asked for, whether it holds anything or not."""
    if head.kind != f"{kind.name}List" or head.continue_token:
        raise ValueError(f"no whole list of {kind.plural} but {head.kind[:60]!a}")
    if version_number(head.resource_version) < version_number(first.resource_version):
        raise ValueError(f"a whole list at version {head.resource_version[:60]!a}, older than its first page")


def _in_larger_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes; a server sends some ten pods at a time, and to hand over each few would cost more."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


@contextlib.contextmanager
def _opened(api: RawApi, kind: Kind, limit: Deadline) -> Iterator[Stream]:
    """The answer, whose connection is ended when its time is up or the program is asked to stop.

    What reads it may wait for the next byte, so a thread of its own looks at the clock.
    """
    what = f"list {kind.plural}"

    def open_stream() -> Stream:
        headers = {"Accept": MEDIA_TYPE}
        call = api.client.core.get
        return api.client.stream(call, kind.path, read_seconds=READ_SECONDS, _headers=headers)

    try:
        stream = limit.bound(what, open_stream)
    except TimeoutError as error:
        raise UnreachableError(f"{what}: {error}", where=api.host) from error
    over = threading.Event()

    def watch_the_clock() -> None:
        while not over.wait(_LOOK_SECONDS):
            if limit.stopped or limit.seconds_left <= 0:
                stream.interrupt()
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
