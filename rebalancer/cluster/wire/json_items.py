"""Lists in JSON: their envelope, which kind their items are, and pods, whose specs are decoded once a class.

Most of what is written of a pod repeats what is written of its siblings. So a spec is left encoded, and where
all that the class may depend on is written as it was of a pod before, it is not decoded at all:

    web-1   spec {"containers":[…],"nodeName":"a"}   new: decode the spec; class 0
    web-2   spec {"containers":[…],"nodeName":"b"}   known but for its node: class 0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import records, times
from rebalancer.cluster.malformed import Encoded
from rebalancer.cluster.pod_classes import ClassIndex
from rebalancer.cluster.pods import RUNS, ContainerReport, report_of
from rebalancer.cluster.wire.known_fields import unknown_in_spec


class _ListMetadata(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class _Envelope(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    api_version: str = ""
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: msgspec.Raw = msgspec.Raw(b"")


class _AnyObject(msgspec.Struct, gc=False):
    """An object whose fields do not matter."""


class _Header(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    api_version: str = ""


class Page(msgspec.Struct, frozen=True):
    """A list, or a page of one: its kind as written, its items still encoded."""

    kind: str
    api_version: str
    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str
    is_list: bool


_envelopes = msgspec.json.Decoder(_Envelope)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_objects = msgspec.json.Decoder(list[_AnyObject])
_headers = msgspec.json.Decoder(_Header)
_NULL = b"null"
_ITEMS = b'"items":['
_METADATA = b'"metadata":'
_MAX_HEAD_BYTES = 64 << 10
_MAX_ITEM_BYTES = 16 << 20  # ten times what etcd stores of an object
_MAX_UNCHECKED_BYTES = 4 << 20
_MIN_OBJECT_BYTES = (
    16  # a list with more objects than one in so many bytes is not a list of Kubernetes objects
)


def decode_page(body: bytes) -> Page:
    """Split a list into its items; raises msgspec.DecodeError or ValueError when it is none.

    ``items: null`` is an empty list: Go writes it so. A list without ``items`` is not a list: what it held is
    unknown.
    """
    envelope = _envelopes.decode(body)
    is_list = envelope.kind.endswith("List")
    written = memoryview(envelope.items)
    if is_list and not written:
        raise msgspec.ValidationError("Object missing required field `items`")
    return Page(
        envelope.kind,
        envelope.api_version,
        _split(written) if is_list and written != _NULL else [],
        envelope.metadata.resource_version,
        envelope.metadata.continue_ or "",
        is_list,
    )


def _split(written: memoryview) -> list[msgspec.Raw]:
    """The items of a list; ValueError when they are too many for their size, or one is too large.

    An item costs some seventy bytes of memory whatever its size: a list of ``{}`` would take twenty times its
    own size.
    """
    if len(written) > _MAX_UNCHECKED_BYTES:
        text = bytes(written)
        if text.count(b"{") > len(text) // _MIN_OBJECT_BYTES:
            raise ValueError("holds more objects than its size allows")
        _objects.decode(text)
    items = _items.decode(written)
    if any(len(memoryview(encoded)) > _MAX_ITEM_BYTES for encoded in items):
        raise ValueError(f"an item is larger than {_MAX_ITEM_BYTES >> 20} MiB")
    return items


def decode_head(body: bytes) -> Page:
    """A list as ``decode_page`` reads it, without its items.

    Of built-in kinds a server writes them last: then the rest is not looked at, and may still turn out to be
    no JSON. Of custom resources it writes fields in alphabetical order: kind and metadata after the items.
    """
    place = body.find(_ITEMS, 0, _MAX_HEAD_BYTES)
    if place >= 0 and _METADATA in body[:place]:
        try:
            page = decode_page(body[: place + len(_ITEMS)] + b"]}")
            if page.is_list:
                return page
        except (ValueError, RecursionError):
            pass
    return replace(decode_page(body), items=[])


def header(encoded: Encoded) -> tuple[str, str]:
    """``(apiVersion, kind)`` of one encoded object."""
    head = _headers.decode(encoded)
    return head.api_version, head.kind


_MAX_KNOWN = 1 << 16
_TOKEN = re.compile(rb"kube-api-access-[a-z0-9]{5}", re.ASCII)  # the name of a volume that admission adds
_AFTER_TOKEN = re.compile(rb'",\s*"(?:projected":|readOnly":\s*true)')  # there, and where it is mounted
_NODE_NAME = b'"nodeName"'
_as_written = msgspec.json.Encoder()


def as_written(pod: records.EncodedPod, node_name: str, resize_infeasible: bool) -> bytes:
    """All that the class of a pod on a node may depend on, as it is written: equal bytes, equal classes."""
    metadata = pod.metadata
    status = pod.status
    written = _as_written.encode(
        (
            metadata.namespace,
            metadata.labels,
            metadata.owner_references,
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            resize_infeasible,
        )
    )
    return written + _shared(bytes(pod.spec), node_name)


def _shared(spec: bytes, node_name: str) -> bytes:
    """A spec without its node and the name of its token; whole where it is not plain which text that is."""
    spec = without_token(spec, _is_token_name)
    if not node_name or spec.count(_NODE_NAME) != 1:
        return spec
    before, _, after = spec.partition(_NODE_NAME)
    between, name, after_name = after.partition(node_name.encode() + b'"')
    return before + after_name if name and b"".join(between.split()) == b':"' else spec


def without_token(spec: bytes, is_name: Callable[[bytes, int, int], object]) -> bytes:
    """An encoded spec without the name of the pod's token, which is each pod's own.

    Whole where the same text is anything else in any place, such as in a node selector: ``is_name`` is asked
    of what is written from one place to another.
    """
    match = _TOKEN.search(spec)
    if match is None:
        return spec
    token = match[0]
    begin, end = match.span()
    while begin >= 0:
        if not is_name(spec, begin, end):
            return spec
        begin = spec.find(token, end)
        end = begin + len(token)
    return spec.replace(token, b"")


def _is_token_name(spec: bytes, begin: int, end: int) -> object:
    if spec.endswith((b'"name":"', b'"name": "'), 0, begin) and _AFTER_TOKEN.match(spec, end):
        return True
    return spec.endswith(b'"volumes":[{"name":"', 0, begin) and spec.startswith(b'"}', end)


def _taken_reports(status: records.PodStatus) -> list[ContainerReport]:
    """What the containers of a pod have to report, which is taken out of their statuses.

    So what is left is written as it is of siblings that have nothing to report.
    """
    reports: list[ContainerReport] = []
    for init, statuses in ((False, status.container_statuses), (True, status.init_container_statuses)):
        for reported in statuses or ():
            state = reported.state or RUNS
            last = reported.last_state or RUNS
            report = report_of(reported.name, init, reported.restart_count, state, last)
            if report is not None:
                reports.append(report)
                for field, value in (("restart_count", 0), ("state", RUNS), ("last_state", RUNS)):
                    msgspec.structs.force_setattr(reported, field, value)
    return reports


class _SpecHead(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


_heads = msgspec.json.Decoder(_SpecHead)
_specs = msgspec.json.Decoder(records.PodSpec)
_Decoded = TypeVar("_Decoded")


def _decoded(decoder: msgspec.json.Decoder[_Decoded], spec: msgspec.Raw) -> _Decoded:
    try:
        return decoder.decode(spec)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace(" - at `$", " - at `$.spec")) from error


class PodsInJson:
    """``Encoding`` of pods as records, which JSON is decoded to."""

    def __init__(self, classes: ClassIndex) -> None:
        self._classes = classes
        self._class_by_text: dict[
            bytes, int
        ] = {}  # class by what is written of a pod that has nothing to report
        self.seconds = times.parse_optional

    def node_name(self, pod: records.EncodedPod) -> str:
        """As ``Encoding`` says."""
        return _decoded(_heads, pod.spec).node_name

    def conditions(self, status: records.PodStatus) -> Iterable[records.Condition]:
        """All of them."""
        return status.conditions or ()

    def class_and_reports(
        self, pod: records.EncodedPod, node_name: str, resize_infeasible: bool
    ) -> tuple[int, list[ContainerReport]]:
        """As ``Encoding`` says; one written like a sibling with nothing to report has nothing either."""
        written = as_written(pod, node_name, resize_infeasible)
        number = self._class_by_text.get(written)
        if number is not None:
            return number, []
        reports = _taken_reports(pod.status)
        if reports:
            written = as_written(pod, node_name, resize_infeasible)
            number = self._class_by_text.get(written)
        if number is None:
            spec = _decoded(_specs, pod.spec)
            unknown = unknown_in_spec(pod.spec)
            if unknown:
                spec = msgspec.structs.replace(spec, unknown_field=unknown)
            number = self._classes.number_of(records.Pod(pod.metadata, spec, pod.status))
            if len(self._class_by_text) >= _MAX_KNOWN:  # pods that resemble no other: nothing is gained
                self._class_by_text.clear()
            self._class_by_text[written] = number
        return number, reports

    def ephemeral(self, status: records.PodStatus) -> Sequence[tuple[str, records.ContainerState]]:
        """The names and states of its ephemeral containers."""
        return [
            (reported.name, reported.state or RUNS) for reported in status.ephemeral_container_statuses or ()
        ]

    def time_text(self, time: str | None) -> str | None:
        """The text itself."""
        return time

    def text(self, annotation: str) -> str:
        """The value itself."""
        return annotation
