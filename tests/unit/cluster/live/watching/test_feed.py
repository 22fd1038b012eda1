"""A feed against a server that does everything wrong: what it keeps is right, or it says that it is over."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from rebalancer.cluster.kinds import NODES, PODS, REPLICA_SETS, Kind
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.cluster.live.watching import feed as feed_module
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.cluster.live.watching.latest_objects import latest_objects
from rebalancer.cluster.wire import messages
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE
from rebalancer.errors import RightsError, UnreachableError
from rebalancer.http import Connections
from tests.churn import Churn, a_bookmark, digest_of, json_line, protobuf_frame
from tests.protobuf_encoder import encode_frame
from tests.rows import rows
from tests.waiting import HANG_SECONDS, eventually

EVENTS = 8
MOMENTS = (0, 3, EVENTS - 1)  # before the first event, between two, and before the last

Piece = bytes | BaseException | None
ENCODINGS = [(PODS, False), (PODS, True), (NODES, False), (REPLICA_SETS, False)]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two attempts nothing is waited for."""
    monkeypatch.setattr(feed_module, "_FIRST_WAIT_SECONDS", 0.0)


@dataclass
class Stream:
    """The body of one WATCH, which falls silent after what it brings unless that ends with ``None``."""

    found: Iterator[Piece]
    connections: Connections
    content_type: str = "application/json"
    ends: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)  # a connection's

    def __post_init__(self) -> None:
        with self.connections:
            Connections.note(self.ends[0])

    def pieces(self) -> Iterator[bytes]:
        for piece in self.found:
            if isinstance(piece, BaseException):
                raise piece
            if piece is None:
                return
            yield piece
        # Nothing more happens: silence, until the client goes away.
        self.ends[1].settimeout(HANG_SECONDS)
        assert self.ends[1].recv(1) == b""
        raise UnreachableError("the connection was closed")

    def close(self) -> None:
        for closed in (self.connections, *self.ends):
            closed.close()


class Server:
    """Remembers the events of a churn, and sends those after a version; ``spoil`` does wrong to a watch."""

    host = "a server"

    def __init__(self, churn: Churn, *, protobuf: bool = False) -> None:
        self._churn = churn
        self._protobuf = protobuf
        self.log: list[tuple[int, bytes]] = []
        self.opened = 0
        self.spoil: Callable[[int, list[bytes]], Iterator[Piece]] = lambda _, events: iter(events)

    def change(self, count: int = EVENTS) -> None:
        encode = protobuf_frame if self._protobuf else json_line
        for _ in range(count):
            event = encode(*self._churn.change())
            self.log.append((self._churn.version, event))

    def watch(
        self, kind: Any, read_seconds: float, query: Any, headers: Any, connections: Connections
    ) -> Stream:
        assert kind == self._churn.kind
        assert read_seconds > 0
        after = int(query["resourceVersion"])
        assert query["allowWatchBookmarks"]
        self.opened += 1
        events = [event for version, event in self.log if version > after]
        content_type = MEDIA_TYPE if self._protobuf else "application/json"
        return Stream(self.spoil(self.opened, events), connections, content_type)


@dataclass
class Watched:
    """A feed at work, and what it should keep."""

    churn: Churn
    server: Server
    feed: Feed
    changed: threading.Condition

    def wait(self) -> bool:
        """Wait until the feed has all events, or is over; whether it has them."""
        version = self.churn.version
        with self.changed:
            assert self.changed.wait_for(
                lambda: self.feed.over or self.feed.reached(version), HANG_SECONDS
            ), "neither up to date nor over"
        return self.feed.reached(version) and not self.feed.over

    def is_right(self) -> bool:
        listing, _ = self.churn.listed()
        return digest_of(self.feed.listing(0.0)) == digest_of(listing)


def watched(
    spoil: Callable[[int, list[bytes]], Iterator[Piece]] | None = None,
    *,
    kind: Kind = PODS,
    protobuf: bool = False,
) -> Watched:
    churn = Churn(5, kind, names=8)
    objects = latest_objects(*churn.listed())
    assert objects is not None
    server = Server(churn, protobuf=protobuf)
    server.change()
    if spoil is not None:
        server.spoil = spoil
    changed = threading.Condition(threading.RLock())
    feed = Feed(cast("RawApi", server), objects, changed, lambda: 0.0)
    feed.start()
    return Watched(churn, server, feed, changed)


def end(found: Watched) -> None:
    found.feed.close()
    found.feed.join(HANG_SECONDS)
    assert not found.feed.alive


def on_the_first(fault: Callable[[list[bytes], int], list[Piece]], moment: int) -> Any:
    """Does wrong to the first watch alone, at this event."""

    def spoil(opened: int, events: list[bytes]) -> Iterator[Piece]:
        return iter(fault(list(events), moment) if opened == 1 else events)

    return spoil


def cut(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], UnreachableError("reset by peer")]


def cut_within(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], events[at][: len(events[at]) // 2], UnreachableError("reset by peer")]


def cut_after_a_byte(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], events[at][:1], UnreachableError("reset by peer")]


def ended(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], None]  # as a server that is restarted does


def ended_within(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], events[at][: len(events[at]) // 2], None]


def silent_and_then_cut(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], UnreachableError("Read timed out.")]


def cut_before_the_line_ends(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], events[at][:-1], UnreachableError("reset by peer")]


def in_one_piece(events: list[bytes], at: int) -> list[Piece]:
    return [b"".join(events[:at]), b"".join(events[at:])]


def byte_by_byte(events: list[bytes], at: int) -> list[Piece]:
    return [*events[:at], *(bytes([byte]) for byte in events[at]), *events[at + 1 :]]


def sent_twice(events: list[bytes], at: int) -> list[Piece]:
    return [*events[: at + 1], events[at], *events[at + 1 :]]


HARMLESS = (
    cut,
    cut_within,
    cut_after_a_byte,
    cut_before_the_line_ends,
    ended,
    ended_within,
    silent_and_then_cut,
    in_one_piece,
    byte_by_byte,
    sent_twice,
)


@rows("moment", MOMENTS)
@rows("kind, protobuf", ENCODINGS)
@rows("fault", HARMLESS)
def test_a_watch_that_breaks_at_any_moment_goes_on_without_a_gap(
    fault: Callable[[list[bytes], int], list[Piece]], moment: int, kind: Kind, protobuf: bool
) -> None:
    found = watched(on_the_first(fault, moment), kind=kind, protobuf=protobuf)
    assert found.wait(), found.feed.over
    assert found.is_right()
    end(found)


def an_error(code: int, reason: str, *, protobuf: bool) -> bytes:
    if not protobuf:
        return json_line("ERROR", {"code": code, "reason": reason, "message": reason})
    status = messages.Status(code=code, reason=reason, message=reason)
    return encode_frame("ERROR", status.SerializeToString(), "Status")


def gone(events: list[bytes], at: int, *, protobuf: bool) -> list[Piece]:
    return [*events[:at], an_error(410, "Expired", protobuf=protobuf)]


def failed(events: list[bytes], at: int, *, protobuf: bool) -> list[Piece]:
    return [*events[:at], an_error(500, "etcd is away", protobuf=protobuf)]


def garbled(events: list[bytes], at: int, *, protobuf: bool) -> list[Piece]:
    broken = b'{"type": "MODIFIED", "object": {"metadata": 7}}\n'
    if protobuf:
        broken = encode_frame("MODIFIED", b"\x0a\xff")
    return [*events[:at], broken, *events[at + 1 :]]


def without_a_version(events: list[bytes], at: int, *, protobuf: bool) -> list[Piece]:
    broken = json_line("MODIFIED", {"metadata": {"name": "web-1"}})
    if protobuf:
        broken = encode_frame("MODIFIED", b"\x0a\x07\x0a\x05web-1")
    return [*events[:at], broken, *events[at + 1 :]]


def of_an_unknown_type(events: list[bytes], at: int, *, protobuf: bool) -> list[Piece]:
    metadata = {"name": "web-1", "resourceVersion": "999999"}
    broken = json_line("INVENTED", {"metadata": metadata})
    if protobuf:
        broken = encode_frame("INVENTED", b"\x0a\x0f\x0a\x05web-1\x32\x06999999")
    return [*events[:at], broken, *events[at + 1 :]]


def no_event(events: list[bytes], at: int, *, protobuf: bool) -> list[Piece]:
    return [*events[:at], b"<html>502 Bad Gateway</html>\n", *events[at:]]


UNBELIEVABLE = (gone, failed, garbled, without_a_version, of_an_unknown_type, no_event)


@rows("moment", MOMENTS)
@rows("kind, protobuf", ENCODINGS)
@rows("fault", UNBELIEVABLE)
def test_a_watch_that_cannot_be_believed_is_over_and_says_why(
    fault: Callable[..., list[Piece]], moment: int, kind: Kind, protobuf: bool
) -> None:
    spoil = functools.partial(fault, protobuf=protobuf)
    found = watched(on_the_first(spoil, moment), kind=kind, protobuf=protobuf)
    assert not found.wait()
    assert found.feed.over
    assert not found.feed.refused, "a new list mends it"
    assert found.server.opened == 1
    found.feed.join(HANG_SECONDS)
    assert not found.feed.alive


def two_swapped(events: list[bytes], at: int) -> list[Piece]:
    at = min(at, len(events) - 2)
    return [*events[:at], events[at + 1], events[at], *events[at + 2 :]]


def replayed(events: list[bytes], at: int) -> list[Piece]:
    return [*events[: at + 1], *events]


@rows("moment", MOMENTS)
@rows("kind, protobuf", ENCODINGS)
@rows("fault", [two_swapped, replayed])
def test_events_out_of_order_are_believed_only_where_that_makes_no_difference(
    fault: Callable[[list[bytes], int], list[Piece]], moment: int, kind: Kind, protobuf: bool
) -> None:
    found = watched(on_the_first(fault, moment), kind=kind, protobuf=protobuf)
    found.wait()
    # Between two swapped events nobody can see that the earlier one is still to come.
    eventually(lambda: found.feed.over or found.is_right(), awaited="all events have come")
    if not found.feed.over:
        end(found)
    else:
        assert not found.feed.refused, "a new list mends it"


@rows("moment", range(EVENTS))
def test_an_event_that_was_left_out_is_never_taken_for_quiet(moment: int) -> None:
    """Nobody can see that it is missing; but the version that the server states is not reached."""

    def silent(events: list[bytes], at: int) -> list[Piece]:
        return list(events[:at])

    found = watched(on_the_first(silent, moment))
    version = found.churn.version
    with found.changed:
        found.changed.wait_for(lambda: found.feed.events == moment, HANG_SECONDS)
        assert not found.feed.reached(version)
    found.feed.hurry()
    assert found.wait()
    assert found.is_right()
    end(found)


@pytest.mark.parametrize(
    "refusal",
    [RightsError("cannot watch pods"), RequestRejectedError("no such path", status=404)],
    ids=["rights", "not served"],
)
def test_a_server_that_refuses_watches_is_asked_once_in_each_encoding(refusal: Exception) -> None:
    def refuse(_opened: int, _events: list[bytes]) -> Iterator[Piece]:
        raise refusal

    found = watched(refuse)
    assert not found.wait()
    assert found.feed.refused
    assert found.server.opened == 2
    found.feed.join(HANG_SECONDS)


def test_a_version_that_is_forgotten_when_the_watch_is_opened_asks_for_a_new_list() -> None:
    def refuse(_opened: int, _events: list[bytes]) -> Iterator[Piece]:
        raise RequestRejectedError("too old resource version", status=410)

    found = watched(refuse)
    assert not found.wait()
    assert not found.feed.refused
    found.feed.join(HANG_SECONDS)


def test_a_busy_server_is_asked_again_and_at_last_left_alone() -> None:
    busy = UnreachableError("overloaded")

    def refuse(opened: int, events: list[bytes]) -> Iterator[Piece]:
        if opened <= 3:
            raise busy
        return iter(events)

    found = watched(refuse)
    assert found.wait()
    assert found.is_right()
    end(found)

    def always(_opened: int, _events: list[bytes]) -> Iterator[Piece]:
        raise busy

    found = watched(always)
    assert not found.wait()
    assert "times in a row" in found.feed.over
    found.feed.join(HANG_SECONDS)
    assert not found.feed.alive


def test_a_defect_is_not_taken_for_silence() -> None:
    def defect(_opened: int, _events: list[bytes]) -> Iterator[Piece]:
        raise ZeroDivisionError

    found = watched(defect)
    assert not found.wait()
    assert "ZeroDivisionError" in found.feed.over
    found.feed.join(HANG_SECONDS)


def test_a_watch_without_end_brings_no_more_objects_than_a_list_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_MAX_OBJECTS", 10)
    found = watched()

    def flood(_opened: int, _events: list[bytes]) -> Iterator[Piece]:
        return (
            json_line("ADDED", {"metadata": {"name": f"web-{at}", "resourceVersion": str(10**6 + at)}})
            for at in range(10**6)
        )

    found.server.spoil = flood
    found.feed.hurry()
    with found.changed:
        assert found.changed.wait_for(lambda: bool(found.feed.over), HANG_SECONDS)
    assert "more than 10 objects" in found.feed.over
    found.feed.join(HANG_SECONDS)


def test_bookmarks_alone_show_that_nothing_happened() -> None:
    found = watched(lambda _, events: iter([*events, a_bookmark(10**6)]))
    with found.changed:
        assert found.changed.wait_for(lambda: found.feed.reached(10**6), HANG_SECONDS)
    assert found.is_right()
    end(found)
