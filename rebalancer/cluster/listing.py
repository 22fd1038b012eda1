"""What one LIST brought: typed records, and the objects that could not be read, by name.

Decoding has two stages, so that one malformed object is reported and protected instead of failing the
whole list.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind

# The names the API server admits; anything else in a dump is hostile or broken (and would reach a terminal).
_NAME = re.compile(r"[a-z0-9A-Z]([-a-z0-9A-Z.:_]{0,251}[a-z0-9A-Z])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that could not be read: which, where it runs if it is a pod, and why."""

    kind: str
    namespace: str
    name: str
    node_name: str
    reason: str

    def __str__(self) -> str:
        """One line naming the object and the reason."""
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of one kind: sorted by namespace and name, with the list's own version and time."""

    kind: Kind
    records: tuple[records.Record, ...]
    malformed: tuple[Malformed, ...] = ()
    resource_version: str = ""
    read_at: float = float("nan")  # Unix seconds; NaN in a dump that does not say


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything read from a cluster or a dump, before it becomes columns; what ``snapshot save`` writes."""

    source: str
    listings: Mapping[str, Listing]  # by plural; a kind that was not read is absent
    unread: Mapping[str, str] = field(default_factory=dict)  # plural -> why it was not read
    documents: Mapping[str, bytes] = field(default_factory=dict)  # name -> text beside the kinds
    warnings: tuple[str, ...] = ()

    def records(self, kind: Kind) -> tuple[records.Record, ...]:
        """The records of a kind; empty when it holds nothing or was not read (ask ``has``)."""
        listing = self.listings.get(kind.plural)
        return listing.records if listing else ()

    def has(self, kind: Kind) -> bool:
        """Whether the kind was read at all."""
        return kind.plural in self.listings


@contextmanager
def collector_paused() -> Iterator[None]:
    """Decoding allocates much and frees nothing: collecting meanwhile is wasted work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _LooseMetadata(msgspec.Struct, gc=False):
    name: object = ""
    namespace: object = ""


class _LooseSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: object = ""


class _Loose(msgspec.Struct, gc=False):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    spec: msgspec.Raw = msgspec.Raw(b"{}")


@lru_cache(maxsize=64)
def _decoder(record: type[records.Record]) -> msgspec.json.Decoder[records.Record]:
    return msgspec.json.Decoder(record)


def _text(value: object, fallback: str) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else fallback


def _describe(kind: Kind, item: msgspec.Raw, position: int, reason: str) -> Malformed:
    """Name a malformed object as well as it lets itself be named."""
    metadata, spec = _LooseMetadata(), _LooseSpec()
    try:
        loose = msgspec.json.decode(item, type=_Loose)
        metadata = msgspec.json.decode(loose.metadata, type=_LooseMetadata)
        spec = msgspec.json.decode(loose.spec, type=_LooseSpec)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return Malformed(
        kind.name,
        _text(metadata.namespace, ""),
        _text(metadata.name, f"#{position}"),
        _text(spec.node_name, ""),
        reason,
    )


def _object_key(record: records.Record) -> tuple[str, str]:
    metadata: records.Metadata = record.metadata  # type: ignore[attr-defined]
    return metadata.namespace, metadata.name


def _decode_item(kind: Kind, item: msgspec.Raw) -> records.Record:
    record = _decoder(kind.record).decode(item)
    namespace, name = _object_key(record)
    if not _NAME.fullmatch(name) or (namespace and not _NAME.fullmatch(namespace)):
        raise ValueError(f"metadata.name {name[:60]!a} is not a name Kubernetes admits")
    return record


def decode_listing(
    kind: Kind, items: Iterable[msgspec.Raw], *, resource_version: str = "", read_at: float = float("nan")
) -> Listing:
    """Decode items one by one; sorted by namespace and name, each name once."""
    by_key: dict[tuple[str, str], records.Record] = {}
    malformed: list[Malformed] = []
    with collector_paused():
        for position, item in enumerate(items):
            try:
                record = _decode_item(kind, item)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                malformed.append(_describe(kind, item, position, str(error)))
                continue
            key = _object_key(record)
            if key in by_key:
                malformed.append(_describe(kind, item, position, "listed twice; the first one counts"))
            else:
                by_key[key] = record
    ordered = tuple(by_key[key] for key in sorted(by_key))
    return Listing(kind, ordered, tuple(malformed), resource_version, read_at)
