"""Protobuf as the API server writes it: messages decoded into records, with the fields we use and no others.

A message is a run of fields, each a number and a value; which number is which field of a record is a table
(``protobuf_schema``). Fields without an entry are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from rebalancer.cluster import times

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTH = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10
_SIGN = 1 << 63
MAGIC = b"k8s\x00"  # before every answer of an API server
_SECONDS = 1 << 3 | _VARINT  # the tag of the first field of a time

Field = tuple[int, int, int]
"""A field's number; where its value starts and ends, or the value itself and -1."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer, and where it ends; ValueError when it does not."""
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("an integer does not end")


def fields(data: bytes, at: int, end: int, highest: int = 1 << 29) -> list[Field]:
    """The fields of a message up to the first one of a number above ``highest``; ValueError when it is none.

    An API server writes fields in the order of their numbers.
    """
    found: list[Field] = []
    highest = (highest + 1) << 3
    tag = 0
    try:
        while at < end and tag < highest:
            tag = data[at]
            at += 1
            if tag > 0x7F:
                tag, at = varint(data, at - 1)
            wire = tag & 7
            if wire == _BYTES:
                size = data[at]
                at += 1
                if size > 0x7F:
                    more = data[at]
                    at += 1
                    if more > 0x7F:
                        size, at = varint(data, at - 2)
                    else:
                        size += (more << 7) - 0x80
                stop = at + size
                found.append((tag >> 3, at, stop))
                at = stop
            elif wire == _VARINT:
                value = data[at]
                at += 1
                if value > 0x7F:
                    value, at = varint(data, at - 1)
                found.append((tag >> 3, value, -1))
            else:
                at += _WIDTH[wire]
    except (LookupError, ValueError) as error:
        raise ValueError("not protobuf") from error
    if at != end and (at > end or tag < highest):
        raise ValueError("not protobuf: a field ends beyond its message")
    return found


class Shape(Enum):
    """What a field's value is."""

    TEXT = auto()
    INTEGER = auto()
    TRUTH = auto()
    TRUTH_WHEN_SET = auto()  # written when false too, where JSON leaves it out
    TIME = auto()
    MESSAGE = auto()
    INLINE = auto()  # a message whose fields JSON writes into the one that holds it
    TEXTS = auto()
    MESSAGES = auto()
    TEXT_MAP = auto()
    QUANTITY_MAP = auto()


@dataclass(frozen=True, slots=True)
class Entry:
    """Which attribute of a record a field is."""

    attribute: str
    shape: Shape
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A record and the numbers of its fields."""

    record: Callable[..., Any]
    entries: Mapping[int, Entry]

    @property
    def last(self) -> int:
        """The highest number that is used."""
        return max(self.entries)

    def decode(self, data: bytes, start: int, end: int) -> Any:
        """The record that is written there; ValueError when it is none."""
        values: dict[str, Any] = {}
        self._collect(data, start, end, values)
        return self.record(**values)

    def _collect(self, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
        for number, first, last in fields(data, start, end):
            entry = self.entries.get(number)
            if entry is not None:
                if (last < 0) != (entry.shape in _NUMBERS):
                    raise ValueError(f"not protobuf of the kind expected: field {number}")
                _TAKE[entry.shape](entry, data, first, last, values)


_NUMBERS = frozenset({Shape.INTEGER, Shape.TRUTH, Shape.TRUTH_WHEN_SET})
_Take = Callable[[Entry, bytes, int, int, dict[str, Any]], None]


def text(data: bytes, start: int, end: int) -> str:
    """Text as it is written there; ValueError when it is none."""
    return data[start:end].decode()


def seconds_of(data: bytes, start: int, end: int) -> int | None:
    """Unix seconds of a time; None for none."""
    if start < end and data[start] == _SECONDS:
        return signed(varint(data, start + 1)[0])
    return 0 if start < end else None


def moment(data: bytes, start: int, end: int) -> float:
    """A time in Unix seconds, NaN for none."""
    seconds = seconds_of(data, start, end)
    return math.nan if seconds is None else float(seconds)


def time_of(data: bytes, start: int, end: int) -> str | None:
    """A time as JSON writes it."""
    seconds = seconds_of(data, start, end)
    return None if seconds is None else times.render(seconds)


def signed(value: int) -> int:
    """An integer of two's complement."""
    return value - (1 << 64) if value >= _SIGN else value


def pair(data: bytes, start: int, end: int) -> tuple[str, tuple[int, int]]:
    """The key of an entry of a map, and where its value is."""
    key, value = "", (0, 0)
    for number, first, last in fields(data, start, end):
        if number == 1:
            key = text(data, first, last)
        elif number == 2:
            value = first, last
    return key, value


def _text(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    values[entry.attribute] = text(data, start, end)


def _integer(entry: Entry, _: bytes, value: int, __: int, values: dict[str, Any]) -> None:
    values[entry.attribute] = signed(value)


def _truth(entry: Entry, _: bytes, value: int, __: int, values: dict[str, Any]) -> None:
    values[entry.attribute] = bool(value)


def _truth_when_set(entry: Entry, _: bytes, value: int, __: int, values: dict[str, Any]) -> None:
    if value:
        values[entry.attribute] = True


def _time(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    values[entry.attribute] = time_of(data, start, end)


def _message(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    assert entry.message is not None
    values[entry.attribute] = entry.message.decode(data, start, end)


def _inline(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    assert entry.message is not None
    entry.message._collect(data, start, end, values)


def _texts(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    values.setdefault(entry.attribute, []).append(text(data, start, end))


def _messages(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    assert entry.message is not None
    values.setdefault(entry.attribute, []).append(entry.message.decode(data, start, end))


def _text_map(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    key, value = pair(data, start, end)
    values.setdefault(entry.attribute, {})[key] = text(data, *value)


def _quantity_map(entry: Entry, data: bytes, start: int, end: int, values: dict[str, Any]) -> None:
    key, value = pair(data, start, end)
    written = [text(data, first, last) for number, first, last in fields(data, *value) if number == 1]
    values.setdefault(entry.attribute, {})[key] = written[-1] if written else "0"


_TAKE: Mapping[Shape, _Take] = {
    Shape.TEXT: _text,
    Shape.INTEGER: _integer,
    Shape.TRUTH: _truth,
    Shape.TRUTH_WHEN_SET: _truth_when_set,
    Shape.TIME: _time,
    Shape.MESSAGE: _message,
    Shape.INLINE: _inline,
    Shape.TEXTS: _texts,
    Shape.MESSAGES: _messages,
    Shape.TEXT_MAP: _text_map,
    Shape.QUANTITY_MAP: _quantity_map,
}
