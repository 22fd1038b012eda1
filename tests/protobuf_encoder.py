"""Writes records in protobuf as an API server would: fields in the order of their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rebalancer.cluster import times
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire.protobuf import Entry, Message, Shape
from rebalancer.cluster.wire.protobuf_schema import POD


def written_varint(value: int) -> bytes:
    found = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def field(number: int, value: bytes) -> bytes:
    return written_varint(number << 3 | 2) + written_varint(len(value)) + value


def _pair(key: str, value: bytes) -> bytes:
    return field(1, key.encode()) + field(2, value)


def _values(entry: Entry, value: Any) -> Iterable[bytes | int]:
    match entry.shape:
        case Shape.TEXT:
            return [value.encode()]
        case Shape.TEXTS:
            return [text.encode() for text in value]
        case Shape.INTEGER | Shape.TRUTH | Shape.TRUTH_WHEN_SET:
            return [int(value)]
        case Shape.TIME:
            return [b"\x08" + written_varint(int(times.parse(value))) + b"\x10\x00"]
        case Shape.TEXT_MAP:
            return [_pair(key, text.encode()) for key, text in sorted(value.items())]
        case Shape.QUANTITY_MAP:
            return [_pair(key, field(1, text.encode())) for key, text in sorted(value.items())]
    assert entry.message is not None
    found = value if entry.shape is Shape.MESSAGES else [value]
    return [encode(entry.message, item) for item in found]


def encode(message: Message, record: Any) -> bytes:
    """A record as a message."""
    found = b""
    for number, entry in sorted(message.entries.items()):
        value = record if entry.shape is Shape.INLINE else getattr(record, entry.attribute)
        for item in _values(entry, value) if value is not None else ():
            if isinstance(item, int):
                found += written_varint(number << 3) + written_varint(item)
            else:
                found += field(number, item)
    return found


def encode_list(pods: Iterable[Pod], resource_version: str = "1", token: str = "") -> bytes:
    """A PodList as an answer."""
    metadata = field(1, b"") + field(2, resource_version.encode()) + field(3, token.encode())
    items = b"".join(field(2, encode(POD, pod)) for pod in pods)
    type_meta = field(1, b"v1") + field(2, b"PodList")
    return (
        b"k8s\x00"
        + field(1, type_meta)
        + field(2, field(1, metadata) + items)
        + field(3, b"")
        + field(4, b"")
    )
