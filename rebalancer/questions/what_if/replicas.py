"""Workloads that are scaled on the copy of a cluster.

New replicas are Pending pods of the class that a replacement of the newest one would have; each is counted
with what its siblings use on average, or with its requests where that is not known. Which replicas a smaller
number leaves is the choice of the controller: it takes those that are not ready first, then those that share
a node with most of their siblings, then the newest.

Source: kubernetes v1.35.4 pkg/controller/controller_utils.go:835.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.errors import InputError
from rebalancer.planning import PlanningInputs, PreparedInputs, Subject, find_subject
from rebalancer.planning.workloads.stateful_sets import own_claims
from rebalancer.questions.what_if.changes import Scaling
from rebalancer.questions.what_if.pod_rows import AddedPod
from rebalancer.scheduling import pod_requests, requested_amounts

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


@dataclass(frozen=True, slots=True, eq=False)
class Rescaled:
    """What a scaling adds and removes; ``unpredictable`` is why its new replicas cannot be placed."""

    workload: Subject
    added: tuple[AddedPod, ...] = ()
    removed: tuple[PodRow, ...] = ()
    unpredictable: str = ""


def rescaled(prepared: PreparedInputs, scaling: Scaling) -> Rescaled:
    """The pods that a scaling adds or removes; InputError when the cluster has no such pods."""
    pods = prepared.pods
    workload = find_subject(prepared.inputs.snapshot, scaling.workload)
    key = f"{workload.namespace}/{workload.kind}/{workload.name}"
    rows = [
        PodRow(row)
        for row in range(len(pods))
        if pods.namespaces[row] == workload.namespace
        and not pods.terminating[row]
        and key in (prepared.eviction.workload(PodRow(row)).key, _controller(prepared, row))
    ]
    if scaling.replicas <= len(rows):
        leaving = _first_to_go(prepared, workload, rows)[: len(rows) - scaling.replicas]
        return Rescaled(workload, removed=tuple(leaving))
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
    usage = usage_like(prepared.inputs, rows, int(replacement.class_index))
    return Rescaled(
        workload,
        added=tuple(
            AddedPod(
                namespace=workload.namespace,
                name=f"{workload.name}-new-{number}",
                pod_class=int(replacement.class_index),
                node=-1,
                usage=usage,
                created=prepared.inputs.now,
            )
            for number in range(1, scaling.replicas - len(rows) + 1)
        ),
    )


def usage_like(inputs: PlanningInputs, siblings: list[PodRow], class_index: int) -> FloatArray:
    """(resources,) what one more pod is expected to use: as its siblings do, else what it requests."""
    known = inputs.load.pod_usage[siblings] if siblings else np.zeros((0, len(inputs.load.resources)))
    requests = pod_requests(inputs.snapshot.pods.classes[class_index]).incoming
    wanted = requested_amounts(requests, inputs.load.resources)
    counted = np.count_nonzero(~np.isnan(known), axis=0)
    mean = np.nansum(known, axis=0) / np.maximum(counted, 1)
    return np.where(counted > 0, mean, wanted)


def _first_to_go(prepared: PreparedInputs, workload: Subject, rows: list[PodRow]) -> list[PodRow]:
    """The replicas in the order in which a controller deletes them."""
    pods = prepared.pods
    if workload.kind == "StatefulSet":
        return sorted(rows, key=lambda row: -_ordinal(pods.names[row]))
    on_node = Counter(int(pods.node[row]) for row in rows)

    def order(row: PodRow) -> tuple[bool, bool, float, int, float, str]:
        node = int(pods.node[row])
        cost = pods.annotations[row].get(_DELETION_COST, "0")
        created = float(np.nan_to_num(pods.created[row]))
        return (
            node >= 0,
            bool(pods.ready[row]),
            float(cost) if cost.removeprefix("-").isdecimal() else 0.0,
            -on_node[node],
            -created,
            pods.names[row],
        )

    return sorted(rows, key=order)


def _ordinal(name: str) -> int:
    ordinal = name.rpartition("-")[2]
    return int(ordinal) if ordinal.isdecimal() else 0


def _controller(prepared: PreparedInputs, row: int) -> str:
    """The controller of a pod itself, which another one may control: ``namespace/Kind/name``."""
    owner = prepared.pods.class_of(row).owner
    return f"{prepared.pods.namespaces[row]}/{owner.kind}/{owner.name}"
