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
Item = memoryview

_BLOCK = 256 << 10  # what fits a core's own cache is unpacked, split and decoded there
_MAX_HEAD_BYTES = 64 << 10
_MIN_LINE_BYTES = 64  # with shorter lines on average, line breaks are no shortcut to separators
MAX_ITEM_BYTES = 16 << 20  # ten times what etcd stores of an object
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
    before: bytes  # what of the first item the head has taken
    opening: int  # how much of the separator's end is the start of an item
    closing: int  # how much of its start, and of the list's end, is the end of one


def layout_of(first: bytes) -> tuple[Layout, int] | None:
    """The layout of a list by its first block, and where its first item begins; None when not known."""
    if first.startswith(_KUBECTL_HEAD):
        layout = Layout(b"", _KUBECTL_BETWEEN, _KUBECTL_END, b"{\n", len(b"{\n"), len(b"\n        }"))
        return layout, len(_KUBECTL_HEAD)
    place = first.find(_LINES_ITEMS, 0, _MAX_HEAD_BYTES)
    if place < 0 or b"\n" in first[:place] or _LINES_BETWEEN not in first:
        return None
    head = first[: place + len(_LINES_ITEMS) - 1] + b"]}"
    try:
        msgspec.json.decode(head)
    except (ValueError, RecursionError):
        return None
    return Layout(head, _LINES_BETWEEN, _LINES_END, b"{", len(b"{"), len(b"}")), place + len(_LINES_ITEMS)


def split(layout: Layout, first: bytes, read: Read) -> Iterator[Item]:
    """The items, from the first block and what ``read`` brings; ValueError when the list breaks off.

    An item is a view of a block: it is to be decoded before the next one is asked for.
    """
    between, closing = layout.between, layout.closing
    opening = len(between) - layout.opening
    left = layout.before + first
    # A separator cannot end within what was searched before, less one byte of its own length: each byte is
    # searched about once, and an item that does not end is refused before it is copied often.
    overlap = len(between) - 1
    searched = 0
    while block := read(_BLOCK):
        block = left + block
        view, start = memoryview(block), 0
        for place in _places(block, between, searched):
            yield _item(view[start : place + closing])
            start = place + opening
        left = block[start:]
        searched = max(len(left) - overlap, 0)
        _item(left)
    view, start = memoryview(left), 0
    for place in _places(left, between, searched):
        yield _item(view[start : place + closing])
        start = place + opening
    place = left.rfind(layout.end, start)
    if place < 0:
        raise ValueError("the list does not end: the file is truncated")
    tail = left[place + len(layout.end) :]
    if layout.head:
        if tail.strip():
            raise ValueError("something follows the list")
    elif msgspec.json.decode(b"{" + tail, type=dict[str, msgspec.Raw]).get("kind") is None:
        raise ValueError("the list does not say its kind")
    yield view[start : place + closing]


def _item(item: Item | bytes) -> Item:
    """The item; ValueError when it is larger than any object can be."""
    if len(item) > MAX_ITEM_BYTES:
        raise ValueError(f"an item is larger than {MAX_ITEM_BYTES >> 20} MiB")
    return memoryview(item)


def _places(block: bytes, between: bytes, start: int) -> Iterator[int]:
    """Where the separator stands; a line break in it is looked for alone, which is many times faster."""
    skipped = between.index(b"\n")
    find = block.find
    many = block.count(b"\n", start) * _MIN_LINE_BYTES > len(block) - start
    if skipped == 0 or many:  # pretty-printed: there are more line breaks than separators
        place = find(between, start)
        while place >= 0:
            yield place
            place = find(between, place + len(between))
        return
    place = find(b"\n", start)
    while place >= 0:
        if place >= skipped and block.startswith(between, place - skipped):
            yield place - skipped
        place = find(b"\n", place + 1)
