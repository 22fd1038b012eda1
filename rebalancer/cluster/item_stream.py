"""Splits a long list into its items while it is being unpacked, so that it is never whole in memory.

Two layouts are known by their first bytes: what ``kubectl get … -o json`` prints (items are indented by
eight spaces, nothing within them is) and what ``snapshot save`` writes (an item a line). Anything else is
read whole.
Neither separator can stand inside an item: JSON text holds no raw line breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

Read = Callable[[int], bytes]

_BLOCK = 4 << 20
_LONGEST_HEAD = 64 << 10
_KUBECTL_HEAD = b'{\n    "apiVersion": "v1",\n    "items": [\n        {\n'
_KUBECTL_BETWEEN = b"\n        },\n        {\n"
_KUBECTL_END = b"\n        }\n    ],"
_LINES_ITEMS = b'"items":[{'
_LINES_BETWEEN = b"},\n{"
_LINES_END = b"}]}"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the items of a list are laid out, and what stands before the first one."""

    head: bytes  # a whole envelope without items; empty where it follows the items
    between: bytes
    end: bytes
    opens: bytes  # what the separator takes from the start of an item
    closes: bytes  # and from its end


def layout_of(first: bytes) -> tuple[Layout, int] | None:
    """The layout of a list by its first block, and where its first item begins; None when not known."""
    if first.startswith(_KUBECTL_HEAD):
        return Layout(b"", _KUBECTL_BETWEEN, _KUBECTL_END, b"{\n", b"\n}"), len(_KUBECTL_HEAD)
    place = first.find(_LINES_ITEMS, 0, _LONGEST_HEAD)
    if place < 0 or b"\n" in first[:place] or _LINES_BETWEEN not in first:
        return None
    head = first[: place + len(_LINES_ITEMS) - 1] + b"]}"
    try:
        msgspec.json.decode(head)
    except (ValueError, RecursionError):
        return None
    return Layout(head, _LINES_BETWEEN, _LINES_END, b"{", b"}"), place + len(_LINES_ITEMS)


def split(layout: Layout, first: bytes, read: Read) -> Iterator[bytes]:
    """The items, from the first block and what ``read`` brings; ValueError when the list breaks off."""
    left = first
    while block := read(_BLOCK):
        pieces = (left + block).split(layout.between)
        left = pieces.pop()
        for piece in pieces:
            yield layout.opens + piece + layout.closes
    *pieces, last = left.split(layout.between)
    for piece in pieces:
        yield layout.opens + piece + layout.closes
    final, found, tail = last.rpartition(layout.end)
    if not found:
        raise ValueError("the list does not end: the file is truncated")
    if layout.head:
        if tail.strip():
            raise ValueError("something follows the list")
    elif msgspec.json.decode(b"{" + tail, type=dict[str, msgspec.Raw]).get("kind") is None:
        raise ValueError("the list does not say its kind")
    yield layout.opens + final + layout.closes
