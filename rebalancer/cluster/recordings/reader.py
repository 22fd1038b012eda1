"""Reads a recorded cluster: what ``kubectl get … -o json`` and ``kubectl get --raw …`` print.

A file or a folder; of one kind a file or mixed in a ``List``; plain, gzip or zstd. Beside the kinds stand
documents: the scheduler's configuration, load-watcher's answer, the state of earlier runs.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from rebalancer.cluster.kinds import BY_NAME, BY_PLURAL, KINDS, Kind
from rebalancer.cluster.malformed import Encoded
from rebalancer.cluster.recordings.listing import ListingBuilder, Recording, collector_paused
from rebalancer.cluster.wire.item_stream import Layout, layout_of, split
from rebalancer.cluster.wire.json_items import Page, decode_page, header
from rebalancer.errors import InputError

MAX_FILE_BYTES = 4 << 30  # bytes, unpacked: ten times the largest cluster Kubernetes supports
_MAX_DOCUMENT_BYTES = 64 << 20
_MAX_FILES = 1000
_FIRST_BLOCK = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
DOCUMENTS = ("scheduler-config.yaml", "watcher.json", "prometheus.json", "state.json", "recording.json")


def _too_large(path: Path, largest: int) -> InputError:
    return InputError(
        f"larger than {largest >> 20} MiB unpacked", where=str(path), hint="is this a cluster dump?"
    )


@contextmanager
def unpacked(path: Path) -> Iterator[io.BufferedIOBase]:
    """A file, unpacked as it is read; what goes wrong meanwhile becomes an InputError."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(4)
            raw.seek(0)
            yield _unpacked(raw, magic)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        packed = isinstance(error, (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile))
        raise InputError(
            f"cannot unpack: {error}"
            if packed
            else f"cannot read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            hint="the file is truncated or damaged; record it again" if packed else "is the path right?",
        ) from error


def read_bytes(path: Path, largest: int = MAX_FILE_BYTES) -> bytes:
    """The unpacked content of a file; InputError when it cannot be read, is truncated or too large."""
    with unpacked(path) as stream:
        content = stream.read(largest + 1)
    if len(content) > largest:
        raise _too_large(path, largest)
    return content


def _unpacked(raw: io.BufferedReader, magic: bytes) -> io.BufferedIOBase:
    if magic[:2] == _GZIP:
        return gzip.GzipFile(fileobj=raw)
    if magic == _ZSTD:
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    return raw


def _plain_name(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".zst"):
        name = name.removesuffix(suffix)
    return name


class DumpReader:
    """Reads a file or folder as if it were the cluster it was recorded from."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(
        self, kinds: Iterable[Kind] = KINDS, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Read the kinds the dump holds; those it does not hold are unread, not empty.

        Raises InputError when the path holds no list of Kubernetes objects at all.
        """
        collected = _Collected()
        with collector_paused():
            for path in self._files():
                name = _plain_name(path)
                if name in DOCUMENTS:
                    collected.documents[name] = read_bytes(path, _MAX_DOCUMENT_BYTES)
                elif name.endswith(".yaml"):
                    collected.warnings.append(
                        f"{path.name}: not read; of YAML files only scheduler-config.yaml is"
                    )
                else:
                    progress(name)
                    _read_list(path, collected)
        if not collected.builders:
            raise InputError(
                "no Kubernetes objects here",
                where=str(self._path),
                hint="record a cluster with: rebalancer snapshot save PATH",
            )
        kinds = tuple(kinds)
        wanted = {kind.plural for kind in kinds}
        listings = {
            plural: collected.builders[plural].listing()
            for plural in sorted(wanted & set(collected.builders))
        }
        missing = sorted(kind.plural for kind in kinds if kind.plural not in listings and not kind.optional)
        unread = dict.fromkeys(missing, "not in the dump")
        return Recording(str(self._path), listings, unread, collected.documents, tuple(collected.warnings))

    def _files(self) -> list[Path]:
        path = self._path
        try:
            if path.is_file():
                return [path]
            if not path.is_dir():
                what = "neither a file nor a folder" if path.exists() else "no such file or folder"
                raise InputError(what, where=str(path), hint="give a dump to --from")
            found = sorted(
                entry
                for entry in path.iterdir()
                if entry.is_file()
                and not entry.name.startswith(".")
                and _plain_name(entry).endswith((".json", ".yaml"))
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot read: {reason}", where=str(path), hint="give a dump to --from"
            ) from error
        if len(found) > _MAX_FILES:
            raise InputError(f"more than {_MAX_FILES} files", where=str(path), hint="is this a cluster dump?")
        return found


@dataclass(slots=True)
class _Collected:
    """What the files of a dump held so far."""

    builders: dict[str, ListingBuilder] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def builder(self, kind: Kind) -> ListingBuilder:
        """The builder of a kind; from now on the kind counts as read."""
        return self.builders.setdefault(kind.plural, ListingBuilder(kind))


def _read_list(path: Path, collected: _Collected) -> None:
    """Read one file: item by item where its layout is known, else whole."""
    try:
        with unpacked(path) as stream:
            first = stream.read(_FIRST_BLOCK)
            known = layout_of(first)
            if known is None:
                _take_page(path, decode_page(_rest(path, first, stream)), collected)
            else:
                layout, start = known
                read = _bounded(path, stream, len(first))
                _take_items(path, layout, split(layout, first[start:], read), collected)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not JSON as kubectl writes it: {error}", where=str(path), hint="record it again"
        ) from error


def _bounded(path: Path, stream: io.BufferedIOBase, so_far: int) -> Callable[[int], bytes]:
    total = so_far

    def read(size: int) -> bytes:
        nonlocal total
        block = stream.read(size)
        total += len(block)
        if total > MAX_FILE_BYTES:
            raise _too_large(path, MAX_FILE_BYTES)
        return block

    return read


def _rest(path: Path, first: bytes, stream: io.BufferedIOBase) -> bytes:
    content = first + stream.read(MAX_FILE_BYTES + 1 - len(first))
    if len(content) > MAX_FILE_BYTES:
        raise _too_large(path, MAX_FILE_BYTES)
    return content


def _take_items(path: Path, layout: Layout, items: Iterator[memoryview], collected: _Collected) -> None:
    if not layout.head:
        _sort_mixed(path, items, collected)
        return
    page = decode_page(layout.head)
    kind = _kind_of(path, page, collected)
    if kind is None:
        for _ in items:  # to its end, so that a truncated file is found out
            continue
        return
    builder = collected.builder(kind)
    builder.resource_version = page.resource_version
    for item in items:
        builder.add(item)


def _take_page(path: Path, page: Page, collected: _Collected) -> None:
    if not page.is_list:
        raise InputError(
            f"kind {page.kind[:60]!a} is no list",
            where=str(path),
            hint="write it with: kubectl get KIND -A -o json",
        )
    if page.kind == "List":
        _sort_mixed(path, page.items, collected)
        stem = _plain_name(path).removesuffix(".json")
        if not page.items and stem in BY_PLURAL:
            collected.builder(BY_PLURAL[stem])  # the kind of an empty list is its file's name
        return
    kind = _kind_of(path, page, collected)
    if kind is not None:
        builder = collected.builder(kind)
        builder.resource_version = page.resource_version
        for item in page.items:
            builder.add(item)


def _kind_of(path: Path, page: Page, collected: _Collected) -> Kind | None:
    """The kind of a typed list; None, with a warning, when it is not used."""
    kind = BY_NAME.get(page.kind.removesuffix("List"))
    if kind is None or (page.api_version and page.api_version != kind.api_version):
        collected.warnings.append(f"{path.name}: {page.api_version} {page.kind[:60]} is not used")
        return None
    return kind


def _sort_mixed(path: Path, mixed: Iterable[Encoded], collected: _Collected) -> None:
    """Sort the items of a ``List`` by their own kind."""
    unused: set[str] = set()
    for item in mixed:
        try:
            api_version, name = header(item)
        except (ValueError, RecursionError):
            collected.warnings.append(f"{path.name}: an item that is no Kubernetes object")
            continue
        kind = BY_NAME.get(name)
        if kind is None or api_version != kind.api_version:
            unused.add(f"{api_version} {name}"[:80])
        else:
            collected.builder(kind).add(item)
    collected.warnings.extend(f"{path.name}: {name} is not used" for name in sorted(unused))
