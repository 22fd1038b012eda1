"""The changes that a user asks about, and the inputs of a plan on which they are made.

Options are checked as far as that is possible before a cluster is read.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow, PodRow
from rebalancer.cluster.kinds import CSI_NODES
from rebalancer.cluster.leaving_nodes import CONDITION_TAINTS, LEAVING_TAINTS, matches_taint
from rebalancer.cluster.malformed import admitted
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pod_classes import OF_THEIR_NODE
from rebalancer.cluster.pods import PHASES, PodFields
from rebalancer.cluster.records import CsiNode, Node, Taint, Workload
from rebalancer.errors import InputError
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    LATEST,
    MEMORY_TYPE,
    Metric,
    SchedulerView,
    WatcherMetrics,
)
from rebalancer.load.usage import PodMethod
from rebalancer.planning.disruption_cost import DELETION_COST, annotated_cost
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.subjects import Subject, SubjectName, find_subject, parse_subject
from rebalancer.planning.workloads.lookup import Workloads, controller_of
from rebalancer.planning.workloads.stateful_sets import own_claims
from rebalancer.scheduling.resources import pod_requests, requested_amounts

MAX_ADDED = 1000  # nodes or pods of one change
_SCALED_KINDS = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "Job"})
_MAX_SHOWN_LENGTH = 60
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

_HOST_NAME = "kubernetes.io/hostname"
_DAY_SECONDS = 86_400.0
_LEVELS = frozenset({AVERAGE, LATEST, ""})  # operators of figures that follow the load
_RUNNING = PHASES.index("Running")
_PENDING = PHASES.index("Pending")


class AddedNodes(msgspec.Struct, frozen=True):
    """More nodes like one of the cluster."""

    template: str
    count: int


class Scaling(msgspec.Struct, frozen=True):
    """Another number of replicas of a workload."""

    workload: SubjectName
    replicas: int


class Changes(msgspec.Struct, frozen=True):
    """What is changed on the copy of the cluster, together."""

    drained: tuple[str, ...] = ()  # names of nodes; drained nodes are cordoned
    cordoned: tuple[str, ...] = ()
    added: tuple[AddedNodes, ...] = ()
    scaled: tuple[Scaling, ...] = ()

    def words(self) -> tuple[str, ...]:
        """Each change as a user would say it."""
        return (
            *(f"drain {name}" for name in self.drained),
            *(f"cordon {name}" for name in self.cordoned),
            *(f"add {addition.count} like {addition.template}" for addition in self.added),
            *(f"scale {_written(scaling.workload)} to {scaling.replicas}" for scaling in self.scaled),
        )

    def __bool__(self) -> bool:
        return bool(self.words())


def parse_changes(
    drained: Iterable[str], cordoned: Iterable[str], added: Iterable[str], scaled: Iterable[str]
) -> Changes:
    """The changes that options name; InputError for a text of another form."""
    changes = Changes(
        drained=tuple(dict.fromkeys(_name("--drain", text) for text in drained)),
        cordoned=tuple(dict.fromkeys(_name("--cordon", text) for text in cordoned)),
        added=tuple(_adding(text) for text in added),
        scaled=tuple(_scaling(text) for text in scaled),
    )
    times_named = Counter(_written(scaling.workload) for scaling in changes.scaled)
    for name, times in times_named.items():
        if times > 1:
            raise InputError(f"--scale names {name} twice", hint="keep only one")
    return changes


def _name(option: str, text: str) -> str:
    name = text.removeprefix("node/").removeprefix("no/")
    if not admitted(name):
        raise InputError(f"{option} {text[:_MAX_SHOWN_LENGTH]!a} is not the name of a node")
    return name


def _scaling(text: str) -> Scaling:
    workload, replicas = _counted("--scale", text, 0, "KIND/NAMESPACE/NAME=N, e.g. deployment/shop/api=5")
    subject = parse_subject(workload, likely=("deployment", "statefulset"))
    if subject.kind not in _SCALED_KINDS:
        kinds = ", ".join(sorted(kind.lower() for kind in _SCALED_KINDS))
        raise InputError(f"--scale: a {subject.kind.lower()} cannot be scaled", hint=f"known: {kinds}")
    return Scaling(subject, replicas)


def _written(workload: SubjectName) -> str:
    return f"{workload.kind.lower()}/{workload.name}"


def _adding(text: str) -> AddedNodes:
    template, count = _counted("--add-node", text, 1, "TEMPLATE_NODE=N, e.g. node-1=2")
    return AddedNodes(_name("--add-node", template), count)


def _counted(option: str, text: str, least: int, shape: str) -> tuple[str, int]:
    """``NAME=N`` in two; InputError for a text of another form or a number out of bounds."""
    name, _, count = text.rpartition("=")
    if not name or not (count.isascii() and count.isdigit()):
        raise InputError(
            f"{option} {text[:_MAX_SHOWN_LENGTH]!a} does not have the expected form", hint=f"write {shape}"
        )
    digits = count.lstrip("0")[:_MAX_SHOWN_LENGTH]  # as an InputError shows: no more can be in bounds
    number = int(digits or "0")
    if not least <= number <= MAX_ADDED:
        raise InputError(f"{option}: {number} is not between {least} and {MAX_ADDED}")
    return name, number


class AddedPod(msgspec.Struct, frozen=True, eq=False):
    """A pod that is added: running on a node, or Pending without one."""

    namespace: str
    name: str
    pod_class: int
    node: int  # -1: Pending
    usage: FloatArray  # (measured resources,)
    created: float  # Unix seconds


def with_pods(inputs: PlanningInputs, added: Sequence[AddedPod]) -> PlanningInputs:
    """The inputs with more pods; those on a node are not yet in what the node uses."""
    if not added:
        return inputs
    pods = inputs.snapshot.pods
    load = inputs.load
    node = np.array([pod.node for pod in added], np.int64)
    table = pods.joined(map(_fields, added), node)
    usage = np.array([pod.usage for pod in added], np.float64).reshape(len(added), len(load.resources))
    methods = np.where(np.isnan(usage), int(PodMethod.UNKNOWN), int(PodMethod.REQUEST))
    load = replace(
        load,
        pod_usage=np.concatenate([load.pod_usage, usage]),
        pod_methods=np.concatenate([load.pod_methods, methods]),
        pod_node=table.node,
    )
    snapshot = replace(inputs.snapshot, pods=table)
    return replace(inputs, snapshot=snapshot, load=load)


def _fields(added: AddedPod) -> PodFields:
    bound = added.node >= 0
    return PodFields(
        name=added.name,
        namespace=added.namespace,
        uid=f"added {added.namespace}/{added.name}",
        version=-1,
        node_name="",  # its row says on which node it is
        pod_class=added.pod_class,
        phase=_RUNNING if bound else _PENDING,
        created=added.created,
        started=added.created if bound else math.nan,
        ready=bound,
    )


def without_pods(inputs: PlanningInputs, rows: Sequence[int]) -> PlanningInputs:
    """The inputs without some pods, nor what they use; what is not known of that stays on the node."""
    if not rows:
        return inputs
    pods = inputs.snapshot.pods
    load = inputs.load
    usage = load.usage.copy()
    for row in rows:
        if pods.node[row] >= 0:
            usage[pods.node[row]] -= np.nan_to_num(load.relief[row])
    at = np.delete(np.arange(len(pods)), rows)
    table = pods.take(at)
    load = replace(
        load,
        usage=np.maximum(usage, 0.0),
        pod_usage=load.pod_usage[at],
        pod_methods=load.pod_methods[at],
        pod_node=table.node,
    )
    snapshot = replace(inputs.snapshot, pods=table)
    return replace(inputs, snapshot=snapshot, load=load)


def with_cordoned(inputs: PlanningInputs, rows: Sequence[NodeRow]) -> PlanningInputs:
    """The inputs with these nodes unschedulable, and tainted as Kubernetes taints such nodes."""
    if not rows:
        return inputs
    records = list(inputs.snapshot.nodes.records)
    for row in rows:
        node = records[row]
        taints = [taint for taint in node.spec.taints or () if taint.key != UNSCHEDULABLE.key]
        spec = replace(node.spec, unschedulable=True, taints=[*taints, UNSCHEDULABLE])
        records[row] = replace(node, spec=spec)
    nodes = replace(inputs.snapshot.nodes, records=tuple(records))
    return replace(inputs, snapshot=replace(inputs.snapshot, nodes=nodes))


def with_added_nodes(inputs: PlanningInputs, template: NodeRow, count: int) -> PlanningInputs:
    """The inputs with ``count`` more nodes like one of them, the last rows of the table.

    An added node has the template's labels but for its host name, its taints but for those of a condition,
    its DaemonSet and static pods, and what these and the template's own system use. It holds no images and is
    the last that the scheduler comes to know.
    """
    nodes = inputs.snapshot.nodes
    load = inputs.load
    pods = inputs.snapshot.pods
    first = len(nodes)
    new = (f"{nodes.names[template]}-new-{number}" for number in itertools.count(1))
    names = tuple(itertools.islice((name for name in new if name not in nodes.row), count))
    own = [
        PodRow(row)
        for row in pods.by_node.get(template, np.zeros(0, np.int64)).tolist()
        if pods.class_of(row).owner.kind in OF_THEIR_NODE and not pods.terminating[row]
    ]
    like = np.append(np.arange(first), np.full(count, template))  # (nodes,) the row that each is like
    usage = _idle_usage(inputs, template, own)
    load = replace(
        load,
        usage=np.concatenate([load.usage, np.tile(usage, (count, 1))]),
        measured_at=load.measured_at[like],
        source=load.source[like],
        window_seconds=load.window_seconds[like],
        allocatable=load.allocatable[like],
        deviation=None if load.deviation is None else load.deviation[like],
        pressure={
            name: np.concatenate([values, np.full(count, np.nan)]) for name, values in load.pressure.items()
        },
    )
    snapshot = replace(inputs.snapshot, nodes=_more_nodes(nodes, like, names, inputs.now))
    if snapshot.has(CSI_NODES):  # the drivers of the template are on every new node
        csi_nodes = [
            CsiNode(replace(csi_node.metadata, name=name), csi_node.spec)
            for csi_node in snapshot.recording.records(CSI_NODES)
            if csi_node.metadata.name == nodes.names[template]
            for name in names
        ]
        snapshot = replace(snapshot, recording=snapshot.recording.with_more(CSI_NODES, csi_nodes))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(inputs.load.usage[template] > 0, usage / inputs.load.usage[template], 1.0)
    inputs = replace(inputs, snapshot=snapshot, load=load).with_views(
        lambda view: _seen(view, nodes.names[template], names, share)
    )
    return with_pods(
        inputs,
        [
            AddedPod(
                namespace=pods.namespaces[row],
                name=f"{pods.names[row]}-{name}",
                pod_class=int(pods.pod_class[row]),
                node=first + position,
                usage=load.pod_usage[row],
                created=inputs.now - _DAY_SECONDS,
            )
            for position, name in enumerate(names)
            for row in own
        ],
    )


def _idle_usage(inputs: PlanningInputs, template: NodeRow, own: Sequence[PodRow]) -> FloatArray:
    """(resources,) what the template would use without the pods that a new node does not get; NaN unknown."""
    load = inputs.load
    pods = inputs.snapshot.pods
    others = [row for row in pods.by_node.get(template, np.zeros(0, np.int64)).tolist() if row not in own]
    used_by_others = np.nan_to_num(load.relief[others]).sum(axis=0)
    least = np.nan_to_num(load.relief[list(own)]).sum(axis=0) if own else np.zeros(len(load.resources))
    return np.asarray(np.maximum(load.usage[template] - used_by_others, least), np.float64)


def _more_nodes(nodes: NodeTable, like: IntArray, names: Sequence[str], now: float) -> NodeTable:
    count = len(names)
    records = tuple(_node_like(nodes.records[like[-1]], name) for name in names)
    return replace(
        nodes,
        records=(*nodes.records, *records),
        allocatable=nodes.allocatable[like],
        capacity=nodes.capacity[like],
        ready=np.concatenate([nodes.ready, np.ones(count, np.bool_)]),
        ready_since=np.concatenate([nodes.ready_since, np.full(count, now - _DAY_SECONDS)]),
        incomplete=np.concatenate([nodes.incomplete, np.zeros(count, np.bool_)]),
    )


def _node_like(template: Node, name: str) -> Node:
    labels = {**(template.metadata.labels or {}), _HOST_NAME: name}
    passing = (*CONDITION_TAINTS, *LEAVING_TAINTS)
    taints = [taint for taint in template.spec.taints or () if not matches_taint(taint, passing)]
    made = replace(template.metadata, creation_timestamp=None, deletion_timestamp=None)  # younger than all
    metadata = replace(made, name=name, uid=f"added {name}", labels=labels)
    spec = replace(template.spec, unschedulable=False, taints=taints or None)
    return Node(metadata, spec, replace(template.status, images=None))


def _seen(view: SchedulerView, template: str, names: Sequence[str], share: FloatArray) -> SchedulerView:
    """What the scheduler's plugins would see of the new nodes, once their figures are there.

    Levels follow the share of the template's usage that a new node has; a query of a plugin's own is taken
    to answer as for the template.
    """
    columns = {CPU_TYPE: 0, MEMORY_TYPE: 1}

    def scaled(metric: Metric) -> Metric:
        column = columns.get(metric.type)
        if column is None or metric.operator not in _LEVELS or not np.isfinite(share[column]):
            return metric
        return Metric(metric.type, metric.operator, metric.value * float(share[column]))

    def more(metrics: WatcherMetrics) -> WatcherMetrics:
        figures = metrics.nodes.get(template)
        if figures is None:
            return metrics
        added = {name: tuple(map(scaled, figures)) for name in names}
        return replace(metrics, nodes={**metrics.nodes, **added})

    queries: dict[tuple[str, str], Mapping[str, float]] = {}
    for key, values in view.queries.items():
        of_new_nodes: dict[str, float] = {}
        if template in values:
            of_new_nodes = dict.fromkeys(names, values[template])
        queries[key] = {**values, **of_new_nodes}
    watchers = {address: more(metrics) for address, metrics in view.watchers.items()}
    return replace(view, watchers=watchers, queries=queries)


class Rescaled(msgspec.Struct, frozen=True, eq=False):
    """What a scaling adds and removes; ``unpredictable`` is why its new replicas cannot be placed."""

    workload: Subject
    controllers: frozenset[str] = frozenset()  # uids of those that made its pods
    added: tuple[AddedPod, ...] = ()
    removed: tuple[PodRow, ...] = ()
    unpredictable: str = ""


def with_replicas(inputs: PlanningInputs, controllers: Collection[str]) -> PlanningInputs:
    """The inputs where these controllers, and those above them, want the pods that they have.

    ``controllers`` are uids. What is Pending is not ready.
    """
    pods = inputs.snapshot.pods
    lookup = Workloads(inputs.snapshot)
    replicas = Counter[str]()
    ready = Counter[str]()
    for row in map(PodRow, range(len(pods))):
        if pods.class_of(row).owner.uid in controllers and not pods.terminating[row]:
            uids = [record.metadata.uid for _, record in lookup.chain(row)]
            replicas.update(uids)
            ready.update(uids if pods.ready[row] else ())
    workloads = dict(inputs.snapshot.workloads)
    for uid, number in replicas.items():
        if uid in workloads:
            kind, record = workloads[uid]
            workloads[uid] = kind, _with_count(record, number, ready[uid])
    return replace(inputs, snapshot=replace(inputs.snapshot, workloads=workloads))


def _with_count(record: Workload, replicas: int, ready: int) -> Workload:
    spec = record.spec
    status = record.status
    is_updated = status.updated_replicas >= status.replicas
    parallelism = None if spec.parallelism is None else replicas
    return replace(
        record,
        spec=replace(spec, replicas=replicas, parallelism=parallelism),
        status=replace(
            status,
            replicas=replicas,
            ready_replicas=ready,
            available_replicas=ready,
            updated_replicas=replicas if is_updated else status.updated_replicas,
        ),
    )


def rescaled(prepared: PreparedInputs, scaling: Scaling) -> Rescaled:
    """The pods that a scaling adds or removes; InputError when the cluster has no such pods.

    New replicas are Pending pods of the class that a replacement of the newest one would have; each is
    counted with what its siblings use on average, or with its requests where that is not known. Which
    replicas a smaller number leaves is the choice of the controller: it takes those that are not ready first,
    then those that share a node with most of their siblings, then the newest.

    Source: kubernetes v1.35.4 pkg/controller/controller_utils.go:835.
    """
    pods = prepared.pods
    workload = find_subject(prepared.inputs.snapshot, scaling.workload)
    _refuse_a_part(prepared, workload)
    key = f"{workload.namespace}/{workload.kind}/{workload.name}"
    rows = [
        PodRow(row)
        for row in range(len(pods))
        if pods.namespaces[row] == workload.namespace
        and not pods.terminating[row]
        and key in (prepared.eviction.workload(PodRow(row)).key, _controller(prepared, row))
    ]
    controllers = frozenset(pods.class_of(row).owner.uid for row in rows)
    if scaling.replicas <= len(rows):
        leaving = _first_to_go(prepared, workload, rows)[: len(rows) - scaling.replicas]
        return Rescaled(workload, controllers, removed=tuple(leaving))
    if not rows:
        raise InputError(
            f"no pod of {workload.kind.lower()}/{workload.namespace}/{workload.name} shows what its pods are "
            "like",
            where=prepared.inputs.snapshot.source,
            hint="ask about its file with: rebalancer fit",
        )
    newest = max(rows, key=lambda row: (float(np.nan_to_num(pods.created[row])), pods.names[row]))
    replacement = prepared.eviction.replacement(newest)
    if replacement.unpredictable_reason:
        return Rescaled(workload, unpredictable=replacement.unpredictable_reason)
    if own_claims(pods.class_of(newest), pods.names[newest]):
        return Rescaled(
            workload, unpredictable="its claims do not exist yet, and their volumes decide where it can run"
        )
    usage = usage_like(prepared.inputs, rows, int(replacement.pod_class))
    return Rescaled(
        workload,
        controllers,
        added=tuple(
            AddedPod(
                namespace=workload.namespace,
                name=f"{workload.name}-new-{number}",
                pod_class=int(replacement.pod_class),
                node=-1,
                usage=usage,
                created=prepared.inputs.now,
            )
            for number in range(1, scaling.replicas - len(rows) + 1)
        ),
    )


def _refuse_a_part(prepared: PreparedInputs, workload: Subject) -> None:
    """InputError for a ReplicaSet of a Deployment, which alone says how many pods that one has."""
    for kind, record in prepared.inputs.snapshot.workloads.values():
        of = record.metadata
        if (kind.name, of.namespace, of.name) == (workload.kind, workload.namespace, workload.name):
            owner = controller_of(of)
            if owner is not None and owner.kind == "Deployment":
                whole = f"deployment/{of.namespace}/{owner.name}"
                raise InputError(
                    f"--scale: {whole} would scale its ReplicaSet {of.name} back", hint=f"scale {whole}"
                )


def usage_like(inputs: PlanningInputs, siblings: list[PodRow], pod_class: int) -> FloatArray:
    """(resources,) what one more pod is expected to use: as its siblings do, else what it requests."""
    usage = inputs.load.pod_usage[siblings] if siblings else np.zeros((0, len(inputs.load.resources)))
    requests = pod_requests(inputs.snapshot.pods.classes[pod_class]).incoming
    requested = requested_amounts(requests, inputs.load.resources)
    counted = np.count_nonzero(~np.isnan(usage), axis=0)
    mean = np.nansum(usage, axis=0) / np.maximum(counted, 1)
    return np.where(counted > 0, mean, requested)


def _first_to_go(prepared: PreparedInputs, workload: Subject, rows: list[PodRow]) -> list[PodRow]:
    """The replicas in the order in which a controller deletes them."""
    pods = prepared.pods
    if workload.kind == "StatefulSet":
        ordinals = {row: pods.names[row].rpartition("-")[2] for row in rows}
        return sorted(rows, key=lambda row: -int(ordinals[row]) if ordinals[row].isdecimal() else 0)
    on_node = Counter(int(pods.node[row]) for row in rows)

    def order(row: PodRow) -> tuple[bool, bool, int, int, float, str]:
        node = int(pods.node[row])
        created = float(np.nan_to_num(pods.created[row]))
        return (
            node >= 0,
            bool(pods.ready[row]),
            annotated_cost(pods.annotations[row], DELETION_COST),
            -on_node[node],
            -created,
            pods.names[row],
        )

    return sorted(rows, key=order)


def _controller(prepared: PreparedInputs, row: int) -> str:
    """The controller of a pod itself, which another one may control: ``namespace/Kind/name``."""
    owner = prepared.pods.class_of(row).owner
    return f"{prepared.pods.namespaces[row]}/{owner.kind}/{owner.name}"
