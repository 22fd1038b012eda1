"""A WATCH is split into whole events, however its body arrives; what is not an event is refused."""

from __future__ import annotations

import pytest

from rebalancer.cluster.wire import messages, watch_events
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE
from rebalancer.cluster.wire.watch_events import MAX_EVENT_BYTES, EventSplitter, WatchEvent
from tests.builders import a_pod
from tests.churn import Churn, a_bookmark, json_line, protobuf_frame
from tests.protobuf_encoder import encode_frame
from tests.rows import rows

JSON = "application/json"


def split(content_type: str, *pieces: bytes) -> list[WatchEvent]:
    splitter = EventSplitter(content_type)
    return [event for piece in pieces for event in splitter.events(piece)]


def body_of(content_type: str, count: int = 5) -> bytes:
    churn = Churn(1)
    encode = protobuf_frame if content_type == MEDIA_TYPE else json_line
    return b"".join(encode(*churn.change()) for _ in range(count))


def as_tuples(events: list[WatchEvent]) -> list[tuple[str, int, str]]:
    return [(event.type, event.version, event.name) for event in events]


@rows("content_type", [JSON, MEDIA_TYPE])
@rows("size", [1, 3, 100, 1000])
def test_events_are_the_same_however_the_body_arrives(content_type: str, size: int) -> None:
    body = body_of(content_type)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert as_tuples(split(content_type, *pieces)) == as_tuples(split(content_type, body))
    assert len(split(content_type, body)) == 5


@pytest.mark.parametrize("content_type", [JSON, MEDIA_TYPE])
def test_what_a_broken_connection_leaves_behind_is_no_event(content_type: str) -> None:
    whole = body_of(content_type, 1)
    for end in range(len(whole)):
        assert split(content_type, whole[:end]) == []


def test_bookmarks_and_errors_are_read_in_both_encodings() -> None:
    status = messages.Status(message="too old", reason="Expired", code=410).SerializeToString()
    bookmark = messages.PodOutline(metadata={"resource_version": "77"}).SerializeToString()
    frames = encode_frame("BOOKMARK", bookmark) + encode_frame("ERROR", status, "Status")
    lines = a_bookmark(77) + json_line("ERROR", {"code": 410, "message": "too old"})
    for found in (split(MEDIA_TYPE, frames), split(JSON, lines)):
        assert [(item.type, item.version, item.code, item.message) for item in found] == [
            ("BOOKMARK", 77, 0, ""),
            ("ERROR", -1, 410, "too old"),
        ]


def test_a_pod_in_protobuf_that_cannot_be_decoded_is_still_known_by_name() -> None:
    metadata = messages.VersionedName(
        metadata={"name": "web-1", "namespace": "shop", "resource_version": "9"}
    ).SerializeToString()
    broken = metadata + b"\x12\x03\x52\x01\xff"  # spec.nodeName is not UTF-8
    (event,) = split(MEDIA_TYPE, encode_frame("MODIFIED", broken))
    assert (event.namespace, event.name, event.version, event.content) == ("shop", "web-1", 9, broken)


@rows(
    "line",
    [
        b"no JSON\n",
        b'{"type": "ADDED"}\n',
        json_line("INVENTED", a_pod("web-1")),
        json_line("ADDED", {"metadata": {"name": "web-1"}}),
        json_line("ADDED", {"metadata": {"name": "web-1", "resourceVersion": "abc"}}),
        json_line("ADDED", {"metadata": {"resourceVersion": "7"}}),
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        split(JSON, line)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(JSON, b" " * (MAX_EVENT_BYTES + 1)), (MEDIA_TYPE, (MAX_EVENT_BYTES + 1).to_bytes(4, "big"))],
)
def test_an_event_too_large_to_be_one_is_refused_before_it_is_whole(content_type: str, body: bytes) -> None:
    with pytest.raises(ValueError, match="larger than 16 MiB"):
        split(content_type, body)


def test_a_frame_of_anything_but_an_event_is_refused() -> None:
    for frame in (b"\xff\xff\xff", messages.WatchEvent(type="ADDED").SerializeToString()):
        with pytest.raises(ValueError, match=r"."):
            split(MEDIA_TYPE, len(frame).to_bytes(4, "big") + frame)


class Piece(bytes):
    """A piece that notices when it is appended to what came before, which costs as much as that is long."""

    appended = 0

    def __radd__(self, before: bytes) -> bytes:
        Piece.appended += 1
        return bytes.__add__(before, self)


@pytest.mark.parametrize("content_type", [JSON, MEDIA_TYPE])
def test_an_event_in_small_pieces_is_joined_once_and_not_at_each_piece(content_type: str) -> None:
    large = {**a_pod("web-1"), "metadata": {"name": "web-1", "resourceVersion": "7", "uid": "x" * (1 << 20)}}
    encode = protobuf_frame if content_type == MEDIA_TYPE else json_line
    body = encode("ADDED", large)
    splitter, most = EventSplitter(content_type), 0
    events: list[WatchEvent] = []
    for start in range(0, len(body), 512):
        events += splitter.events(Piece(body[start : start + 512]))
        most = max(most, len(splitter._waiting))

    assert (len(events), Piece.appended) == (1, 0)
    assert most > len(body) // 512 - 5


def test_an_empty_line_is_no_event_and_hides_none() -> None:
    line = json_line("ADDED", {"metadata": {"name": "web-1", "resourceVersion": "0"}})
    assert as_tuples(split(JSON, b"\n" + line)) == [("ADDED", 0, "web-1")]


@pytest.mark.parametrize("content_type", [JSON, MEDIA_TYPE])
def test_an_event_says_whether_its_object_is_json(content_type: str) -> None:
    (event,) = split(content_type, body_of(content_type, 1))
    assert event.is_json == (content_type == JSON)


@pytest.mark.parametrize("content_type", [JSON, MEDIA_TYPE])
def test_the_bound_is_of_one_event_and_not_of_those_before_it(
    content_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = body_of(content_type, 1)
    frame = 4 if content_type == MEDIA_TYPE else 0
    monkeypatch.setattr(watch_events, "MAX_EVENT_BYTES", len(body) - frame)
    assert len(split(content_type, body, body[:3], body[3:], body + body[:5])) == 3
    monkeypatch.setattr(watch_events, "MAX_EVENT_BYTES", len(body) - frame - 1)
    with pytest.raises(ValueError, match="larger than"):
        split(content_type, body[:-1] if content_type == MEDIA_TYPE else b" " * len(body))


def test_what_is_held_may_be_as_large_as_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_events, "MAX_EVENT_BYTES", 100)
    assert split(JSON, b" " * 100) == []
    with pytest.raises(ValueError, match="larger than"):
        split(JSON, b" " * 101)
