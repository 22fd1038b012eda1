"""What one LIST brought: typed records or columns, and the objects that could not be read, by name.

Decoding has two stages, so that one malformed object is reported and protected instead of failing the
whole list.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.columns.record_collector import RecordCollector
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import Encoded, Malformed, check_names, describe
from rebalancer.cluster.metrics import PodMetricsCollector
from rebalancer.cluster.pods import ListedPods, PodCollector
from rebalancer.cluster.wire.json_items import decode_page
from rebalancer.cluster.wire.protobuf_pods import Pods, ProtobufPods


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of one kind: sorted by namespace and name, with the list's own version and time."""

    kind: Kind
    records: Sequence[records.Record]  # none of pods, which are columns
    malformed: tuple[Malformed, ...] = ()
    resource_version: str = ""
    read_at: float = float("nan")  # Unix seconds; NaN in a dump without that time
    pods: ListedPods | None = None

    def __len__(self) -> int:
        return len(self.records if self.pods is None else self.pods)


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything read from a cluster or a dump, before it becomes columns; what ``snapshot save`` writes."""

    source: str
    listings: Mapping[str, Listing]  # by plural; a kind that was not read is absent
    unread: Mapping[str, str] = field(default_factory=dict)  # plural -> why it was not read
    documents: Mapping[str, bytes] = field(default_factory=dict)  # name -> text beside the kinds
    warnings: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()  # plurals of the unread kinds that we have no right to read

    def records(self, kind: Kind) -> Sequence[records.Record]:
        """The records of a kind; empty when it holds nothing, is columns or was not read (ask ``has``)."""
        listing = self.listings.get(kind.plural)
        return listing.records if listing is not None else ()

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


class Rows(Protocol):
    """Collects what is used of the objects of a kind."""

    def add(self, record: records.Record, /) -> None:
        """Keep what is used of a record; ValueError when it cannot be believed."""

    def seal(self, kind: Kind, /) -> tuple[Sequence[records.Record], ListedPods | None, list[Malformed]]:
        """What was kept, sorted, each name once; and the older versions of objects listed twice."""


@lru_cache(maxsize=64)
def _decoder(record: type[records.Record]) -> msgspec.json.Decoder[records.Record]:
    return msgspec.json.Decoder(record)


class _Items(Protocol):
    items: list[records.Record] | None


@lru_cache(maxsize=64)
def _list_decoder(record: type[records.Record]) -> msgspec.json.Decoder[_Items]:
    shape = msgspec.defstruct("Items", [("items", list[record] | None)], gc=False)  # type: ignore[valid-type] # known when it runs
    return msgspec.json.Decoder(shape)


def _rows_for(kind: Kind) -> Rows:
    if kind.record is records.Pod:
        return PodCollector()
    return PodMetricsCollector() if kind.record is records.PodMetrics else RecordCollector()


class ListingBuilder:
    """Collects the objects of a kind as they come: each name once, of an object listed twice the newest."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._decode = _decoder(kind.record).decode
        self.rows = _rows_for(kind)
        self._malformed: list[Malformed] = []
        self._count = 0
        self._protobuf: ProtobufPods | None = None
        self.resource_version = ""

    @property
    def malformed_count(self) -> int:
        """How many objects could not be read so far."""
        return len(self._malformed)

    def add(self, item: Encoded) -> None:
        """Decode one item; what cannot be read is named among the malformed."""
        position, self._count = self._count, self._count + 1
        try:
            self._keep(self._decode(item))
        except (ValueError, RecursionError) as error:
            self._malformed.append(describe(self._kind, item, position, str(error)))

    def add_list(self, body: bytes) -> None:
        """Decode a list, or a page of one, in one go; item by item where one of them cannot be read.

        Raises ValueError when it is not a list.
        """
        try:
            found = _list_decoder(self._kind.record).decode(body).items or ()
        except (ValueError, RecursionError):
            for item in decode_page(body).items:
                self.add(item)
            return
        for record in found:
            self.add_record(record)

    def add_protobuf(self, pods: Pods) -> None:
        """Decode a list of pods in protobuf."""
        assert isinstance(self.rows, PodCollector)
        self._protobuf = self._protobuf or ProtobufPods(self._kind, self.rows)
        for pod in pods:
            position, self._count = self._count, self._count + 1
            malformed = self._protobuf.add(pod, position)
            if malformed is not None:
                self._malformed.append(malformed)

    def add_record(self, record: records.Record) -> None:
        """Keep a record; one that cannot be believed is named among the malformed."""
        position, self._count = self._count, self._count + 1
        try:
            self._keep(record)
        except ValueError as error:
            item = msgspec.json.encode(record)
            self._malformed.append(describe(self._kind, item, position, str(error)))

    def _keep(self, record: records.Record) -> None:
        metadata = records.metadata_of(record)
        check_names(metadata.namespace, metadata.name)
        self.rows.add(record)

    def listing(self, read_at: float = float("nan")) -> Listing:
        """All objects, sorted by namespace and name."""
        found, pods, twice = self.rows.seal(self._kind)
        malformed = sorted({*self._malformed, *twice}, key=dataclasses.astuple)
        return Listing(self._kind, found, tuple(malformed), self.resource_version, read_at, pods)


def decode_listing(
    kind: Kind,
    items: Iterable[Encoded],
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
