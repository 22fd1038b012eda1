"""Nodes that are added or cordoned on the copy of a cluster.

An added node is like its template: the same labels but for its host name, the same taints but for those of a
condition, the same DaemonSet and static pods, and what these and the template's own system use. It holds no
images and is the last that the scheduler comes to know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.cluster.columns.nodes import NodeTable
from rebalancer.cluster.kinds import CSI_NODES
from rebalancer.cluster.leaving_nodes import CONDITION_TAINTS, LEAVING_TAINTS, matches_taint
from rebalancer.cluster.records import CsiNode, Node, Taint
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    LATEST,
    MEMORY_TYPE,
    Metric,
    SchedulerView,
    WatcherMetrics,
)
from rebalancer.planning import PlanningInputs
from rebalancer.questions.what_if.pod_rows import AddedPod, with_pods

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
Number = TypeVar("Number", np.int64, np.float64)

_HOST_NAME = "kubernetes.io/hostname"
_OF_THEIR_NODE = frozenset({"DaemonSet", "Node"})  # owners of pods that every such node has
_DAY_SECONDS = 86_400.0
_LEVELS = frozenset({AVERAGE, LATEST, ""})  # operators of figures that follow the load


def with_cordoned(inputs: PlanningInputs, rows: Sequence[NodeRow]) -> PlanningInputs:
    """The inputs with these nodes unschedulable, and tainted as Kubernetes taints such nodes."""
    if not rows:
        return inputs
    records = list(inputs.snapshot.nodes.records)
    for row in rows:
        node = records[row]
        taints = [item for item in node.spec.taints or () if item.key != UNSCHEDULABLE.key]
        spec = msgspec.structs.replace(node.spec, unschedulable=True, taints=[*taints, UNSCHEDULABLE])
        records[row] = msgspec.structs.replace(node, spec=spec)
    nodes = dataclasses.replace(inputs.snapshot.nodes, records=tuple(records))
    return dataclasses.replace(inputs, snapshot=dataclasses.replace(inputs.snapshot, nodes=nodes))


def with_added_nodes(inputs: PlanningInputs, template: NodeRow, count: int) -> PlanningInputs:
    """The inputs with ``count`` more nodes like one of them, the last rows of the table."""
    nodes, load, pods = inputs.snapshot.nodes, inputs.load, inputs.snapshot.pods
    first = len(nodes)
    names = _new_names(nodes, nodes.names[template], count)
    own = [
        PodRow(row)
        for row in pods.by_node.get(template, np.zeros(0, np.int64)).tolist()
        if pods.class_of(row).owner.kind in _OF_THEIR_NODE and not pods.terminating[row]
    ]
    usage = _idle_usage(inputs, template, own)
    template_usage = load.usage[template].copy()
    load = dataclasses.replace(
        load,
        usage=np.concatenate([load.usage, np.tile(usage, (count, 1))]),
        measured_at=_more(load.measured_at, template, count),
        source=_more(load.source, template, count),
        window_seconds=_more(load.window_seconds, template, count),
        allocatable=_more(load.allocatable, template, count),
        deviation=None if load.deviation is None else _more(load.deviation, template, count),
        pressure={
            name: np.concatenate([values, np.full(count, np.nan)]) for name, values in load.pressure.items()
        },
        pod_count=np.concatenate([load.pod_count, np.zeros(count, np.int64)]),
    )
    snapshot = dataclasses.replace(inputs.snapshot, nodes=_more_nodes(nodes, template, names, inputs.now))
    recording = snapshot.recording
    if recording.has(CSI_NODES):
        listings = dict(recording.listings)
        listing = listings[CSI_NODES.plural]
        more = _csi_nodes(listing.records, nodes.names[template], names)
        listings[CSI_NODES.plural] = dataclasses.replace(listing, records=(*listing.records, *more))
        snapshot = dataclasses.replace(snapshot, recording=dataclasses.replace(recording, listings=listings))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(template_usage > 0, usage / template_usage, 1.0)
    inputs = dataclasses.replace(
        inputs, snapshot=snapshot, load=load, view=_seen(inputs.view, nodes.names[template], names, share)
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


def _new_names(nodes: NodeTable, template: str, count: int) -> tuple[str, ...]:
    names: list[str] = []
    number = 1
    while len(names) < count:
        name = f"{template}-new-{number}"
        if name not in nodes.row:
            names.append(name)
        number += 1
    return tuple(names)


def _idle_usage(inputs: PlanningInputs, template: NodeRow, own: Sequence[PodRow]) -> FloatArray:
    """(resources,) what the template would use without the pods that a new node does not get; NaN unknown."""
    load, pods = inputs.load, inputs.snapshot.pods
    others = [row for row in pods.by_node.get(template, np.zeros(0, np.int64)).tolist() if row not in own]
    used_by_others = np.nan_to_num(load.pod_usage[others]).sum(axis=0)
    least = np.nan_to_num(load.pod_usage[list(own)]).sum(axis=0) if own else np.zeros(len(load.resources))
    return np.asarray(np.maximum(load.usage[template] - used_by_others, least), np.float64)


def _more(values: NDArray[Number], template: NodeRow, count: int) -> NDArray[Number]:
    """A column of the nodes with the template's value for each of the new ones."""
    return np.concatenate([values, np.repeat(values[template : template + 1], count, axis=0)])


def _more_nodes(nodes: NodeTable, template: NodeRow, names: Sequence[str], now: float) -> NodeTable:
    count = len(names)
    records = tuple(_node_like(nodes.records[template], name) for name in names)
    return dataclasses.replace(
        nodes,
        records=(*nodes.records, *records),
        allocatable=_more(nodes.allocatable, template, count),
        capacity=_more(nodes.capacity, template, count),
        ready=np.concatenate([nodes.ready, np.ones(count, np.bool_)]),
        ready_since=np.concatenate([nodes.ready_since, np.full(count, now - _DAY_SECONDS)]),
        incomplete=np.concatenate([nodes.incomplete, np.zeros(count, np.bool_)]),
    )


def _node_like(template: Node, name: str) -> Node:
    labels = {**(template.metadata.labels or {}), _HOST_NAME: name}
    passing = (*CONDITION_TAINTS, *LEAVING_TAINTS)
    taints = [item for item in template.spec.taints or () if not matches_taint(item, passing)]
    metadata = msgspec.structs.replace(
        template.metadata, name=name, uid=f"added {name}", labels=labels, deletion_timestamp=None
    )
    spec = msgspec.structs.replace(template.spec, unschedulable=False, taints=taints or None)
    return Node(metadata, spec, msgspec.structs.replace(template.status, images=None))


def _csi_nodes(records: Sequence[object], template: str, names: Sequence[str]) -> list[CsiNode]:
    """The drivers of the template on every new node."""
    found = next(
        (item for item in records if isinstance(item, CsiNode) and item.metadata.name == template), None
    )
    if found is None:
        return []
    return [CsiNode(msgspec.structs.replace(found.metadata, name=name), found.spec) for name in names]


def _seen(view: SchedulerView, template: str, names: Sequence[str], share: FloatArray) -> SchedulerView:
    """What the scheduler's plugins would see of the new nodes, once their figures are there.

    Levels follow the share of the template's usage that a new node has; a query of a plugin's own is taken
    to answer as for the template.
    """
    columns = {CPU_TYPE: 0, MEMORY_TYPE: 1}

    def scaled(item: Metric) -> Metric:
        column = columns.get(item.type)
        if column is None or item.operator not in _LEVELS or not np.isfinite(share[column]):
            return item
        return Metric(item.type, item.operator, item.value * float(share[column]))

    def more(metrics: WatcherMetrics) -> WatcherMetrics:
        figures = metrics.nodes.get(template)
        if figures is None:
            return metrics
        added = {name: tuple(map(scaled, figures)) for name in names}
        return dataclasses.replace(metrics, nodes={**metrics.nodes, **added})

    queries: dict[tuple[str, str], Mapping[str, float]] = {}
    for key, values in view.queries.items():
        known = dict.fromkeys(names, values[template]) if template in values else {}
        queries[key] = {**values, **known}
    watchers = {address: more(metrics) for address, metrics in view.watchers.items()}
    return dataclasses.replace(view, watchers=watchers, queries=queries)
