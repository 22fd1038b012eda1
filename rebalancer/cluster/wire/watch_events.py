"""Splits the body of a WATCH into events: lines of JSON, or frames of protobuf with their length before them.

Only whole events count. What a connection that broke off leaves behind is not an event, even where it happens
to be valid by itself; the watch goes on after the last whole one:

    {"type":"MODIFIED","object":{...}}\\n{"type":"DELE        one event; the second is sent again
    00 00 00 2a  <42 bytes>  00 00 10 00  <17 bytes>        one event; likewise
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.pods import version_number
from rebalancer.cluster.wire import messages
from rebalancer.cluster.wire.protobuf import MAGIC, MEDIA_TYPE, parse

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
MAX_EVENT_BYTES = 16 << 20  # ten times what etcd stores of an object
_CHANGES = frozenset({ADDED, MODIFIED, DELETED})
_LENGTH_BYTES = 4


class WatchEvent(msgspec.Struct, frozen=True):
    """One event: what happened to which object, at which version of the kind."""

    type: str
    version: int  # of the object after the change, or that the watch has reached
    namespace: str = ""
    name: str = ""
    content: messages.PodOutline | bytes = b""  # the object; in JSON, or where it is malformed, still encoded
    is_json: bool = False
    code: int = 0  # of an ERROR: the HTTP status that it stands for
    message: str = ""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""
    reason: str = ""


class _Line(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_lines = msgspec.json.Decoder(_Line)
_objects = msgspec.json.Decoder(_Object)
_statuses = msgspec.json.Decoder(_Status)


class EventSplitter:
    """Takes the body of a WATCH piece by piece, as it arrives, and gives the events that are whole."""

    def __init__(self, content_type: str) -> None:
        self.protobuf = content_type.startswith(MEDIA_TYPE)
        self._waiting: list[bytes] = []  # pieces of an event that is not whole, joined when it is
        self._held = 0  # bytes of them
        self._needed = 0  # bytes of the whole, where they are known
        self._next: Callable[[bytes, int], tuple[int, int] | None] = _frame if self.protobuf else _line
        self._decode = _protobuf_event if self.protobuf else _json_event

    def events(self, piece: bytes) -> Iterator[WatchEvent]:
        """The events that this piece completes; ValueError for what is none, or too large to be one."""
        self._waiting.append(piece)
        self._held += len(piece)
        if self._held >= self._needed if self.protobuf else b"\n" in piece:
            data = b"".join(self._waiting)
            start = 0
            self._waiting = []
            while bounds := self._next(data, start):
                begin, end = bounds
                start = end
                if data[begin:end].strip():
                    yield self._decode(data[begin:end])
            self._waiting = [data[start:]]
            self._held = len(data) - start
            length = data[start : start + _LENGTH_BYTES] if self.protobuf else b""
            length_has_come = len(length) == _LENGTH_BYTES
            self._needed = _LENGTH_BYTES + (int.from_bytes(length, "big") if length_has_come else 0)
        if self._held > MAX_EVENT_BYTES:
            raise ValueError(f"an event is larger than {MAX_EVENT_BYTES >> 20} MiB")


def _line(data: bytes, start: int) -> tuple[int, int] | None:
    end = data.find(b"\n", start)
    return None if end < 0 else (start, end + 1)


def _frame(data: bytes, start: int) -> tuple[int, int] | None:
    begin = start + _LENGTH_BYTES
    if len(data) < begin:
        return None
    length = int.from_bytes(data[start:begin], "big")
    if length > MAX_EVENT_BYTES:
        raise ValueError(f"an event is larger than {MAX_EVENT_BYTES >> 20} MiB")
    return (begin, begin + length) if len(data) >= begin + length else None


def _json_event(line: bytes) -> WatchEvent:
    try:
        event = _lines.decode(line)
        if event.type == ERROR:
            status = _statuses.decode(event.object)
            return WatchEvent(ERROR, -1, code=status.code, message=status.message or status.reason)
        metadata = _objects.decode(event.object).metadata
    except RecursionError as error:
        raise ValueError("nested too deeply to be an event") from error
    return replace(_checked(event.type, metadata, bytes(event.object)), is_json=True)


def _protobuf_event(frame: bytes) -> WatchEvent:
    event = parse(messages.WatchEvent, frame)
    if not event.object.raw.startswith(MAGIC):
        raise ValueError("the object of an event is not protobuf of an API server")
    encoded = event.object.raw[len(MAGIC) :]
    if event.type == ERROR:
        status = parse(messages.Status, parse(messages.AnyAnswer, encoded).raw)
        return WatchEvent(ERROR, -1, code=status.code, message=status.message or status.reason)
    try:
        pod = parse(messages.PodAnswer, encoded).raw
        return _checked(event.type, pod.metadata, pod)
    except ValueError:
        raw_object = parse(messages.AnyAnswer, encoded).raw
        return _checked(event.type, parse(messages.VersionedName, raw_object).metadata, raw_object)


def _checked(
    kind: str,
    metadata: _Metadata | messages.MetadataOutline | messages.VersionedObjectName,
    content: messages.PodOutline | bytes,
) -> WatchEvent:
    """The event; ValueError unless it says what happened, to what, and when."""
    version = version_number(metadata.resource_version)
    if kind not in _CHANGES and kind != BOOKMARK:
        raise ValueError(f"an event of the unknown type {kind[:20]!a}")
    if version < 0:
        raise ValueError(
            f"an event without a version that can be compared: {metadata.resource_version[:40]!a}"
        )
    if kind != BOOKMARK and not metadata.name:
        raise ValueError("an event of an object without a name")
    return WatchEvent(kind, version, metadata.namespace, metadata.name, content)
