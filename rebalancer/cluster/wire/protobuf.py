"""Pods in protobuf: lists and events, straight into rows, without a record of each.

Most of what is written of a pod repeats what is written of its siblings. So a pod is decoded only in outline
(``PodOutline`` of ``messages``): its name, node and times become fields, and what the pods of a class share
stays bytes. Only where those bytes are new is all of the pod decoded, and its class built and checked.

    web-1   node a   labels 0x5a…, spec 0x0a…   new: decode the pod; class 0
    web-2   node b   labels 0x5a…, spec 0x0a…   known: class 0

Messages and their fields have the names of the records that JSON is decoded to, and of their attributes, so
one rule converts them all: a field that is present sets the attribute of its name, an absent one keeps the
record's default. The exceptions are times, quantities, and the source of a volume, whose fields JSON writes
into the volume.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import Malformed, admitted, check_names, node_in_doubt
from rebalancer.cluster.pod_classes import ClassIndex
from rebalancer.cluster.pods import RUNS, USUAL_CONDITIONS, ContainerReport, PodFields, read_pod, report_of
from rebalancer.cluster.wire import messages
from rebalancer.cluster.wire.json_items import Page, without_token
from rebalancer.cluster.wire.known_fields import unknown_in_message

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message


_Parsed = TypeVar("_Parsed", bound="Message")


def parse(message: type[_Parsed], data: bytes) -> _Parsed:
    """The message that ``data`` encodes; ValueError when it is none."""
    try:
        return message.FromString(data)
    except messages.DecodeError as error:
        raise ValueError(f"not protobuf: no {message.DESCRIPTOR.name}") from error


_Convert = Callable[[Any, list[str] | None], Any]


def to_record(message: Message, unknown: list[str] | None = None) -> Any:
    """The record of a message's name; ValueError when a time or a text in it cannot be one.

    ``unknown`` gets the fields of the message, and of those in it, that are not known, such as
    ``field 45 of PodSpec``.
    """
    return _record_type(message.DESCRIPTOR)(**_attributes(message, unknown))


def _attributes(message: Message, unknown: list[str] | None) -> dict[str, Any]:
    if unknown is not None:
        unknown += unknown_in_message(message)
    conversions = _conversions(message.DESCRIPTOR)
    attributes: dict[str, Any] = {}
    for field, value in message.ListFields():
        name, convert = conversions[field.number]
        if name == "source":
            attributes.update(_attributes(value, unknown))
        else:
            attributes[name] = convert(value, unknown)
    return attributes


@cache
def _record_type(descriptor: Descriptor) -> type[records.Record]:
    record_type: type[records.Record] = getattr(records, descriptor.name)
    return record_type


@cache
def _conversions(descriptor: Descriptor) -> Mapping[int, tuple[str, _Convert]]:
    """By number of each field of a message: its name, and what turns its value into that of the record."""
    return {field.number: (field.name, _conversion(field)) for field in descriptor.fields}


def _conversion(field: FieldDescriptor) -> _Convert:
    if field.type == field.TYPE_BYTES:
        return lambda value, _: value.decode(errors="replace")
    kind = field.message_type
    if kind is None:
        return (lambda value, _: list(value)) if field.is_repeated else (lambda value, _: value)
    if kind.GetOptions().map_entry:
        each = _conversion(kind.fields_by_name["value"])
        return lambda value, _: {key: each(element, None) for key, element in value.items()}
    convert: _Convert = _CONVERSIONS.get(kind.name, to_record)
    if field.is_repeated:
        return lambda value, unknown: [convert(element, unknown) for element in value]
    return convert


def _time(message: Any, _: object) -> str | None:
    """A time as JSON writes it; None for the zero time of Go, which is written without seconds.

    None for an impossible one as well, which is refused where it counts, by ``ProtobufPods.seconds``.
    """
    try:
        return times.render(message.seconds) if message.HasField("seconds") else None
    except ValueError:
        return None


_CONVERSIONS: dict[str, _Convert] = {
    "Time": _time,
    "Quantity": lambda message, _: message.string if message.HasField("string") else "0",
    "Present": lambda *_: records.Present(),
}


MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"  # before every answer of an API server
Pods = Sequence["messages.PodOutline | bytes"]
"""Pods of a list; the bytes of one that cannot be decoded."""
_MAX_CACHED_CLASSES = 1 << 16
_MAX_CACHED_SPECS = 256  # a list is in order of name, so that the pods of a workload follow each other
_RUNNING = b"\x12"  # how a ContainerState begins that says that the container runs
_USUAL = tuple(  # how such conditions begin
    b"\x0a" + bytes([len(kind)]) + kind.encode() + b"\x12\x04True" for kind in USUAL_CONDITIONS - {"Ready"}
)
# After the name of the token's volume: its source, of the kind ``projected``, with which no text begins.
_PROJECTED = re.compile(rb"\x12[\x80-\xff]?[\x00-\x7f]\xd2\x01")
_READ_ONLY = b"\x10\x01"  # after the same name where it is mounted


# What is each pod's own: times above all, which take as long to write as all else of a pod.
_OWN_METADATA = (
    *("name", "uid", "resource_version", "generation", "creation_timestamp", "deletion_timestamp"),
    *("deletion_grace_period_seconds", "annotations"),
)
_OWN_STATUS = ("phase", "reason", "start_time", "nominated_node_name")
_OWN_OF_CONTAINER = ("state", "last_state", "ready", "restart_count")


def decode_answer(body: bytes) -> tuple[Page, Pods]:
    """A LIST of pods as an API server answers it: its head, and its pods.

    Raises ValueError when it is none. A pod that cannot be decoded stays encoded: the others count.
    """
    if not body.startswith(MAGIC):
        raise ValueError("not protobuf of an API server")
    encoded = body[len(MAGIC) :]
    answer: messages.Answer | messages.AnswerOfEncodedPods
    pods: Pods
    try:
        answer = parse(messages.Answer, encoded)
        pods = answer.raw.items
    except ValueError:
        answer = parse(messages.AnswerOfEncodedPods, encoded)
        pods = [outline_if_any(raw_pod) for raw_pod in answer.raw.items]
    kind = answer.type_meta.kind
    metadata = answer.raw.metadata
    version = metadata.resource_version
    token = metadata.continue_token
    return Page(kind, answer.type_meta.api_version, [], version, token, kind.endswith("List")), pods


def outline_if_any(encoded: bytes) -> messages.PodOutline | bytes:
    """A pod in outline; its bytes where they are none."""
    try:
        return parse(messages.PodOutline, encoded)
    except ValueError:
        return encoded


class ProtobufPods:
    """Reads the pods of lists and events: ``Encoding`` of pods in outline."""

    def __init__(self, kind: Kind, classes: ClassIndex) -> None:
        self._kind = kind
        self._numbers = classes
        self._classes: dict[tuple[object, ...], int] = {}
        self._specs: dict[bytes, records.PodSpec] = {}

    def read(self, pod: messages.PodOutline | bytes, position: int) -> PodFields | Malformed:
        """The row of a pod, or the pod as malformed, identified as far as possible."""
        if isinstance(pod, bytes):
            try:
                identity = parse(messages.PodIdentity, pod)
            except ValueError:
                identity = messages.PodIdentity()
            return self._malformed(identity, identity.spec.node_name, position, "not protobuf: no Pod")
        try:
            check_names(pod.metadata.namespace, pod.metadata.name)
            return read_pod(pod, self)
        except ValueError as error:
            node_name = node_in_doubt(pod.status.phase, pod.spec.node_name)
            return self._malformed(pod, node_name, position, str(error))

    def _malformed(
        self,
        pod: messages.PodOutline | messages.PodIdentity,
        node_name: str,
        position: int,
        reason: str,
    ) -> Malformed:
        namespace, name, node_name = (
            text if admitted(text) else "" for text in (pod.metadata.namespace, pod.metadata.name, node_name)
        )
        return Malformed(self._kind.name, namespace, name or f"#{position}", node_name, reason)

    def conditions(self, status: messages.StatusOutline) -> list[messages.Condition]:
        """Those that are not as usual, and the one that says whether the pod is ready."""
        kind = messages.Condition
        return [parse(kind, encoded) for encoded in status.conditions[:] if not encoded.startswith(_USUAL)]

    def node_name(self, pod: messages.PodOutline) -> str:
        """As ``Encoding`` says."""
        name: str = pod.spec.node_name
        return name

    def class_and_reports(
        self, pod: messages.PodOutline, node_name: str, resize_infeasible: bool
    ) -> tuple[int, list[ContainerReport]]:
        """The class by what the siblings of a pod have too, and what its containers alone have to report.

        A slice of what is repeated costs half of what a loop over it, or a tuple of it, does.
        """
        metadata = pod.metadata
        spec = pod.spec
        status = pod.status
        spec.node_name = ""
        written = spec.SerializeToString()  # the bytes of all other fields, as they came
        spec.node_name = node_name
        resized: list[object] = []
        reports: list[ContainerReport] = []
        for init, statuses in ((False, status.container_statuses), (True, status.init_container_statuses)):
            for reported in statuses[:]:
                allocated = reported.allocated_resources
                resources = reported.resources
                if allocated or resources:
                    resized.append((reported.name, tuple(allocated[:]), tuple(resources[:])))
                restarts = reported.restart_count
                state = reported.state
                last = reported.last_state
                if restarts or last or not state.startswith(_RUNNING):
                    report = report_of(reported.name, init, restarts, self._state(state), self._state(last))
                    reports += [report] if report else []
        shared_spec = without_token(written, _is_token_name)
        key = (
            metadata.namespace,
            tuple(metadata.labels[:]),
            tuple(metadata.owner_references[:]),
            shared_spec,
            resize_infeasible,
            tuple(status.allocated_resources[:]),
            tuple(status.resources[:]),
            *resized,
        )
        number = self._classes.get(key)
        if number is None:
            number = self._numbers.number_of(self._of_class(pod, shared_spec, resize_infeasible))
            if len(self._classes) >= _MAX_CACHED_CLASSES:  # pods that resemble no other: nothing is gained
                self._classes.clear()
            self._classes[key] = number
        return number, reports

    def _of_class(self, pod: messages.PodOutline, shared_spec: bytes, resize_infeasible: bool) -> records.Pod:
        """All of a pod that its class is made of; what else is read of it has its row."""
        metadata = parse(messages.Metadata, pod.metadata.SerializeToString())
        status = parse(messages.PodStatus, pod.status.SerializeToString())
        own: list[tuple[Message, tuple[str, ...]]] = [
            (metadata, _OWN_METADATA),
            (status, _OWN_STATUS if resize_infeasible else (*_OWN_STATUS, "conditions")),
            *((reported, _OWN_OF_CONTAINER) for reported in status.container_statuses),
            *((reported, _OWN_OF_CONTAINER) for reported in status.init_container_statuses),
        ]
        for part, fields in own:
            for field in fields:
                part.ClearField(field)
        return records.Pod(to_record(metadata), self._spec(pod.spec, shared_spec), to_record(status))

    def _spec(self, outline: messages.SpecOutline, shared_spec: bytes) -> records.PodSpec:
        """The spec of a pod; its node and the name of its token may be those of a sibling.

        A workload has more classes than specs: since Kubernetes 1.35 its pods have the labels of their zones.
        """
        spec = self._specs.get(shared_spec)
        if spec is None:
            unknown: list[str] = []
            spec = to_record(parse(messages.PodSpec, outline.SerializeToString()), unknown)
            if unknown:
                msgspec.structs.force_setattr(spec, "unknown_field", unknown[0])
            if len(self._specs) >= _MAX_CACHED_SPECS:
                self._specs.clear()
            self._specs[shared_spec] = spec
        return spec

    def _state(self, state: bytes) -> records.ContainerState:
        """The state of a container, which is decoded only where it does not begin by saying that it runs."""
        if not state or state.startswith(_RUNNING):
            return RUNS
        record: records.ContainerState = to_record(parse(messages.ContainerState, state))
        return record

    def seconds(self, time: messages.Time) -> float:
        """Unix seconds of a time, NaN for none; ValueError for one that JSON could not hold."""
        return times.checked(time.seconds) if time.HasField("seconds") else math.nan

    def ephemeral(self, status: messages.StatusOutline) -> Sequence[tuple[str, records.ContainerState]]:
        """The names and states of its ephemeral containers."""
        return [
            (reported.name, self._state(reported.state))
            for reported in status.ephemeral_container_statuses[:]
        ]

    def time_text(self, time: messages.Time) -> str | None:
        """A time as JSON writes it; None for none."""
        return times.render(time.seconds) if time.HasField("seconds") else None

    def text(self, annotation: bytes) -> str:
        """The value of an annotation, which the API server accepts even where it is no text."""
        return annotation.decode(errors="replace")


def _is_token_name(spec: bytes, begin: int, end: int) -> object:
    if not spec.endswith(b"\x0a\x15", 0, begin):  # field 1, of that length
        return False
    return spec.startswith(_READ_ONLY, end) or _PROJECTED.match(spec, end)


MAX_ITEM_BYTES = 16 << 20  # ten times what etcd stores of an object
_MAX_HEAD_BYTES = 64 << 10
_FIRST = 0x0A  # the tags of fields 1 and 2, both with a length before their bytes
_SECOND = 0x12
_MAX_VARINT_BYTES = 10


class PodListSplitter:
    """Takes a list piece by piece and gives the pods that are complete; ValueError for what is no such list.

    A LIST without pages is as large as the cluster, but every length is known before what it measures:

        6b 38 73 00                    the mark of an API server
        0a <length> type               what the list is of
        12 <length>                    the list:
           0a <length> metadata           its version, before all items
           12 <length> pod                a pod, and another one, …
        1a 00 22 00                    after the list: nothing that counts

    A list that breaks off is known by its own length, whatever the transport says.
    """

    def __init__(self) -> None:
        self.head: Page | None = None
        self._waiting: list[bytes] = []  # pieces of a pod that is not whole, joined when it is
        self._held = 0  # bytes of them
        self._needed = 0  # bytes of the whole, where they are known
        self._ahead = 0  # bytes of the list that have not been given out yet

    def pods(self, piece: bytes) -> Pods:
        """The pods that this piece completes."""
        self._waiting.append(piece)
        self._held += len(piece)
        if self._held < self._needed:
            return []
        data = b"".join(self._waiting)
        at = 0
        if self.head is None:
            begun = self._begin(data)
            if begun is None:
                if len(data) > _MAX_HEAD_BYTES:
                    raise ValueError("a list in protobuf that does not begin")
                self._waiting = [data]
                return []
            at = begun
        first = at
        end = at + self._ahead
        self._needed = 0
        while at < end:
            field = _field(data, at, _SECOND)
            if field is None:
                break
            at_item, length = field
            if length > MAX_ITEM_BYTES or at_item + length > end:
                raise ValueError(f"a pod of {length} bytes in a list in protobuf")
            if at_item + length > len(data):
                self._needed = at_item + length - at
                break
            at = at_item + length
        self._ahead -= at - first
        self._waiting = [data[at:]] if self._ahead else []
        self._held = sum(map(len, self._waiting))
        return _decoded(data[first:at]) if at > first else []

    def finish(self) -> None:
        """ValueError where the list has broken off."""
        if self.head is None or self._ahead:
            raise ValueError("a list in protobuf that broke off")

    def _begin(self, data: bytes) -> int | None:
        """Read what stands before the pods; where they begin, or None where more is needed to know."""
        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise ValueError("not protobuf of an API server")
        about = _field(data, len(MAGIC), _FIRST)
        held = _field(data, sum(about), _SECOND) if about else None
        metadata = _field(data, held[0], _FIRST) if held else None
        if about is None or held is None or metadata is None or len(data) < sum(metadata):
            return None
        kind = parse(messages.TypeMeta, data[about[0] : sum(about)])
        listed = parse(messages.ListMeta, data[metadata[0] : sum(metadata)])
        self.head = Page(
            kind.kind, kind.api_version, [], listed.resource_version, listed.continue_token, is_list=True
        )
        self._ahead = sum(held) - sum(metadata)
        if self._ahead < 0:
            raise ValueError("a list in protobuf shorter than its metadata")
        return sum(metadata)


def _field(data: bytes, at: int, tag: int) -> tuple[int, int] | None:
    """Where the bytes of a field begin, and how many there are; None where more is needed to know.

    Raises ValueError for another field.
    """
    if at >= len(data):
        return None
    if data[at] != tag:
        raise ValueError(f"a list in protobuf with the field {data[at]:#x}")
    length = shift = 0
    for place in range(at + 1, at + 1 + _MAX_VARINT_BYTES):
        if place >= len(data):
            return None
        byte = data[place]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return place + 1, length
        shift += 7
    raise ValueError("a list in protobuf with a length that does not end")


def _decoded(items: bytes) -> Pods:
    try:
        pods: Pods = parse(messages.PodList, items).items
        return pods
    except ValueError:
        return [outline_if_any(encoded) for encoded in parse(messages.EncodedPodList, items).items]
