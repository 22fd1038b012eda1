"""What one LIST brought: typed records, and the objects that could not be read, by name.

Decoding has two stages, so that one malformed object is reported and protected instead of failing the
whole list.
"""

from __future__ import annotations

import dataclasses
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind

# The names the API server admits; anything else in a dump is hostile or broken (and would reach a terminal).
_NAME = re.compile(r"[a-z0-9A-Z]([-a-z0-9A-Z.:_]{0,251}[a-z0-9A-Z])?", re.ASCII)
_POSITION = re.compile(r"#\d{1,9}", re.ASCII)  # stands for the name of an object that has none
_LONGEST_REASON = 1000
_ANNOTATION_DOMAINS = frozenset({"kubernetes.io", "k8s.io", "karpenter.sh"})
_ANNOTATION_SUBDOMAINS = (".kubernetes.io", ".k8s.io", ".karpenter.sh")
_encoder = msgspec.json.Encoder(order="deterministic")


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
    malformed: object = ""  # the reason, in what ``saving`` writes of an object that was malformed before


_Shape = TypeVar("_Shape", bound=msgspec.Struct)


@lru_cache(maxsize=64)
def _decoder(record: type[records.Record]) -> msgspec.json.Decoder[records.Record]:
    return msgspec.json.Decoder(record)


def _as_far_as_it_goes(item: msgspec.Raw | bytes, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(item, type=shape)
    except (ValueError, RecursionError):
        return shape()


def _describe(kind: Kind, item: msgspec.Raw | bytes, position: int, reason: str) -> Malformed:
    """Name a malformed object as well as it lets itself be named."""
    loose = _as_far_as_it_goes(item, _Loose)
    metadata = _as_far_as_it_goes(loose.metadata, _LooseMetadata)
    spec = _as_far_as_it_goes(loose.spec, _LooseSpec)
    name = _text(metadata.name, f"#{position}")
    if isinstance(loose.malformed, str) and 0 < len(loose.malformed) <= _LONGEST_REASON:
        reason = loose.malformed
        if isinstance(metadata.name, str) and _POSITION.fullmatch(metadata.name):
            name = metadata.name
    return Malformed(kind.name, _text(metadata.namespace, ""), name, _text(spec.node_name, ""), reason)


def _text(value: object, fallback: str) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else fallback


def _metadata(record: records.Record) -> records.Metadata:
    metadata: records.Metadata = record.metadata  # type: ignore[attr-defined]
    return metadata


def _object_key(record: records.Record) -> tuple[str, str]:
    metadata = _metadata(record)
    return metadata.namespace, metadata.name


@lru_cache(maxsize=4096)
def _kept(annotation: str) -> bool:
    """Whether an annotation may bear on scheduling or eviction.

    The others are forgotten: some are long, and some hold secrets (kubectl's last-applied-configuration
    repeats every environment variable).
    """
    domain = annotation.partition("/")[0]
    if domain == "kubectl.kubernetes.io":
        return False
    return domain in _ANNOTATION_DOMAINS or domain.endswith(_ANNOTATION_SUBDOMAINS)


def _without_other_annotations(metadata: records.Metadata) -> records.Metadata:
    annotations = metadata.annotations or {}
    if all(map(_kept, annotations)):
        return metadata
    kept = {name: value for name, value in annotations.items() if _kept(name)}
    return msgspec.structs.replace(metadata, annotations=kept or None)


def _slim(record: records.Record) -> records.Record:
    metadata = _metadata(record)
    slim = _without_other_annotations(metadata)
    if slim is not metadata:
        record = msgspec.structs.replace(record, metadata=slim)
    if isinstance(record, records.Workload) and record.spec.template is not None:
        template = record.spec.template
        slim = _without_other_annotations(template.metadata)
        if slim is not template.metadata:
            template = msgspec.structs.replace(template, metadata=slim)
            record = msgspec.structs.replace(
                record, spec=msgspec.structs.replace(record.spec, template=template)
            )
    return record


def _decode_item(kind: Kind, item: msgspec.Raw | bytes) -> records.Record:
    record = _decoder(kind.record).decode(item)
    namespace, name = _object_key(record)
    if not _NAME.fullmatch(name) or (namespace and not _NAME.fullmatch(namespace)):
        raise ValueError(f"metadata.name {name[:60]!a} is not a name Kubernetes admits")
    return _slim(record)


def _rank(record: records.Record) -> tuple[int, bytes]:
    """Of two versions of an object the newer one counts, whichever came first."""
    version = _metadata(record).resource_version
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 40 else -1
    return number, _encoder.encode(record)


class ListingBuilder:
    """Collects the records of a kind as they come: each name once, of an object listed twice the newest."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._by_key: dict[tuple[str, str], records.Record] = {}
        self._malformed: list[Malformed] = []
        self._count = 0
        self.resource_version = ""

    def add(self, item: msgspec.Raw | bytes) -> None:
        """Decode one item; what cannot be read is named among the malformed."""
        position, self._count = self._count, self._count + 1
        try:
            record = _decode_item(self._kind, item)
        except (ValueError, RecursionError) as error:
            self._malformed.append(_describe(self._kind, item, position, str(error)))
            return
        key = _object_key(record)
        found = self._by_key.setdefault(key, record)
        if found is record or found == record:
            return
        newer, older = (record, found) if _rank(found) < _rank(record) else (found, record)
        self._by_key[key] = newer
        encoded = msgspec.Raw(_encoder.encode(older))
        self._malformed.append(
            _describe(self._kind, encoded, position, "listed twice; the newest one counts")
        )

    def listing(self, read_at: float = float("nan")) -> Listing:
        """All records, sorted by namespace and name."""
        ordered = tuple(self._by_key[key] for key in sorted(self._by_key))
        malformed = sorted(set(self._malformed), key=dataclasses.astuple)
        return Listing(self._kind, ordered, tuple(malformed), self.resource_version, read_at)


def decode_listing(
    kind: Kind,
    items: Iterable[msgspec.Raw | bytes],
    *,
    resource_version: str = "",
    read_at: float = float("nan"),
) -> Listing:
    """Decode items one by one; sorted by namespace and name, each name once."""
    builder = ListingBuilder(kind)
    builder.resource_version = resource_version
    with collector_paused():
        for item in items:
            builder.add(item)
    return builder.listing(read_at)
