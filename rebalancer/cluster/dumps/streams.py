"""Files of a dump as they are unpacked: within bounds, and item by item.

A few bytes on disk can unpack to more than memory holds. So a stream counts what it has unpacked, and ends
with an error beyond a multiple of the file's own size, which no real dump reaches, and beyond an absolute
size, which all files of the dump share.

A long list is split into its items meanwhile, so that it is never in memory as a whole. Two layouts are
known by their first bytes: what ``kubectl get … -o json`` prints (items are indented by eight spaces,
nothing within them is) and what ``snapshot save`` writes (an item a line). Anything else is read in one go.
Neither separator can stand inside an item: JSON text holds no raw line breaks.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import zstandard

from rebalancer.errors import InputError

MAX_DUMP_BYTES = 4 << 30  # unpacked: ten times the largest cluster Kubernetes supports
MAX_RATIO = 200  # unpacked to packed; lists of pods reach 40
MAX_SMALL_BYTES = 64 << 20  # what any file may unpack to: small clusters of equal objects pack better
_MAX_LOOSE_BYTES = 256 << 20  # of all files of a dump together, beyond that ratio
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_RAISE_THE_CAP = "if it is the dump you meant, raise --max-dump-size"


class ByteAllowance:
    """How many bytes a dump may still unpack to, over all of its files."""

    def __init__(self, total: int = MAX_DUMP_BYTES) -> None:
        self.total = total
        self._left = total
        self._loose = _MAX_LOOSE_BYTES

    def take(self, count: int, path: Path, loose: int = 0) -> None:
        """Count bytes that were unpacked; InputError when they are more than the dump may have.

        ``loose`` are those of them beyond ``MAX_RATIO`` times the size of their file.
        """
        self._left -= count
        self._loose -= loose
        if self._loose < 0:
            raise _packs_too_well(path)
        if self._left < 0:
            raise InputError(
                f"larger than {_size(self.total)} unpacked", where=str(path), hint=_RAISE_THE_CAP
            )


def _packs_too_well(path: Path) -> InputError:
    return InputError(
        f"unpacks to more than {MAX_RATIO} times its size",
        where=str(path),
        hint="no list of Kubernetes objects packs so well; unpack the file if you trust it",
    )


def _size(count: int) -> str:
    """``4 GiB``, ``1 MiB``, ``1,000 bytes``: in the largest unit that it is a whole number of."""
    units = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
    fitting = (f"{count >> shift:,} {unit}" for shift, unit in units if count and not count % (1 << shift))
    return next(fitting, f"{count:,} bytes")


class BoundedStream:
    """The unpacked bytes of one file; reading beyond a bound is an InputError."""

    def __init__(
        self, path: Path, stream: io.BufferedIOBase, packed_size: int, allowance: ByteAllowance
    ) -> None:
        self._path = path
        self._stream = stream
        self.packed_size = packed_size
        self._allowance = allowance
        self._count = 0

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        block = self._stream.read(size)
        usual = MAX_RATIO * self.packed_size
        before = self._count
        self._count += len(block)
        if self._count > max(MAX_SMALL_BYTES, usual):
            raise _packs_too_well(self._path)
        self._allowance.take(len(block), self._path, max(self._count - max(usual, before), 0))
        return block

    def read_up_to(self, largest: int) -> bytes:
        """Everything up to the end, but at most one byte more than ``largest``."""
        blocks = []
        left = largest + 1
        while left and (block := self.read(min(1 << 20, left))):
            blocks.append(block)
            left -= len(block)
        return b"".join(blocks)


@contextmanager
def unpacked(
    path: Path, allowance: ByteAllowance | None = None, base: bytes = b""
) -> Iterator[BoundedStream]:
    """A file, unpacked as it is read, by ``base`` where it was packed as what differs from that.

    What goes wrong meanwhile becomes an InputError.
    """
    try:
        with path.open("rb") as raw:
            magic = raw.read(4)
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            size += len(base)
            yield BoundedStream(path, _unpacked(raw, magic, base), size, allowance or ByteAllowance())
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        packed = isinstance(error, (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile))
        raise InputError(
            f"cannot unpack: {error}"
            if packed
            else f"cannot read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            hint="the file is truncated or damaged; record it again" if packed else "is the path right?",
        ) from error


def _unpacked(raw: io.BufferedReader, magic: bytes, base: bytes) -> io.BufferedIOBase:
    if magic[:2] == _GZIP:
        return gzip.GzipFile(fileobj=raw)
    if magic == _ZSTD:
        dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        unpacker = zstandard.ZstdDecompressor(dict_data=dictionary if base else None)
        return io.BufferedReader(unpacker.stream_reader(raw, read_across_frames=True))
    return raw


def read_bytes(path: Path, largest: int, allowance: ByteAllowance | None = None, base: bytes = b"") -> bytes:
    """The unpacked content of a file; InputError when it cannot be read, is truncated or too large."""
    with unpacked(path, allowance, base) as stream:
        content = stream.read_up_to(largest)
    if len(content) > largest:
        raise InputError(
            f"larger than {largest >> 20} MiB unpacked", where=str(path), hint="is this a cluster dump?"
        )
    return content


Read = Callable[[int], bytes]
EncodedItem = memoryview

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


class Layout(msgspec.Struct, frozen=True):
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


def split(layout: Layout, first: bytes, read: Read) -> Iterator[EncodedItem]:
    """The items, from the first block and what ``read`` brings; ValueError when the list breaks off.

    An item is a view of a block: it is to be decoded before the next one is asked for.
    """
    between = layout.between
    closing = layout.closing
    opening = len(between) - layout.opening
    left = layout.before
    more = first
    # A separator cannot end within what was searched before, less one byte of its own length: each byte is
    # searched about once, and an item that does not end is refused before it is copied often.
    overlap = len(between) - 1
    searched = 0
    while more:
        block = left + more
        view = memoryview(block)
        start = 0
        for place in _places(block, between, searched):
            yield _checked(view[start : place + closing])
            start = place + opening
        left = block[start:]
        searched = max(len(left) - overlap, 0)
        _checked(left)
        more = read(_BLOCK)
    place = left.rfind(layout.end)
    if place < 0:
        raise ValueError("the list does not end: the file is truncated")
    tail = left[place + len(layout.end) :]
    if layout.head:
        if tail.strip():
            raise ValueError("something follows the list")
    elif msgspec.json.decode(b"{" + tail, type=dict[str, msgspec.Raw]).get("kind") is None:
        raise ValueError("the list does not say its kind")
    yield memoryview(left)[: place + closing]


def _checked(encoded: EncodedItem | bytes) -> EncodedItem:
    """The item; ValueError when it is larger than any object can be."""
    if len(encoded) > MAX_ITEM_BYTES:
        raise ValueError(f"an item is larger than {MAX_ITEM_BYTES >> 20} MiB")
    return memoryview(encoded)


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
