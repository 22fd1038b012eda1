"""Pods as they are read: the fields in use go into columns at once, and the record is dropped."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Protocol

import msgspec
import numpy as np

from rebalancer.cluster import records, times
from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.columns.listed_pods import (
    FINISHED,
    HONOURED_ANNOTATIONS,
    NO_ANNOTATIONS,
    PHASE_INDEX,
    UNKNOWN_PHASE,
    ListedPods,
)
from rebalancer.cluster.columns.pod_classes import ClassIndex
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import LISTED_TWICE, Malformed, admitted

_MAX_VERSION_LENGTH = 18  # digits that fit an int64


class PodFields(msgspec.Struct, gc=False):
    """The fields of a pod that are not its class's."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    version: int = -1  # to tell which is newer, should the pod be listed twice
    node_name: str = ""
    pod_class: int = -1
    phase: int = UNKNOWN_PHASE
    created: float = math.nan
    started: float = math.nan
    ready: bool = False
    deleted: str | None = None
    annotations: Mapping[str, str] = NO_ANNOTATIONS
    nominated: str = ""


class PodIntake(ABC):
    """Takes pods as they are read, one at a time; what becomes of their fields, subclasses say."""

    def __init__(self, classes: ClassIndex | None = None) -> None:
        self.classes = classes or ClassIndex()

    @abstractmethod
    def keep(self, fields: PodFields) -> None:
        """Keep a pod."""

    @abstractmethod
    def forget(self, namespace: str, name: str, version: int, node_name: str) -> None:
        """A finished pod, which is left out."""

    def add(self, pod: records.Record) -> None:
        """Keep what we use of a pod; ValueError when a quantity or time in it is malformed."""
        assert isinstance(pod, records.Pod)
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        version = version_number(metadata.resource_version)
        phase = PHASE_INDEX.get(status.phase, UNKNOWN_PHASE)
        if phase in FINISHED:
            self.forget(metadata.namespace, metadata.name, version, spec.node_name)
            return
        ready, resize_infeasible = read_conditions(status.conditions)
        annotations = metadata.annotations
        self.keep(
            PodFields(
                name=metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
                version=version,
                node_name=spec.node_name,
                pod_class=self.classes.number_of(pod, resize_infeasible),
                phase=phase,
                created=times.parse_optional(metadata.creation_timestamp),
                started=times.parse_optional(status.start_time),
                ready=ready,
                deleted=metadata.deletion_timestamp,
                annotations=_honoured(annotations) if annotations else NO_ANNOTATIONS,
                nominated=status.nominated_node_name,
            )
        )

    def class_of(self, pod: records.Pod) -> int:
        """The class of a pod; ValueError when a quantity or time in it is malformed."""
        return self.classes.number_of(pod, read_conditions(pod.status.conditions)[1])


class PodCollector(PodIntake):
    """Collects pods in the order they are read: of a pod listed twice the newest, finished ones left out."""

    def __init__(self, classes: ClassIndex | None = None) -> None:
        super().__init__(classes)
        self._names: list[str] = []
        self._namespaces: list[str] = []
        self._uids: list[str] = []
        self._node_index: dict[str, int] = {}
        self._namespace_of: dict[str, str] = {}
        self._node = array("q")
        self._pod_class = array("q")
        self._phase = array("b")
        self._created = array("d")
        self._started = array("d")
        self._ready = array("b")
        self._version = array("q")
        self._deleted: dict[int, str] = {}
        self._annotations: dict[int, Mapping[str, str]] = {}
        self._nominated: dict[int, str] = {}
        self._finished: dict[tuple[str, str], tuple[int, str]] = {}  # version, node
        self._sealed: list[int] = []  # the rows that count, in order

    def forget(self, namespace: str, name: str, version: int, node_name: str) -> None:
        """Keep of a finished pod only that there is one, should the pod be listed twice."""
        key, found = (namespace, name), (version, node_name)
        self._finished[key] = max(found, self._finished.get(key, found))

    def keep(self, fields: PodFields) -> None:
        """Keep a pod."""
        row = len(self._names)
        self._names.append(fields.name)
        self._namespaces.append(self._namespace_of.setdefault(fields.namespace, fields.namespace))
        self._uids.append(fields.uid)
        self._node.append(self._node_index.setdefault(fields.node_name, len(self._node_index)))
        self._pod_class.append(fields.pod_class)
        self._phase.append(fields.phase)
        self._created.append(fields.created)
        self._started.append(fields.started)
        self._ready.append(fields.ready)
        self._version.append(fields.version)
        if fields.deleted is not None:
            self._deleted[row] = fields.deleted
        if fields.annotations:
            self._annotations[row] = fields.annotations
        if fields.nominated and not fields.node_name:
            self._nominated[row] = fields.nominated

    def seal(self, kind: Kind) -> tuple[tuple[()], ListedPods, list[Malformed]]:
        """The rows in order of namespace and name, and the older versions of pods listed twice."""
        keys = list(zip(self._namespaces, self._names, strict=True))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        node_names = list(self._node_index)
        older, malformed = self._listed_twice(kind, keys, order, node_names)
        order = [row for row in order if row not in older] if older else order
        self._sealed = order
        at = np.array(order, np.int64)
        new_row = {old: new for new, old in enumerate(order)} if self._has_sparse() else {}
        pod_class, classes = renumbered(np.array(self._pod_class, np.int64)[at])
        node, nodes = renumbered(np.array(self._node, np.int64)[at])
        shared: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        annotations = [NO_ANNOTATIONS] * len(order)
        for old, kept in self._annotations.items():
            if old in new_row:
                annotations[new_row[old]] = shared.setdefault(tuple(sorted(kept.items())), kept)
        rows = ListedPods(
            names=tuple(self._names[row] for row in order),
            namespaces=tuple(self._namespaces[row] for row in order),
            uids=tuple(self._uids[row] for row in order),
            node_names=tuple(node_names[index] for index in nodes),
            node=node,
            pod_class=pod_class,
            phase=np.array(self._phase, np.int64)[at],
            created=np.array(self._created, np.float64)[at],
            started=np.array(self._started, np.float64)[at],
            ready=np.array(self._ready, np.bool_)[at],
            deleted={new_row[old]: text for old, text in self._deleted.items() if old in new_row},
            annotations=tuple(annotations),
            nominated={new_row[old]: name for old, name in self._nominated.items() if old in new_row},
            classes=tuple(self.classes.classes[index] for index in classes),
            class_keys=tuple(self.classes.keys[index] for index in classes),
        )
        return (), rows, malformed

    def sealed_fields(self) -> Iterator[PodFields]:
        """The pods that ``seal`` found to count, in its order."""
        node_names = list(self._node_index)
        for row in self._sealed:
            yield PodFields(
                name=self._names[row],
                namespace=self._namespaces[row],
                uid=self._uids[row],
                version=self._version[row],
                node_name=node_names[self._node[row]],
                pod_class=self._pod_class[row],
                phase=self._phase[row],
                created=self._created[row],
                started=self._started[row],
                ready=bool(self._ready[row]),
                deleted=self._deleted.get(row),
                annotations=self._annotations.get(row, NO_ANNOTATIONS),
                nominated=self._nominated.get(row, ""),
            )

    def _has_sparse(self) -> bool:
        return bool(self._deleted or self._annotations or self._nominated)

    def _listed_twice(
        self, kind: Kind, keys: list[tuple[str, str]], order: list[int], node_names: list[str]
    ) -> tuple[set[int], list[Malformed]]:
        """The rows that an equal or newer version replaces, and a report of each that differs."""
        older: set[int] = set()
        malformed: list[Malformed] = []

        def report(key: tuple[str, str], node_name: str) -> None:
            node_name = node_name if admitted(node_name) else ""
            malformed.append(Malformed(kind.name, *key, node_name, LISTED_TWICE))

        newest: dict[tuple[str, str], int] = {}
        for left, right in pairwise(order):
            if keys[left] != keys[right]:
                continue
            known = newest.get(keys[left], left)
            low, high = sorted((known, right), key=self._rank)
            newest[keys[left]] = high
            older.add(low)
            if self._rank(low)[1] != self._rank(high)[1]:
                report(keys[low], node_names[self._node[low]])
        if self._finished:
            for row in order:
                finished = self._finished.get(keys[row]) if row not in older else None
                if finished is None:
                    continue
                if finished[0] > self._version[row]:
                    older.add(row)
                    report(keys[row], node_names[self._node[row]])
                else:
                    report(keys[row], finished[1])
        return older, malformed

    def _rank(self, row: int) -> tuple[int, str]:
        """What makes one version of a pod newer than another, whichever came first."""
        columns = (self._uids, self._node, self._pod_class, self._phase, self._created, self._started)
        sparse = (self._deleted, self._annotations, self._nominated)
        written = [repr(column[row]) for column in (*columns, self._ready)]
        return self._version[row], repr(written + [repr(found.get(row)) for found in sparse])


def _honoured(annotations: Mapping[str, str]) -> Mapping[str, str]:
    return {key: text for key, text in annotations.items() if key in HONOURED_ANNOTATIONS}


def version_number(version: str) -> int:
    """A resourceVersion as a number, where it is one that a server would write."""
    usable = version.isascii() and version.isdigit() and len(version) <= _MAX_VERSION_LENGTH
    return int(version) if usable else -1


class AnyCondition(Protocol):
    """A condition of a pod, as a record or in protobuf."""

    @property
    def type(self) -> str: ...  # noqa: D102 - as in the Kubernetes API
    @property
    def status(self) -> str: ...  # noqa: D102 - likewise
    @property
    def reason(self) -> str: ...  # noqa: D102 - likewise


def read_conditions(conditions: Iterable[AnyCondition] | None) -> tuple[bool, bool]:
    """Whether a pod is ready, and whether its resize is infeasible; the first condition of a type counts."""
    ready = infeasible = None
    for found in conditions or ():
        if found.type == "Ready":
            ready = found.status == "True" if ready is None else ready
        elif found.type == "PodResizePending":
            infeasible = found.reason == "Infeasible" if infeasible is None else infeasible
    return bool(ready), bool(infeasible)


def renumbered(column: IntArray) -> tuple[IntArray, list[int]]:
    """Numbers in the order they first appear, and what each stood for before."""
    known, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[inverse], known[order].tolist()
