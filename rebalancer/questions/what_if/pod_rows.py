"""Pods added to inputs and taken away from them: rows of the pod table and of the load report together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.columns.listed_pods import NO_ANNOTATIONS, PHASES
from rebalancer.cluster.columns.pods import PodTable
from rebalancer.load.usage import PodMethod
from rebalancer.planning import PlanningInputs

_RUNNING, _PENDING = PHASES.index("Running"), PHASES.index("Pending")


@dataclass(frozen=True, slots=True, eq=False)
class AddedPod:
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
    pods, load = inputs.snapshot.pods, inputs.load
    bound = np.array([item.node >= 0 for item in added], np.bool_)
    created = np.array([item.created for item in added], np.float64)
    table = dataclasses.replace(
        pods,
        names=(*pods.names, *(item.name for item in added)),
        namespaces=(*pods.namespaces, *(item.namespace for item in added)),
        uids=(*pods.uids, *(f"added {item.namespace}/{item.name}" for item in added)),
        node=np.concatenate([pods.node, np.array([item.node for item in added], np.int64)]),
        node_unknown=np.concatenate([pods.node_unknown, np.zeros(len(added), np.bool_)]),
        pod_class=np.concatenate([pods.pod_class, np.array([item.pod_class for item in added], np.int64)]),
        phase=np.concatenate([pods.phase, np.where(bound, _RUNNING, _PENDING)]),
        created=np.concatenate([pods.created, created]),
        started=np.concatenate([pods.started, np.where(bound, created, np.nan)]),
        terminating=np.concatenate([pods.terminating, np.zeros(len(added), np.bool_)]),
        ready=np.concatenate([pods.ready, bound]),
        annotations=(*pods.annotations, *(NO_ANNOTATIONS for _ in added)),
    )
    usage = np.array([item.usage for item in added], np.float64).reshape(len(added), len(load.resources))
    methods = np.where(np.isnan(usage), int(PodMethod.UNKNOWN), int(PodMethod.REQUEST))
    load = dataclasses.replace(
        load,
        pod_usage=np.concatenate([load.pod_usage, usage]),
        pod_methods=np.concatenate([load.pod_methods, methods]),
    )
    return _counted(inputs, table, dataclasses.replace(inputs, load=load))


def without_pods(inputs: PlanningInputs, rows: Sequence[int]) -> PlanningInputs:
    """The inputs without some pods, nor what they use; what is not known of that stays on the node."""
    if not rows:
        return inputs
    pods, load = inputs.snapshot.pods, inputs.load
    usage = load.usage.copy()
    for row in rows:
        if pods.node[row] >= 0:
            usage[pods.node[row]] -= np.nan_to_num(load.pod_usage[row])
    gone = set(rows)
    kept = [row for row in range(len(pods)) if row not in gone]
    new_row = {old: new for new, old in enumerate(kept)}
    at = np.array(kept, np.int64)
    table = dataclasses.replace(
        pods,
        names=tuple(pods.names[row] for row in kept),
        namespaces=tuple(pods.namespaces[row] for row in kept),
        uids=tuple(pods.uids[row] for row in kept),
        node=pods.node[at],
        node_unknown=pods.node_unknown[at],
        pod_class=pods.pod_class[at],
        phase=pods.phase[at],
        created=pods.created[at],
        started=pods.started[at],
        terminating=pods.terminating[at],
        ready=pods.ready[at],
        annotations=tuple(pods.annotations[row] for row in kept),
        nominated={new_row[row]: node for row, node in pods.nominated.items() if row in new_row},
    )
    load = dataclasses.replace(
        load,
        usage=np.maximum(usage, 0.0),
        pod_usage=load.pod_usage[at],
        pod_methods=load.pod_methods[at],
    )
    return _counted(inputs, table, dataclasses.replace(inputs, load=load))


def _counted(inputs: PlanningInputs, table: PodTable, changed: PlanningInputs) -> PlanningInputs:
    """The changed inputs with this pod table, and the pods on each node counted anew."""
    bound = table.node[table.node >= 0]
    count = np.bincount(bound, minlength=len(inputs.snapshot.nodes)).astype(np.int64)
    snapshot = dataclasses.replace(changed.snapshot, pods=table)
    load = dataclasses.replace(changed.load, pod_count=count)
    return dataclasses.replace(changed, snapshot=snapshot, load=load)
