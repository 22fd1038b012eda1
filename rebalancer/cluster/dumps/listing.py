"""What one LIST brought: typed records or columns, and the objects that could not be read, by name.

Decoding has two stages, so that one malformed object is reported and protected instead of failing the
whole list.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Protocol, cast, overload

import msgspec
import numpy as np
from msgspec.structs import astuple, replace

from rebalancer.cluster import records
from rebalancer.cluster.columns import Columns, ColumnsBuilder
from rebalancer.cluster.kinds import KINDS, METRICS, Kind, KindOf, R
from rebalancer.cluster.malformed import (
    LISTED_TWICE,
    TWO_FIGURES,
    Encoded,
    Malformed,
    admitted,
    check_names,
    describe,
    listed_twice,
)
from rebalancer.cluster.pod_classes import ClassIndex
from rebalancer.cluster.pods import ListedPods, PodFields, listed_pods, read_pod
from rebalancer.cluster.wire.json_items import PodsInJson, decode_page
from rebalancer.cluster.wire.known_fields import is_known_list, unknown_in_template
from rebalancer.cluster.wire.protobuf import Pods, ProtobufPods

_ANNOTATION_DOMAINS = frozenset({"kubernetes.io", "k8s.io", "karpenter.sh", "rebalancer"})
_ANNOTATION_SUBDOMAINS = (".kubernetes.io", ".k8s.io", ".karpenter.sh")
# Of the others: who applies an object and may undo a change, and which restart a pod comes from.
_NAMES_KEPT = frozenset({"argocd.argoproj.io/tracking-id", "kubectl.kubernetes.io/restartedAt"})
# What an annotation of a node says by which the plugin NodeMetadata may score it: a number or a time.
_NUMBER_OR_TIME = re.compile(r"[0-9TZeE+\-.:/ ]{1,40}", re.ASCII)
_MAX_VERSION_LENGTH = 40
NOT_IN_DUMP = "not in the dump"  # why a kind was not read: whoever made the dump left it out
_MAX_SHARED_IMAGES = 1 << 17
_encoder = msgspec.json.Encoder(order="deterministic")
_containers = msgspec.json.Decoder(list[records.ContainerMetrics] | None)


def key_of(record: records.ApiObject) -> tuple[str, str]:
    """Namespace and name."""
    metadata = record.metadata
    return metadata.namespace, metadata.name


@lru_cache(maxsize=4096)
def _is_used(annotation: str) -> bool:
    """Whether an annotation may affect scheduling or eviction.

    The others are forgotten: some are long, and some hold secrets (kubectl's last-applied-configuration
    repeats every environment variable).
    """
    if annotation in _NAMES_KEPT:
        return True
    domain = annotation.partition("/")[0]
    if domain == "kubectl.kubernetes.io":
        return False
    return domain in _ANNOTATION_DOMAINS or domain.endswith(_ANNOTATION_SUBDOMAINS)


def _without_other_annotations(metadata: records.Metadata) -> records.Metadata:
    annotations = metadata.annotations or {}
    if all(map(_is_used, annotations)):
        return metadata
    used_annotations = {name: value for name, value in annotations.items() if _is_used(name)}
    return replace(metadata, annotations=used_annotations or None)


def _without_other_annotations_of_a_node(metadata: records.Metadata) -> records.Metadata:
    used_annotations = {
        name: value
        for name, value in (metadata.annotations or {}).items()
        if _is_used(name) or _NUMBER_OR_TIME.fullmatch(value)
    }
    return replace(metadata, annotations=used_annotations or None)


def _slim(record: records.ApiObject) -> records.ApiObject:
    metadata = record.metadata
    if isinstance(record, records.Node):
        return replace(record, metadata=_without_other_annotations_of_a_node(metadata))
    slim = _without_other_annotations(metadata)
    if slim is not metadata:
        record = replace(record, metadata=slim)
    if isinstance(record, records.Workload) and record.spec.template is not None:
        template = record.spec.template
        slim = _without_other_annotations(template.metadata)
        if slim is not template.metadata:
            template = replace(template, metadata=slim)
            record = replace(record, spec=replace(record.spec, template=template))
    return record


def _rank(record: records.ApiObject) -> tuple[int, bytes]:
    """Of two versions of an object the newer one counts, whichever came first."""
    version = record.metadata.resource_version
    usable = version.isascii() and version.isdigit() and len(version) < _MAX_VERSION_LENGTH
    return int(version) if usable else -1, _encoder.encode(record)


class PodCollector:
    """Collects pods in the order they are read: of a pod listed twice the newest."""

    def __init__(self, classes: ClassIndex | None = None) -> None:
        """``classes`` are those of other pods too."""
        self.classes = classes or ClassIndex()
        self._in_json = PodsInJson(self.classes)
        self._rows = ColumnsBuilder(PodFields)
        self.keep = self._rows.add

    def add(self, pod: records.ApiObject) -> None:
        """Keep what we use of a pod; ValueError when a quantity or time in it is malformed."""
        self.keep(read_pod(pod, self._in_json))

    def add_lines(
        self, lines: Iterable[bytes], fields_by_line: Mapping[bytes, PodFields]
    ) -> dict[bytes, PodFields]:
        """Decode pods, each in its line, but for those of lines that are known; what each line holds.

        ``fields_by_line`` are of the same classes. ValueError where a line is no pod that can be believed.
        """
        decode = _decoder(records.EncodedPod).decode
        fields_of_lines = dict[bytes, PodFields]()
        for line in lines:
            fields = fields_by_line.get(line)
            if fields is None:
                record = decode(line)
                check_names(record.metadata.namespace, record.metadata.name)
                fields = read_pod(record, self._in_json)
            self.keep(fields)
            fields_of_lines[line] = fields
        return fields_of_lines

    def seal(self, kind: Kind) -> tuple[tuple[()], ListedPods, list[Malformed]]:
        """The rows in order of namespace and name, and the older versions of pods listed twice."""
        columns = self._rows.columns()
        keys = list(zip(columns.texts("namespace"), columns.texts("name"), strict=True))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        older = _listed_twice(columns, keys, order)
        malformed = [
            Malformed(kind.name, *keys[row], node_name if admitted(node_name) else "", LISTED_TWICE)
            for row, node_name in older.items()
            if node_name is not None
        ]
        del keys  # before anything is copied
        at = np.array([row for row in order if row not in older] if older else order, np.int64)
        return (), listed_pods(columns.take(at), self.classes), malformed


def _listed_twice(
    columns: Columns[PodFields], keys: list[tuple[str, str]], order: list[int]
) -> dict[int, str | None]:
    """The rows that a newer version replaces, and the node each puts in doubt; None where it is equal."""

    def rank(row: int) -> tuple[int, bool, str]:
        """What makes one version of a pod newer than another, whichever came first."""
        fields = columns.row(row)
        return fields.version, not fields.finished, repr(replace(fields, version=0))

    older: dict[int, str | None] = {}
    newest: dict[tuple[str, str], int] = {}
    for left, right in pairwise(order):
        if keys[left] != keys[right]:
            continue
        low, high = sorted((newest.get(keys[left], left), right), key=rank)
        newest[keys[left]] = high
        replaced = columns.row(low)
        counts = columns.row(high)
        node_name = "" if replaced.finished and counts.finished else replaced.node_name
        older[low] = None if rank(low)[1:] == rank(high)[1:] else node_name
    return older


class RecordCollector:
    """Collects the records of a kind as they come."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, str], records.ApiObject] = {}  # namespace and name
        self._older: list[records.ApiObject] = []
        self._images: dict[tuple[int, tuple[str, ...] | None], records.NodeImage] = {}

    def add(self, record: records.ApiObject) -> None:
        """Keep a record."""
        record = self._slim(record)
        key = key_of(record)
        listed_before = self.by_key.setdefault(key, record)
        if listed_before is record or listed_before == record:
            return
        newer, older = (
            (record, listed_before) if _rank(listed_before) < _rank(record) else (listed_before, record)
        )
        self.by_key[key] = newer
        self._older.append(older)

    def replace(self, record: records.ApiObject) -> None:
        """Keep a record in place of the one of its name."""
        record = self._slim(record)
        self.by_key[key_of(record)] = record

    def latest(self) -> tuple[records.ApiObject, ...]:
        """All records, sorted by namespace and name."""
        return tuple(self.by_key[key] for key in sorted(self.by_key))

    def _slim(self, record: records.ApiObject) -> records.ApiObject:
        record = _slim(record)
        return self._sharing_images(record) if isinstance(record, records.Node) else record

    def _sharing_images(self, node: records.Node) -> records.Node:
        """The same node; an image that other nodes have too is kept once."""
        if len(self._images) > _MAX_SHARED_IMAGES:  # of nodes that have long forgotten them
            self._images.clear()
        images = [
            self._images.setdefault(
                (image.size_bytes, None if image.names is None else tuple(image.names)), image
            )
            for image in node.status.images or ()
        ]
        if not images:
            return node
        return replace(node, status=replace(node.status, images=images))

    def seal(self, kind: Kind) -> tuple[tuple[records.ApiObject, ...], None, list[Malformed]]:
        """All records, sorted by namespace and name; of two figures of one node neither."""
        doubtful = {key_of(record) for record in self._older} if kind in METRICS else ()
        undoubted = tuple(record for record in self.latest() if key_of(record) not in doubtful)
        return undoubted, None, [listed_twice(kind, record) for record in self._older]


Packed = tuple[str, str, str, str, bytes]
"""namespace, name, timestamp, window, containers in JSON"""


class PackedPodMetrics(Sequence[records.PodMetrics]):
    """Usage of pods, sorted by namespace and name; each record is made when it is asked for."""

    def __init__(self, packed: tuple[Packed, ...]) -> None:
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed)

    def digest_parts(self) -> Iterator[bytes]:
        """Everything in which this usage may differ from another, independent of how it was read."""
        yield _encoder.encode([row[:-1] for row in self.packed])
        yield b"\n".join(row[-1] for row in self.packed)

    @overload
    def __getitem__(self, at: int) -> records.PodMetrics: ...
    @overload
    def __getitem__(self, at: slice) -> PackedPodMetrics: ...
    def __getitem__(self, at: int | slice) -> records.PodMetrics | PackedPodMetrics:
        """One record, or some of them."""
        return PackedPodMetrics(self.packed[at]) if isinstance(at, slice) else _unpacked(self.packed[at])

    def __iter__(self) -> Iterator[records.PodMetrics]:
        return map(_unpacked, self.packed)


def _unpacked(packed: Packed) -> records.PodMetrics:
    namespace, name, timestamp, window, containers = packed
    metadata = records.Metadata(name=name, namespace=namespace)
    return records.PodMetrics(metadata, timestamp, window, _containers.decode(containers))


class PodMetricsCollector:
    """Collects usage of pods in the order it is read; none of a pod that has two different figures."""

    def __init__(self) -> None:
        self._packed: list[Packed] = []
        self._texts: dict[str, str] = {}

    def add(self, record: records.ApiObject) -> None:
        """Keep what is used of a record."""
        assert isinstance(record, records.PodMetrics)
        metadata = record.metadata
        once = self._texts.setdefault
        self._packed.append(
            (
                once(metadata.namespace, metadata.namespace),
                metadata.name,
                once(record.timestamp, record.timestamp),
                once(record.window, record.window),
                _encoder.encode(record.containers),
            )
        )

    def seal(self, kind: Kind) -> tuple[PackedPodMetrics, None, list[Malformed]]:
        """All of it, sorted by namespace and name; of two figures of one pod neither."""
        rows = sorted(set(self._packed))
        doubtful = {low[:2] for low, high in pairwise(rows) if low[:2] == high[:2]}
        twice = [Malformed(kind.name, namespace, name, "", TWO_FIGURES) for namespace, name in doubtful]
        return PackedPodMetrics(tuple(row for row in rows if row[:2] not in doubtful)), None, twice


class Listing(msgspec.Struct, frozen=True):
    """All objects of one kind: sorted by namespace and name, with the list's own version and time."""

    kind: Kind
    records: Sequence[records.ApiObject]  # none of pods, which are columns
    malformed: tuple[Malformed, ...] = ()
    resource_version: str = ""
    read_at: float = float("nan")  # Unix seconds; NaN in a dump without that time
    pods: ListedPods | None = None

    def __len__(self) -> int:
        """How many objects there are, without the pods that have finished."""
        return len(self.records) if self.pods is None else self.pods.unfinished


CONFIGURATIONS = ("scheduler-config.yaml", *(f"scheduler-config-{number}.yaml" for number in range(2, 10)))
"""Documents with the configurations of schedulers, in the order in which a policy names these."""


class Recording(msgspec.Struct, frozen=True):
    """Everything read from a cluster or a dump, before it becomes columns; what ``snapshot save`` writes."""

    source: str
    listings: Mapping[str, Listing]  # by plural; a kind that was not read is absent
    unread: Mapping[str, str] = {}  # plural -> why it was not read
    documents: Mapping[str, bytes] = {}  # name -> text beside the kinds
    warnings: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()  # plurals of the unread kinds that we have no right to read

    def with_more(
        self, kind: Kind, more: Iterable[records.ApiObject] = (), malformed: Iterable[Malformed] = ()
    ) -> Recording:
        """The same with more objects of a kind that was read."""
        old = self.listings[kind.plural]
        new = replace(old, records=(*old.records, *more), malformed=(*old.malformed, *malformed))
        return replace(self, listings={**self.listings, kind.plural: new})

    def records(self, kind: KindOf[R]) -> Sequence[R]:
        """The records of a kind; empty when it holds nothing, is columns or was not read (ask ``has``)."""
        listing = self.listings.get(kind.plural)
        return cast("Sequence[R]", listing.records) if listing is not None else ()

    def has(self, kind: Kind) -> bool:
        """Whether the kind was read at all."""
        return kind.plural in self.listings

    def failed(self, kind: Kind) -> bool:
        """Whether the kind should have been read and was not; a dump made without it was not to have it."""
        return not self.has(kind) and self.unread.get(kind.plural) != NOT_IN_DUMP


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


def free_cycles() -> None:
    """Free what a plan leaves that refers to itself, for a process that lives on.

    Python would do so once there are many such objects. These are few, but hold arrays of the whole cluster.
    """
    gc.collect()


class Rows(Protocol):
    """Collects what is used of the objects of a kind."""

    def add(self, record: records.ApiObject, /) -> None:
        """Keep what is used of a record; ValueError when it cannot be believed."""

    def seal(self, kind: Kind, /) -> tuple[Sequence[records.ApiObject], ListedPods | None, list[Malformed]]:
        """What was kept, sorted, each name once; and what does not count of objects listed twice."""


@lru_cache(maxsize=64)
def _decoder(record: type[records.ApiObject]) -> msgspec.json.Decoder[records.ApiObject]:
    return msgspec.json.Decoder(record)


def build_decoders() -> None:
    """Build the decoders of all kinds, before several threads read: msgspec builds types in one only."""
    for kind in KINDS:
        _decoder(kind.record)
        _list_decoder(kind.record)


def decoding_of(kind: Kind) -> Callable[[Encoded], records.ApiObject]:
    """What decodes an item of a kind, or raises ValueError; a template names a field that is not known."""
    decode = _decoder(kind.record).decode

    def workload(encoded: Encoded) -> records.ApiObject:
        record = decode(encoded)
        unknown = unknown_in_template(encoded)
        if unknown and isinstance(record, records.Workload) and record.spec.template is not None:
            msgspec.structs.force_setattr(record.spec.template.spec, "unknown_field", unknown)
        return record

    return workload if kind.record is records.Workload else decode


class _Items(Protocol):
    items: list[records.ApiObject] | None


@lru_cache(maxsize=64)
def _list_decoder(record: type[records.ApiObject]) -> msgspec.json.Decoder[_Items]:
    shape = msgspec.defstruct("Items", [("items", list[record] | None)], gc=False)  # type: ignore[valid-type] # known when it runs
    return msgspec.json.Decoder(shape)


def _rows_for(kind: Kind) -> Rows:
    if kind.record is records.EncodedPod:
        return PodCollector()
    return PodMetricsCollector() if kind.record is records.PodMetrics else RecordCollector()


class ListingBuilder:
    """Collects the objects of a kind as they come: each name once, of an object listed twice the newest."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._decode = decoding_of(kind)
        self.rows = _rows_for(kind)
        self._malformed: list[Malformed] = []
        self._count = 0
        self._protobuf: ProtobufPods | None = None
        self.resource_version = ""

    @property
    def count(self) -> int:
        """How many objects were added so far."""
        return self._count

    @property
    def malformed_count(self) -> int:
        """How many objects could not be read so far."""
        return len(self._malformed)

    def add(self, encoded_or_record: Encoded | records.ApiObject) -> None:
        """Keep an object, decoded or not; one that cannot be believed is named among the malformed."""
        position = self._count
        self._count = self._count + 1
        try:
            record = (
                encoded_or_record
                if isinstance(encoded_or_record, records.ApiObject)
                else self._decode(encoded_or_record)
            )
            check_names(record.metadata.namespace, record.metadata.name)
            self.rows.add(record)
        except (ValueError, RecursionError) as error:
            encoded = (
                msgspec.json.encode(encoded_or_record)
                if isinstance(encoded_or_record, records.ApiObject)
                else encoded_or_record
            )
            self._malformed.append(describe(self.kind, encoded, position, str(error)))

    def add_list(self, body: bytes) -> None:
        """Decode a list, or a page of one, in one go; item by item where one of them cannot be read.

        Raises ValueError when it is not a list.
        """
        try:
            records_of_list = _list_decoder(self.kind.record).decode(body).items
            one_by_one = self.kind.record is records.Workload and not is_known_list(body)
        except (ValueError, RecursionError):
            one_by_one = True
        for encoded in decode_page(body).items if one_by_one else records_of_list or ():
            self.add(encoded)

    def add_protobuf(self, pods: Pods) -> None:
        """Decode a list of pods in protobuf."""
        assert isinstance(self.rows, PodCollector)
        self._protobuf = self._protobuf or ProtobufPods(self.kind, self.rows.classes)
        for pod in pods:
            position = self._count
            self._count = self._count + 1
            fields = self._protobuf.read(pod, position)
            if isinstance(fields, Malformed):
                self._malformed.append(fields)
            else:
                self.rows.keep(fields)

    def listing(self, read_at: float = float("nan")) -> Listing:
        """All objects, sorted by namespace and name."""
        sealed_records, pods, twice = self.rows.seal(self.kind)
        malformed = sorted({*self._malformed, *twice}, key=astuple)
        return Listing(self.kind, sealed_records, tuple(malformed), self.resource_version, read_at, pods)


def decode_listing(kind: Kind, items: Iterable[Encoded]) -> Listing:
    """Decode items one by one; sorted by namespace and name, each name once."""
    builder = ListingBuilder(kind)
    with collector_paused():
        for encoded in items:
            builder.add(encoded)
    return builder.listing()
