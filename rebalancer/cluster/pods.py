"""Pods: what is read of one, declared once, and their tables.

``PodFields`` is the declaration. A pod in JSON and one in protobuf become such a row by the same function,
``read_pod``; rows become columns by their annotations (``columns``); and a recording is written from them by
``record_of``. What pods have in common with their siblings is a class (``pod_classes``), of
which a row has the number.

    web-1  Running    node a  class 0
    web-2  Running    node b  class 0       the rows of ``PodTable``
    job-1  Succeeded  node a  class 1       the row of its ``finished``

A pod that has finished takes nothing of its node and is none of its workload's replicas. So a table holds the
others, and those that have finished are asked for: ``pods.finished``, or ``pods.with_finished``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import records, times
from rebalancer.cluster.arrays import BoolArray, IntArray, PodClassIndex
from rebalancer.cluster.columns import FEW, SHARED, UNCOMPARED, Columns, ColumnsBuilder
from rebalancer.cluster.pod_classes import POD_ITSELF, ClassIndex, PodClass, classes_before_binding

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
# Set by whoever moves a pod in the background, such as KubeVirt, while that is under way.
EVICTION_IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
# What koordinator's Coscheduling places together (apis/extension/coscheduling.go).
GANG = "gang.scheduling.koordinator.sh/name"
# Of a pod's annotations only those that affect eviction are kept.
HONOURED_ANNOTATIONS = frozenset(
    {
        MIRROR_ANNOTATION,
        "kubernetes.io/config.source",
        "descheduler.alpha.kubernetes.io/evict",
        EVICTION_IN_PROGRESS,
        GANG,
        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
        "controller.kubernetes.io/pod-deletion-cost",
        "karpenter.sh/do-not-disrupt",
        "scheduling.koordinator.sh/eviction-cost",
        "batch.kubernetes.io/job-index-failure-count",
        "batch.kubernetes.io/job-index-ignored-failure-count",
        "kubernetes.io/limit-ranger",
        "rebalancer/evict",
        "rebalancer/max-lifetime",
    }
)
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
FINISHED = (PHASES.index("Succeeded"), PHASES.index("Failed"))
PHASE_INDEX = {phase: index for index, phase in enumerate(PHASES)}
UNKNOWN_PHASE = PHASE_INDEX["Unknown"]
NO_ANNOTATIONS: Mapping[str, str] = {}
# What these conditions say while they are true, the phase of a pod and ``ready`` say as well.
USUAL_CONDITIONS = frozenset(
    {"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"}
)
RUNS = records.ContainerState()
_COMPLETED = "Completed"
_MAX_VERSION_LENGTH = 18  # digits that fit an int64
_Column = TypeVar("_Column")


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a pod, and since when it is as it is."""

    type: str
    status: str
    reason: str
    since: float  # Unix seconds, NaN when unknown


class ContainerReport(msgspec.Struct, frozen=True, gc=False):
    """What a container has been through: empty texts and None where it has not."""

    name: str
    init: bool = False  # one of the init containers
    restarts: int = 0
    waiting: str = ""  # why it waits, such as CrashLoopBackOff
    terminated: str = ""  # why it has ended, such as Error
    exit_code: int | None = None
    last_terminated: str = ""  # likewise of the run before this one
    last_exit_code: int | None = None


class PodFields(msgspec.Struct, gc=False):
    """What is read of a pod, besides what its class says: one row."""

    name: str
    namespace: Annotated[str, SHARED]
    uid: str
    version: Annotated[int, UNCOMPARED]  # tells which is newer, should the pod be listed twice
    node_name: Annotated[str, SHARED]  # empty while it is on none
    pod_class: int  # index of its class
    phase: int  # index into PHASES
    created: float  # Unix seconds, NaN when unknown; so are all times
    started: float
    ready: bool
    ready_since: float = math.nan  # since when, while it is
    deleted: Annotated[str | None, FEW] = None  # deletionTimestamp
    annotations: Annotated[Mapping[str, str], FEW] = NO_ANNOTATIONS  # the honoured ones
    nominated: Annotated[str, FEW] = ""  # status.nominatedNodeName of a pod on no node
    reason: Annotated[str, FEW] = ""  # status.reason, such as Evicted
    conditions: Annotated[tuple[PodCondition, ...], FEW] = ()  # but for the usual ones while they are true
    containers: Annotated[tuple[ContainerReport, ...], FEW] = ()  # of those with something to report
    debugged_by: Annotated[str, FEW] = ""  # the ephemeral container that runs in it, as kubectl debug adds it

    @property
    def finished(self) -> bool:
        """Whether it has succeeded or failed, and so runs no more."""
        return self.phase in FINISHED

    def reports(self, *, init: bool = False) -> list[ContainerReport]:
        """What its containers have to report, its init containers as well where that is asked."""
        return [report for report in self.containers if init or not report.init]

    def reasons(self, *, init: bool = False) -> set[str]:
        """Its reason, and why its containers wait or have ended."""
        of_containers = (
            text for report in self.reports(init=init) for text in (report.waiting, report.terminated)
        )
        return {self.reason, *of_containers} - {""}


class Encoding(Protocol):
    """How a pod is written: what ``read_pod`` must know to read JSON and protobuf alike."""

    def conditions(self, status: Any, /) -> Iterable[Any]:
        """Its conditions; but for Ready those in ``USUAL_CONDITIONS`` that are true may be left out."""

    def node_name(self, pod: Any, /) -> str:
        """The node it is on; empty for none."""

    def class_and_reports(
        self, pod: Any, node_name: str, resize_infeasible: bool, /
    ) -> tuple[int, list[ContainerReport]]:
        """The number of its class, and what its containers and then its init containers have to report.

        Raises ValueError when a quantity it requests is malformed.
        """

    def seconds(self, time: Any, /) -> float:
        """Unix seconds of a time, NaN for none; ValueError for one that is malformed."""

    def ephemeral(self, status: Any, /) -> Sequence[tuple[str, records.ContainerState]]:
        """The names and states of its ephemeral containers."""

    def time_text(self, time: Any, /) -> str | None:
        """A time as JSON writes it; None for none."""

    def text(self, annotation: Any, /) -> str:
        """The value of an annotation."""


def read_pod(pod: Any, encoding: Encoding) -> PodFields:
    """The row of a pod, a record or an outline in protobuf, whose attributes have the same names.

    Raises ValueError when a quantity or a time in it is malformed.
    """
    metadata = pod.metadata
    status = pod.status
    ready, ready_since, resize_infeasible, unusual = _read_conditions(encoding, status)
    node_name = encoding.node_name(pod)
    annotations = metadata.annotations
    pod_class, reports = encoding.class_and_reports(pod, node_name, resize_infeasible)
    return PodFields(  # by place, which is faster than by name
        metadata.name,
        metadata.namespace,
        metadata.uid,
        version_number(metadata.resource_version),
        node_name,
        pod_class,
        PHASE_INDEX.get(status.phase, UNKNOWN_PHASE),
        encoding.seconds(metadata.creation_timestamp),
        encoding.seconds(status.start_time),
        ready,
        ready_since,
        encoding.time_text(metadata.deletion_timestamp),
        {name: encoding.text(annotations[name]) for name in annotations if name in HONOURED_ANNOTATIONS}
        if annotations
        else NO_ANNOTATIONS,
        "" if node_name else status.nominated_node_name,
        status.reason,
        unusual,
        tuple(reports) if reports else (),
        next((name for name, state in ephemeral if not (state.waiting or state.terminated)), "")
        if (ephemeral := encoding.ephemeral(status))
        else "",
    )


def _read_conditions(encoding: Encoding, status: Any) -> tuple[bool, float, bool, tuple[PodCondition, ...]]:
    """Whether a pod is ready, since when, whether its resize is infeasible, and conditions that are unusual.

    The first condition of a type counts. A time that cannot be believed is unknown.
    """
    ready = infeasible = None
    ready_since = math.nan
    unusual = list[PodCondition]()
    for condition in encoding.conditions(status):
        kind = condition.type
        status = condition.status
        if kind == "Ready" and ready is None:
            ready = status == "True"
            ready_since = _since(encoding, condition) if ready else math.nan
        elif kind == "PodResizePending" and infeasible is None:
            infeasible = condition.reason == "Infeasible"
        if status != "True" or kind not in USUAL_CONDITIONS:
            unusual.append(PodCondition(kind, status, condition.reason, _since(encoding, condition)))
    return bool(ready), ready_since, bool(infeasible), tuple(unusual) if unusual else ()


def _since(encoding: Encoding, condition: Any) -> float:
    try:
        return encoding.seconds(condition.last_transition_time)
    except ValueError:
        return math.nan


def report_of(
    name: str, init: bool, restarts: int, state: records.ContainerState, last: records.ContainerState
) -> ContainerReport | None:
    """What a container has been through; None for one that runs, or has done what an init container does."""
    report = ContainerReport(
        name=name,
        init=init,
        restarts=restarts,
        waiting=state.waiting.reason if state.waiting else "",
        terminated=state.terminated.reason if state.terminated else "",
        exit_code=state.terminated.exit_code if state.terminated else None,
        last_terminated=last.terminated.reason if last.terminated else "",
        last_exit_code=last.terminated.exit_code if last.terminated else None,
    )
    done = ContainerReport(name, True, terminated=_COMPLETED, exit_code=0)
    return None if report in (ContainerReport(name, init), done) else report


def record_of(fields: PodFields, pod_class: PodClass) -> records.Pod:
    """A pod as a record that reads back as this row of this class."""
    owner = pod_class.owner
    reference = records.OwnerReference(owner.kind, owner.name, owner.uid, owner.api_version, True)
    ready = [PodCondition("Ready", "True", "", fields.ready_since)] if fields.ready else []
    of_pod = next(
        (report for report in pod_class.statuses if report.name == POD_ITSELF), records.ContainerStatus()
    )
    resized = [report for report in pod_class.statuses if report.name != POD_ITSELF]
    return records.Pod(
        metadata=records.Metadata(
            name=fields.name,
            namespace=fields.namespace,
            uid=fields.uid,
            creation_timestamp=times.render_optional(fields.created),
            deletion_timestamp=fields.deleted,
            labels=dict(pod_class.labels) or None,
            annotations=dict(fields.annotations) or None,
            owner_references=[reference] if owner.uid or owner.kind or owner.name else None,
        ),
        spec=replace(pod_class.spec, node_name=fields.node_name),
        status=records.PodStatus(
            phase=PHASES[fields.phase],
            reason=fields.reason,
            nominated_node_name=fields.nominated,
            start_time=times.render_optional(fields.started),
            conditions=[_condition_record(report) for report in (*ready, *fields.conditions)] or None,
            container_statuses=[
                *resized,
                *(_status_record(report) for report in fields.containers if not report.init),
            ]
            or None,
            init_container_statuses=[_status_record(report) for report in fields.containers if report.init]
            or None,
            ephemeral_container_statuses=[records.ContainerStatus(fields.debugged_by)]
            if fields.debugged_by
            else None,
            resources=of_pod.resources,
            allocated_resources=of_pod.allocated_resources,
        ),
    )


def _condition_record(condition: PodCondition) -> records.Condition:
    since = times.render_optional(condition.since)
    return records.Condition(condition.type, condition.status, condition.reason, since)


def _status_record(report: ContainerReport) -> records.ContainerStatus:
    def ended(reason: str, exit_code: int | None) -> records.ContainerStateTerminated | None:
        return None if exit_code is None else records.ContainerStateTerminated(reason, exit_code)

    waiting = records.ContainerStateWaiting(report.waiting) if report.waiting else None
    return records.ContainerStatus(
        name=report.name,
        restart_count=report.restarts,
        state=records.ContainerState(waiting, ended(report.terminated, report.exit_code)),
        last_state=records.ContainerState(None, ended(report.last_terminated, report.last_exit_code)),
    )


def version_number(version: str) -> int:
    """A resourceVersion as a number, where it is one that a server would write."""
    usable = version.isascii() and version.isdigit() and len(version) <= _MAX_VERSION_LENGTH
    return int(version) if usable else -1


class ListedPods(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Pods of a LIST, their nodes by name: each part in order of namespace and name, finished ones last."""

    columns: Columns[PodFields]
    unfinished: int  # how many rows there are before the finished ones
    classes: tuple[PodClass, ...]  # in the order of their first rows
    class_keys: tuple[bytes, ...]  # what tells classes apart

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """(pods,) their names."""
        return self.columns.texts("name")

    def digest_parts(self) -> Iterator[bytes]:
        """Everything in which these pods may differ from others, independent of how they were read."""
        yield from self.columns.digest_parts()
        yield from self.class_keys

    def as_records(self) -> Iterator[records.Pod]:
        """The pods as records that read back as these rows, one at a time."""
        return (record_of(fields, self.classes[fields.pod_class]) for fields in self.columns.rows())


def listed_pods(columns: Columns[PodFields], classes: ClassIndex) -> ListedPods:
    """Pods in order of namespace and name, as a LIST would bring them."""
    finished = np.isin(columns.integers("phase"), FINISHED)
    columns = columns.take(np.argsort(finished, kind="stable"))
    pod_class, numbers = _renumbered(columns.integers("pod_class"))
    return ListedPods(
        columns=columns.changed(pod_class=pod_class),
        unfinished=int(np.count_nonzero(~finished)),
        classes=tuple(classes.classes[number] for number in numbers),
        class_keys=tuple(classes.keys[number] for number in numbers),
    )


def _renumbered(column: IntArray) -> tuple[IntArray, list[int]]:
    """Numbers in the order they first appear, and what each stood for before."""
    numbers, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[inverse], numbers[order].tolist()


def _column(take: Callable[[Columns[PodFields], str], _Column], field: str) -> cached_property[_Column]:
    return cached_property(lambda table: take(table.columns, field))


class PodTable(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Pods on the nodes that were read, as rows in order of namespace and name.

    What the model counts with has an attribute for its column; ``fields`` has everything of one pod.
    """

    columns: Columns[PodFields]
    node: IntArray  # (pods,) row of the node, -1 while unbound
    node_unknown: BoolArray  # (pods,) bound to a node that was not read
    terminating: BoolArray  # (pods,)
    classes: tuple[PodClass, ...]
    # class -> the class of its pods before they were bound, where binding added labels; it may have no pods
    class_before_binding: Mapping[int, PodClassIndex]
    finished: PodTable | None = None  # pods that have succeeded or failed; None where there are none

    names = _column(Columns.texts, "name")
    namespaces = _column(Columns.texts, "namespace")
    uids = _column(Columns.texts, "uid")
    pod_class = _column(Columns.integers, "pod_class")  # index into classes
    phase = _column(Columns.integers, "phase")  # index into PHASES
    created = _column(Columns.floats, "created")  # Unix seconds, NaN when unknown
    started = _column(Columns.floats, "started")  # likewise
    ready = _column(Columns.truths, "ready")
    ready_since = _column(Columns.floats, "ready_since")  # Unix seconds, NaN when unknown and while it is not

    annotations = _column(Columns.few, "annotations")  # by row: the honoured ones
    debugged_by = _column(Columns.few, "debugged_by")  # by row: the ephemeral container that runs
    nominated = _column(Columns.few, "nominated")  # by row of an unbound pod: nominatedNodeName

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

    @cached_property
    def with_finished(self) -> PodTable:
        """All pods: the rows of this table, and after them those of ``finished``; classes likewise."""
        more = self.finished
        if more is None:
            return self
        more_classes = more.columns.changed(pod_class=more.pod_class + len(self.classes))
        return PodTable(
            columns=self.columns.joined(more_classes),
            node=np.concatenate([self.node, more.node]),
            node_unknown=np.concatenate([self.node_unknown, more.node_unknown]),
            terminating=np.concatenate([self.terminating, more.terminating]),
            classes=self.classes + more.classes,
            class_before_binding=self.class_before_binding,
        )

    def take(self, rows: IntArray) -> PodTable:
        """The same pods without the rows that are not among these."""
        return replace(
            self,
            columns=self.columns.take(rows),
            node=self.node[rows],
            node_unknown=self.node_unknown[rows],
            terminating=self.terminating[rows],
        )

    def joined(self, added: Iterable[PodFields], node: IntArray) -> PodTable:
        """The pods with more of them in rows after these, on nodes of these rows, -1 where on none."""
        neither = np.zeros(len(node), np.bool_)
        return replace(
            self,
            columns=self.columns.joined(ColumnsBuilder(PodFields, added).columns()),
            node=np.concatenate([self.node, node]),
            node_unknown=np.concatenate([self.node_unknown, neither]),
            terminating=np.concatenate([self.terminating, neither]),
        )

    def fields(self, row: int) -> PodFields:
        """Everything that is read of a pod, besides what its class says."""
        return self.columns.row(row)

    def full_name(self, row: int) -> str:
        """``namespace/name``."""
        return f"{self.namespaces[row]}/{self.names[row]}"

    def class_of(self, row: int) -> PodClass:
        """The class of a pod."""
        return self.classes[int(self.pod_class[row])]

    def __len__(self) -> int:
        return len(self.columns)


def build_pods(pods: ListedPods, node_row: Mapping[str, int]) -> PodTable:
    """The pods of a listing, on the nodes that were read."""
    running = np.arange(pods.unfinished)
    classes_of_running = 1 + int(pods.columns.integers("pod_class")[running].max(initial=-1))
    classes, before_binding = classes_before_binding(pods.classes[:classes_of_running])
    table = _on_nodes(pods.columns.take(running), node_row, classes, before_binding)
    if pods.unfinished == len(pods):
        return table
    finished = pods.columns.take(np.arange(pods.unfinished, len(pods)))
    pod_class, numbers = _renumbered(finished.integers("pod_class"))
    columns = finished.changed(pod_class=pod_class)
    theirs = tuple(pods.classes[number] for number in numbers)
    return replace(table, finished=_on_nodes(columns, node_row, theirs, {}))


def _on_nodes(
    columns: Columns[PodFields],
    node_row: Mapping[str, int],
    classes: tuple[PodClass, ...],
    before_binding: Mapping[int, PodClassIndex],
) -> PodTable:
    row_of = {"": -1, **node_row}
    node = np.array([row_of.get(name, -2) for name in columns.texts("node_name")], np.int64)
    terminating = np.zeros(len(columns), np.bool_)
    terminating[list(columns.few("deleted"))] = True
    return PodTable(
        columns=columns,
        node=np.maximum(node, -1),
        node_unknown=node == -2,
        terminating=terminating,
        classes=classes,
        class_before_binding=before_binding,
    )
