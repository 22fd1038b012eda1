"""Reads files that may be packed, within bounds: a few bytes on disk can unpack to more than memory holds.

A stream counts what it has unpacked. It ends with an error beyond a multiple of the file's own size, which no
real dump reaches, and beyond an absolute size, which the whole dump shares. Every dump is read through it.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard

from rebalancer.errors import InputError

MAX_DUMP_BYTES = 4 << 30  # unpacked: ten times the largest cluster Kubernetes supports
MAX_RATIO = 200  # unpacked to packed; lists of pods reach 40
MAX_SMALL_BYTES = 64 << 20  # what any file may unpack to: small clusters of equal objects pack better
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_RAISE_THE_CAP = "if it is the dump you meant, raise --max-dump-size"


class ByteAllowance:
    """How many bytes a dump may still unpack to, over all of its files."""

    def __init__(self, total: int = MAX_DUMP_BYTES) -> None:
        self.total = total
        self._left = total

    def take(self, count: int, path: Path) -> None:
        """Count bytes that were unpacked; InputError when they are more than the dump may have."""
        self._left -= count
        if self._left < 0:
            raise InputError(
                f"larger than {self.total >> 20} MiB unpacked", where=str(path), hint=_RAISE_THE_CAP
            )


class BoundedStream:
    """The unpacked bytes of one file; reading beyond a bound is an InputError."""

    def __init__(self, path: Path, stream: io.BufferedIOBase, packed_size: int, whole: ByteAllowance) -> None:
        self._path = path
        self._stream = stream
        self.packed_size = packed_size
        self._whole = whole
        self._count = 0

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        block = self._stream.read(size)
        self._count += len(block)
        if self._count > max(MAX_SMALL_BYTES, MAX_RATIO * self.packed_size):
            raise InputError(
                f"unpacks to more than {MAX_RATIO} times its size",
                where=str(self._path),
                hint="no list of Kubernetes objects packs so well; unpack the file if you trust it",
            )
        self._whole.take(len(block), self._path)
        return block

    def read_up_to(self, largest: int) -> bytes:
        """Everything up to the end, but at most one byte more than ``largest``."""
        blocks, left = [], largest + 1
        while left and (block := self.read(min(1 << 20, left))):
            blocks.append(block)
            left -= len(block)
        return b"".join(blocks)


@contextmanager
def unpacked(path: Path, whole: ByteAllowance | None = None) -> Iterator[BoundedStream]:
    """A file, unpacked as it is read; what goes wrong meanwhile becomes an InputError."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(4)
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            yield BoundedStream(path, _unpacked(raw, magic), size, whole or ByteAllowance())
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        packed = isinstance(error, (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile))
        raise InputError(
            f"cannot unpack: {error}"
            if packed
            else f"cannot read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            hint="the file is truncated or damaged; record it again" if packed else "is the path right?",
        ) from error


def _unpacked(raw: io.BufferedReader, magic: bytes) -> io.BufferedIOBase:
    if magic[:2] == _GZIP:
        return gzip.GzipFile(fileobj=raw)
    if magic == _ZSTD:
        unpacker = zstandard.ZstdDecompressor()
        return io.BufferedReader(unpacker.stream_reader(raw, read_across_frames=True))
    return raw


def read_bytes(path: Path, largest: int, whole: ByteAllowance | None = None) -> bytes:
    """The unpacked content of a file; InputError when it cannot be read, is truncated or too large."""
    with unpacked(path, whole) as stream:
        content = stream.read_up_to(largest)
    if len(content) > largest:
        raise InputError(
            f"larger than {largest >> 20} MiB unpacked", where=str(path), hint="is this a cluster dump?"
        )
    return content
