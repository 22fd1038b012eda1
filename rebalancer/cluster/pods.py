"""Pods as rows of the snapshot, grouped into classes of pods that the scheduler cannot tell apart."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import msgspec
import numpy as np

from rebalancer.cluster import records, times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, PodClassIndex
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import LISTED_TWICE, Malformed, admitted
from rebalancer.cluster.pod_classes import POD_ITSELF, ClassIndex, PodClass, classes_before_binding

# Pods of a LIST as columns, sorted by namespace and name; their nodes are names still, not yet rows.


MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
# Set by whoever moves a pod in the background, such as KubeVirt, while that is under way.
EVICTION_IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
# Of a pod's annotations only those that affect eviction are kept.
HONOURED_ANNOTATIONS = frozenset(
    {
        MIRROR_ANNOTATION,
        "kubernetes.io/config.source",
        "descheduler.alpha.kubernetes.io/evict",
        EVICTION_IN_PROGRESS,
        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
        "controller.kubernetes.io/pod-deletion-cost",
        "karpenter.sh/do-not-disrupt",
        "scheduling.koordinator.sh/eviction-cost",
    }
)
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
FINISHED = (PHASES.index("Succeeded"), PHASES.index("Failed"))
PHASE_INDEX = {phase: index for index, phase in enumerate(PHASES)}
UNKNOWN_PHASE = PHASE_INDEX["Unknown"]
NO_ANNOTATIONS: Mapping[str, str] = {}
_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, eq=False)
class ListedPods:
    """Pods as columns, in order of namespace and name, before their nodes are known as rows."""

    names: tuple[str, ...]
    namespaces: tuple[str, ...]
    uids: tuple[str, ...]
    node_names: tuple[str, ...]  # each once; the empty one stands for none
    node: IntArray  # (pods,) index into node_names
    pod_class: IntArray  # (pods,) index into classes
    phase: IntArray  # (pods,) index into PHASES
    created: FloatArray  # (pods,) Unix seconds, NaN when unknown
    started: FloatArray  # (pods,) Unix seconds, NaN when unknown
    ready: BoolArray  # (pods,)
    deleted: Mapping[int, str]  # row -> deletionTimestamp
    annotations: tuple[Mapping[str, str], ...]  # (pods,) the honoured ones, interned
    nominated: Mapping[int, str]  # row -> status.nominatedNodeName of unbound pods
    classes: tuple[PodClass, ...]
    class_keys: tuple[bytes, ...]  # what tells classes apart

    def __len__(self) -> int:
        return len(self.names)

    def digest_parts(self) -> Iterator[bytes]:
        """Everything in which these pods may differ from others, independent of how they were read."""
        for texts in (self.names, self.namespaces, self.uids, self.node_names):
            yield _encoder.encode(texts)
        for column in (self.node, self.pod_class, self.phase, self.created, self.started, self.ready):
            yield column.tobytes()
        annotated = [(row, found) for row, found in enumerate(self.annotations) if found]
        yield _encoder.encode((sorted(self.deleted.items()), annotated, sorted(self.nominated.items())))
        yield from self.class_keys

    def as_records(self) -> Iterator[records.Pod]:
        """The pods as records that read back as these rows, one at a time."""
        rows = zip(self.node.tolist(), self.pod_class.tolist(), self.phase.tolist(), strict=True)
        for row, (node, pod_class, phase) in enumerate(rows):
            yield self._record(row, self.node_names[node], self.classes[pod_class], PHASES[phase])

    def _record(self, row: int, node_name: str, found: PodClass, phase: str) -> records.Pod:
        owner = found.owner
        reference = records.OwnerReference(owner.kind, owner.name, owner.uid, owner.api_version, True)
        conditions = []
        if self.ready[row]:
            conditions.append(records.Condition(type="Ready", status="True"))
        if found.resize_infeasible:
            conditions.append(records.Condition(type="PodResizePending", status="True", reason="Infeasible"))
        of_pod = next((item for item in found.statuses if item.name == POD_ITSELF), records.ContainerStatus())
        return records.Pod(
            metadata=records.Metadata(
                name=self.names[row],
                namespace=self.namespaces[row],
                uid=self.uids[row],
                creation_timestamp=times.render_optional(float(self.created[row])),
                deletion_timestamp=self.deleted.get(row),
                labels=dict(found.labels) or None,
                annotations=dict(self.annotations[row]) or None,
                owner_references=[reference] if owner.uid or owner.kind or owner.name else None,
            ),
            spec=msgspec.structs.replace(found.spec, node_name=node_name),
            status=records.PodStatus(
                phase=phase,
                nominated_node_name=self.nominated.get(row, ""),
                start_time=times.render_optional(float(self.started[row])),
                conditions=conditions or None,
                container_statuses=[item for item in found.statuses if item.name != POD_ITSELF] or None,
                resources=of_pod.resources,
                allocated_resources=of_pod.allocated_resources,
            ),
        )


@dataclass(frozen=True, eq=False)
class PodTable:
    """Pods as rows, in order of namespace and name; finished pods are left out."""

    names: tuple[str, ...]
    namespaces: tuple[str, ...]
    uids: tuple[str, ...]
    node: IntArray  # (pods,) row of the node, -1 while unbound
    node_unknown: BoolArray  # (pods,) bound to a node that was not read
    pod_class: IntArray  # (pods,) index into classes
    phase: IntArray  # (pods,) index into PHASES
    created: FloatArray  # (pods,) Unix seconds
    started: FloatArray  # (pods,) Unix seconds, NaN when unknown
    terminating: BoolArray  # (pods,)
    ready: BoolArray  # (pods,)
    annotations: tuple[Mapping[str, str], ...]  # (pods,) the honoured ones, interned
    nominated: Mapping[int, str]  # pod row -> status.nominatedNodeName
    classes: tuple[PodClass, ...]
    # class -> the class of its pods before they were bound, where binding added labels; it may have no pods
    class_before_binding: Mapping[int, PodClassIndex]

    @cached_property
    def row(self) -> Mapping[tuple[str, str], int]:
        """Row by namespace and name."""
        return {key: row for row, key in enumerate(zip(self.namespaces, self.names, strict=True))}

    @cached_property
    def by_node(self) -> Mapping[int, IntArray]:
        """Pod rows by node row."""
        order = np.argsort(self.node, kind="stable")
        rows, starts = np.unique(self.node[order], return_index=True)
        return dict(zip(rows.tolist(), np.split(order, starts[1:]), strict=True)) if len(order) else {}

    def full_name(self, row: int) -> str:
        """``namespace/name``."""
        return f"{self.namespaces[row]}/{self.names[row]}"

    def class_of(self, row: int) -> PodClass:
        """The class of a pod."""
        return self.classes[int(self.pod_class[row])]

    def __len__(self) -> int:
        return len(self.names)


def build_pods(rows: ListedPods, node_row: Mapping[str, int]) -> PodTable:
    """The pods of a listing, on the nodes that were read."""
    row_of = np.array([node_row.get(name, -1) for name in rows.node_names], np.int64)
    unknown = np.array([bool(name) and name not in node_row for name in rows.node_names], np.bool_)
    terminating = np.zeros(len(rows), np.bool_)
    terminating[list(rows.deleted)] = True
    classes, before_binding = classes_before_binding(rows.classes)
    return PodTable(
        names=rows.names,
        namespaces=rows.namespaces,
        uids=rows.uids,
        node=row_of[rows.node],
        node_unknown=unknown[rows.node],
        pod_class=rows.pod_class,
        phase=rows.phase,
        created=rows.created,
        started=rows.started,
        terminating=terminating,
        ready=rows.ready,
        annotations=rows.annotations,
        nominated=rows.nominated,
        classes=classes,
        class_before_binding=before_binding,
    )


# Pods as they are read: the fields in use go into columns at once, and the record is dropped.


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


# Pods as rows that change a few at a time, where ``PodCollector`` reads all of them once.
#
# Rows stay in order of namespace and name, so a change finds its place by bisection, and the columns are
# copied
# once for all changes together:
#
#     rows        games/a   shop/web-1   shop/web-3
#     changes     shop/web-1 gone, shop/web-2 new, games/a ready
#     rows        games/a   shop/web-2   shop/web-3      one row written, one deleted, one inserted
#
# What ``listed`` returns is what a collector makes of the same pods, and shares nothing that changes later.


Key = tuple[str, str]
"""Namespace and name."""
_NUMBERS: dict[str, type[np.generic]] = {
    "node": np.int64,
    "pod_class": np.int64,
    "phase": np.int64,
    "created": np.float64,
    "started": np.float64,
    "ready": np.bool_,
}


class PodRows:
    """The columns of some pods."""

    def __init__(self, pods: Iterable[PodFields]) -> None:
        ordered = sorted(pods, key=_key)
        self._node_index: dict[str, int] = {}
        self._keys = [_key(fields) for fields in ordered]
        self._uids = [fields.uid for fields in ordered]
        self._annotations = [fields.annotations for fields in ordered]
        self._sparse: dict[str, dict[Key, str]] = {"deleted": {}, "nominated": {}}
        for fields in ordered:
            self._note(fields)
        self._columns = self._numbers(ordered)

    def __len__(self) -> int:
        return len(self._keys)

    def change(self, changes: Mapping[Key, PodFields | None]) -> None:
        """Put these pods in place of those of their names; None where there is none any more."""
        columns = {name: column.copy() for name, column in self._columns.items()}
        gone: list[int] = []
        new: list[PodFields] = []
        for key, fields in changes.items():
            row = bisect_left(self._keys, key)
            known = row < len(self._keys) and self._keys[row] == key
            for sparse in self._sparse.values():
                sparse.pop(key, None)
            if fields is None:
                gone += [row] if known else []
                continue
            self._note(fields)
            if not known:
                new.append(fields)
                continue
            self._uids[row], self._annotations[row] = fields.uid, fields.annotations
            for name, value in self._values(fields).items():
                columns[name][row] = value
        for row in sorted(gone, reverse=True):
            del self._keys[row], self._uids[row], self._annotations[row]
        columns = {name: np.delete(column, gone) for name, column in columns.items()}
        new.sort(key=_key)
        places = [bisect_left(self._keys, _key(fields)) for fields in new]
        for row, fields in zip(reversed(places), reversed(new), strict=True):
            self._keys.insert(row, _key(fields))
            self._uids.insert(row, fields.uid)
            self._annotations.insert(row, fields.annotations)
        values = self._numbers(new)
        self._columns = {name: np.insert(column, places, values[name]) for name, column in columns.items()}

    def listed(self, classes: ClassIndex) -> ListedPods:
        """The pods as a LIST brings them; ``classes`` has those that their numbers stand for."""
        pod_class, class_numbers = renumbered(self._columns["pod_class"])
        node, node_numbers = renumbered(self._columns["node"])
        node_names = list(self._node_index)
        return ListedPods(
            names=tuple([name for _, name in self._keys]),
            namespaces=tuple([namespace for namespace, _ in self._keys]),
            uids=tuple(self._uids),
            node_names=tuple(node_names[number] for number in node_numbers),
            node=node,
            pod_class=pod_class,
            phase=self._columns["phase"],
            created=self._columns["created"],
            started=self._columns["started"],
            ready=self._columns["ready"],
            deleted=self._by_row("deleted"),
            annotations=tuple(self._annotations),
            nominated=self._by_row("nominated"),
            classes=tuple(classes.classes[number] for number in class_numbers),
            class_keys=tuple(classes.keys[number] for number in class_numbers),
        )

    @property
    def node_name_count(self) -> int:
        """How many names of nodes are kept, those without pods included."""
        return len(self._node_index)

    def _note(self, fields: PodFields) -> None:
        """Keep what few pods have."""
        if fields.deleted is not None:
            self._sparse["deleted"][_key(fields)] = fields.deleted
        if fields.nominated and not fields.node_name:
            self._sparse["nominated"][_key(fields)] = fields.nominated

    def _by_row(self, name: str) -> dict[int, str]:
        found = {bisect_left(self._keys, key): text for key, text in self._sparse[name].items()}
        return dict(sorted(found.items()))

    def _values(self, fields: PodFields) -> dict[str, Any]:
        values = {name: getattr(fields, name) for name in _NUMBERS if name != "node"}
        return {**values, "node": self._node_index.setdefault(fields.node_name, len(self._node_index))}

    def _numbers(self, pods: list[PodFields]) -> dict[str, np.ndarray[Any, Any]]:
        rows = [self._values(fields) for fields in pods]
        return {name: np.array([row[name] for row in rows], dtype) for name, dtype in _NUMBERS.items()}


def _key(fields: PodFields) -> Key:
    return fields.namespace, fields.name
