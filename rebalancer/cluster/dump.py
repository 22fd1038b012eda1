"""Reads a recorded cluster: what ``kubectl get … -o json`` and ``kubectl get --raw …`` print.

A file or a folder; of one kind a file or mixed in a ``List``; plain, gzip or zstd. Beside the kinds stand
documents: the scheduler's configuration, load-watcher's answer, the state of earlier runs.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import zstandard

from rebalancer.cluster.kinds import BY_NAME, BY_PLURAL, KINDS, Kind
from rebalancer.cluster.listing import Listing, Recording, decode_listing
from rebalancer.cluster.wire import decode_page, header
from rebalancer.errors import InputError

LARGEST_FILE = 4 << 30  # bytes, unpacked: ten times the largest cluster Kubernetes supports
_LARGEST_DOCUMENT = 64 << 20
_MOST_FILES = 1000
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
DOCUMENTS = ("scheduler-config.yaml", "watcher.json", "prometheus.json", "state.json", "recording.json")


def read_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The unpacked content of a file; InputError when it cannot be read, is truncated or too large."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(4)
            raw.seek(0)
            content = _unpacked(raw, magic).read(largest + 1)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        packed = isinstance(error, (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile))
        raise InputError(
            f"cannot unpack: {error}"
            if packed
            else f"cannot read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            hint="the file is truncated or damaged; record it again" if packed else "is the path right?",
        ) from error
    if len(content) > largest:
        raise InputError(
            f"larger than {largest >> 20} MiB unpacked", where=str(path), hint="is this a cluster dump?"
        )
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
        items: dict[str, list[msgspec.Raw]] = {}
        versions: dict[str, str] = {}
        documents: dict[str, bytes] = {}
        warnings: list[str] = []
        for path in self._files():
            name = _plain_name(path)
            if name in DOCUMENTS:
                documents[name] = read_bytes(path, _LARGEST_DOCUMENT)
                continue
            progress(name)
            self._read_file(path, items, versions, warnings)
        if not items:
            raise InputError(
                "no Kubernetes objects here",
                where=str(self._path),
                hint="record a cluster with: rebalancer snapshot save PATH",
            )
        wanted = {kind.plural for kind in kinds}
        listings: dict[str, Listing] = {}
        for plural in sorted(items):
            if plural in wanted:
                listings[plural] = decode_listing(
                    BY_PLURAL[plural], items.pop(plural), resource_version=versions.get(plural, "")
                )
        unread = dict.fromkeys(sorted(wanted - set(listings)), "not in the dump")
        return Recording(str(self._path), listings, unread, documents, tuple(warnings))

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
        if len(found) > _MOST_FILES:
            raise InputError(
                f"more than {_MOST_FILES} files", where=str(path), hint="is this a cluster dump?"
            )
        return found

    def _read_file(
        self,
        path: Path,
        items: dict[str, list[msgspec.Raw]],
        versions: dict[str, str],
        warnings: list[str],
    ) -> None:
        content = read_bytes(path)
        if _plain_name(path).endswith(".yaml"):
            warnings.append(f"{path.name}: not read; of YAML files only scheduler-config.yaml is")
            return
        try:
            page = decode_page(content)
            if not page.is_list:
                raise InputError(
                    f"kind {page.kind[:60]!a} is no list",
                    where=str(path),
                    hint="write it with: kubectl get KIND -A -o json",
                )
            if page.kind == "List":
                self._sort_mixed(path, page.items, items, warnings)
                return
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"not JSON as kubectl writes it: {error}", where=str(path), hint="record it again"
            ) from error
        kind = BY_NAME.get(page.kind.removesuffix("List"))
        if kind is None or (page.api_version and page.api_version != kind.api_version):
            warnings.append(f"{path.name}: {page.api_version} {page.kind[:60]} is not used")
            return
        items.setdefault(kind.plural, []).extend(page.items)
        versions[kind.plural] = page.resource_version

    def _sort_mixed(
        self, path: Path, mixed: list[msgspec.Raw], items: dict[str, list[msgspec.Raw]], warnings: list[str]
    ) -> None:
        """Sort the items of a ``List`` by their own kind; of an empty one the file's name tells the kind."""
        unused: set[str] = set()
        for item in mixed:
            try:
                api_version, name = header(item)
            except (ValueError, RecursionError):
                warnings.append(f"{path.name}: an item that is no Kubernetes object")
                continue
            kind = BY_NAME.get(name)
            if kind is None or api_version != kind.api_version:
                unused.add(f"{api_version} {name}"[:80])
            else:
                items.setdefault(kind.plural, []).append(item)
        warnings.extend(f"{path.name}: {name} is not used" for name in sorted(unused))
        stem = _plain_name(path).removesuffix(".json")
        if not mixed and stem in BY_PLURAL:
            items.setdefault(stem, [])
