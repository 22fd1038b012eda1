"""Pods in protobuf, straight into columns.

Most of a pod repeats what was written of its siblings. What is each pod's own (its names, node and times) is
read where it stands; the bytes of all else that matters are looked up, and only where they are new is the pod
decoded as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from rebalancer.cluster import records
from rebalancer.cluster.columns.listed_pods import FINISHED, HONOURED_ANNOTATIONS, PHASE_INDEX, UNKNOWN_PHASE
from rebalancer.cluster.columns.pod_collector import PodFacts, version_number
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import Malformed, admitted, check_names
from rebalancer.cluster.wire.json_items import Page
from rebalancer.cluster.wire.protobuf import MAGIC, fields, moment, pair, text, time_of, varint
from rebalancer.cluster.wire.protobuf_schema import CONTAINER_STATUS, METADATA, POD, STATUS

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAX_CACHED_ARRAYS = 1 << 16
# A volume that admission adds: a name of a fixed length, which is each pod's own.
_TOKEN_NAME = re.compile(rb"\x0a\x15(kube-api-access-[a-z0-9]{5})\x12", re.ASCII)
_ANNOTATIONS = frozenset(name.encode() for name in HONOURED_ANNOTATIONS)
# Numbers of ``protobuf_schema``, and what a condition begins with.
_NODE_NAME = 10
_MAX_BYTE = 0x7F
_CLASS_METADATA = frozenset({11, 13})  # labels, owner references
_CONTAINER_STATUSES = frozenset({8, 10})
_RESIZED = frozenset({10, 11})  # allocated resources, resources
_READY, _TRUE = b"\x0a\x05Ready", b"\x12\x04True"
_RESIZE = b"\x0a\x10PodResizePending"
_LAST_OF_METADATA, _LAST_OF_STATUS = METADATA.last, STATUS.last
_LAST_OF_CONTAINER = CONTAINER_STATUS.last

Part = bytes | int | str


class Rows(Protocol):
    """Where pods are collected."""

    def keep(self, facts: PodFacts, /) -> None:
        """Keep a pod."""

    def class_of(self, pod: records.Pod, /) -> int:
        """The class of a pod; ValueError when it cannot be believed."""

    def forget(self, namespace: str, name: str, version: int, node_name: str, /) -> None:
        """Keep of a finished pod that there is one."""


def decode_head(body: bytes) -> tuple[Page, tuple[int, int]]:
    """A list without its items, and where it stands in an answer; ValueError when it is none."""
    if not body.startswith(MAGIC):
        raise ValueError("not protobuf of an API server")
    kind = api_version = ""
    start = end = 0
    for number, first, last in fields(body, len(MAGIC), len(body)):
        if number == 1:
            told = {key: text(body, *place) for key, *place in fields(body, first, last)}
            api_version, kind = told.get(1, ""), told.get(2, "")
        elif number == 2:
            start, end = first, last
    metadata: dict[int, str] = {}
    if start < end and body[start] == 0x0A:
        size, at = varint(body, start + 1)
        metadata = {
            number: text(body, first, last)
            for number, first, last in fields(body, at, at + size)
            if last >= 0
        }
    page = Page(kind, api_version, [], metadata.get(2, ""), metadata.get(3, ""), kind.endswith("List"))
    return page, (start, end)


def places(body: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the items of a list stand."""
    for number, first, last in fields(body, start, end):
        if number == 2:
            yield first, last


class PodsInProtobuf:
    """Puts the pods of lists into columns."""

    def __init__(self, kind: Kind, rows: Rows) -> None:
        self._kind = kind
        self._rows = rows
        self._classes: dict[tuple[Part, ...], int] = {}

    def add(self, data: bytes, start: int, end: int, position: int) -> Malformed | None:
        """Keep the pod that stands there; what is told of it when it cannot be believed."""
        facts = PodFacts()
        try:
            self._add(data, start, end, facts)
        except (ValueError, LookupError) as error:
            name = facts.name if admitted(facts.name) else f"#{position}"
            namespace, node_name = (
                found if admitted(found) else "" for found in (facts.namespace, facts.node_name)
            )
            return Malformed(self._kind.name, namespace, name, node_name, str(error))
        return None

    def _add(self, data: bytes, start: int, end: int, facts: PodFacts) -> None:
        key: list[Part] = []
        for number, first, last in fields(data, start, end):
            if number in _READ:
                _READ[number](data, first, last, facts, key)
        check_names(facts.namespace, facts.name)
        if facts.phase in FINISHED:
            self._rows.forget(facts.namespace, facts.name, facts.version, facts.node_name)
            return
        key.append(facts.namespace)
        writing = tuple(key)
        found = self._classes.get(writing)
        if found is None:
            found = self._rows.class_of(POD.decode(data, start, end))
            if len(self._classes) >= _MAX_CACHED_ARRAYS:  # pods that resemble no other: nothing is gained
                self._classes.clear()
            self._classes[writing] = found
        facts.pod_class = found
        self._rows.keep(facts)


def _read_metadata(data: bytes, start: int, end: int, facts: PodFacts, key: list[Part]) -> None:
    for number, first, last in fields(data, start, end, _LAST_OF_METADATA):
        if number in _CLASS_METADATA:
            key += number, data[first:last]
        elif number == 1:
            facts.name = text(data, first, last)
        elif number == 3:
            facts.namespace = text(data, first, last)
        elif number == 5:
            facts.uid = text(data, first, last)
        elif number == 6:
            facts.version = version_number(text(data, first, last))
        elif number == 8:
            facts.created = moment(data, first, last)
        elif number == 9:
            facts.deleted = time_of(data, first, last)
        elif number == 12 and data[first + 2 : first + 2 + data[first + 1]] in _ANNOTATIONS:
            name, place = pair(data, first, last)
            facts.annotations = {**facts.annotations, name: text(data, *place)}


def _read_spec(data: bytes, start: int, end: int, facts: PodFacts, key: list[Part]) -> None:
    written = data[start:end]
    before = fields(data, start, end, _NODE_NAME - 1)
    number, first, last = before[-1] if before else (0, 0, 0)
    if number == _NODE_NAME:
        facts.node_name = text(data, first, last)
        header = 2 if last - first <= _MAX_BYTE else 3  # its number and length
        written = data[start : first - header] + data[last:end]
    token = _TOKEN_NAME.search(written)
    key.append(written.replace(token[1], b"") if token else written)


def _read_status(data: bytes, start: int, end: int, facts: PodFacts, key: list[Part]) -> None:
    ready = None
    for number, first, last in fields(data, start, end, _LAST_OF_STATUS):
        if number == 2:
            if ready is None and data.startswith(_READY, first):
                ready = facts.ready = data.startswith(_TRUE, first + len(_READY))
            elif data.startswith(_RESIZE, first):
                key.append(data[first:last])
        elif number in _CONTAINER_STATUSES:
            _read_container(data, first, last, key)
        elif number == 1:
            facts.phase = PHASE_INDEX.get(text(data, first, last), UNKNOWN_PHASE)
        elif number == 7:
            facts.started = moment(data, first, last)
        elif number == 11:
            facts.nominated = text(data, first, last)


def _read_container(data: bytes, start: int, end: int, key: list[Part]) -> None:
    """What an in-place resize may have changed."""
    name = b""
    for number, first, last in fields(data, start, end, _LAST_OF_CONTAINER):
        if number == 1:
            name = data[first:last]
        elif number in _RESIZED:
            key += number, name, data[first:last]


_Read = Callable[[bytes, int, int, PodFacts, list[Part]], None]
_READ: Mapping[int, _Read] = {1: _read_metadata, 2: _read_spec, 3: _read_status}
