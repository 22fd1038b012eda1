"""What it costs to restart a pod, weighed by the policy: a number that is only good for comparing pods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.workloads.lookup import WorkloadInfo, Workloads

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_OLD_SECONDS = 7 * 86_400.0  # age at which the cost of age reaches its maximum


class Disruption:
    """Weighs the pods of a node against one another."""

    def __init__(self, inputs: PlanningInputs, workloads: Workloads) -> None:
        self._inputs = inputs
        self._pods = inputs.snapshot.pods
        self._workloads = workloads
        self._weights = inputs.policy.planning.weights

    def costs(self, rows: Sequence[PodRow]) -> FloatArray:
        """(rows,) the weighted sum of the costs of restarting each pod, every one of them from 0 to 1."""
        weights, workloads = self._weights, [self._workloads.of(row) for row in rows]
        priorities = np.array([self._pods.class_of(row).priority for row in rows], np.float64)
        deletion = np.array([self._deletion_cost(row) for row in rows], np.float64)
        ages = self._inputs.now - self._pods.created[list(rows)]
        age = np.clip(np.nan_to_num(ages, nan=_OLD_SECONDS) / _OLD_SECONDS, 0.0, 1.0)
        few = np.array([1.0 / max(item.desired or 1, 1) for item in workloads])
        degraded = np.array([_unready_share(item) for item in workloads])
        unready = ~self._pods.ready[list(rows)]  # restarting an unready pod takes nothing away
        return np.asarray(
            weights.priority * _spread(priorities)
            + weights.pod_deletion_cost * _spread(deletion)
            + weights.age * age
            + weights.replicas * few
            + weights.readiness * np.where(unready, 0.0, degraded),
            np.float64,
        )

    def _deletion_cost(self, row: PodRow) -> int:
        """The annotation's number; 0 where there is none or it is no number, as the ReplicaSet controller."""
        try:
            return int(self._pods.annotations[row].get(DELETION_COST, "0"))
        except ValueError:
            return 0


def _spread(values: FloatArray) -> FloatArray:
    """From 0 for the smallest to 1 for the largest; 0 where all are the same."""
    if not len(values) or values.max() == values.min():
        return np.zeros(len(values))
    return np.asarray((values - values.min()) / (values.max() - values.min()), np.float64)


def _unready_share(workload: WorkloadInfo) -> float:
    """Which share of the wanted replicas is not ready; 0 where that is not known."""
    if workload.record is None or not workload.desired or workload.owner.kind == "Job":
        return 0.0
    return min(max(1.0 - workload.record.status.ready_replicas / workload.desired, 0.0), 1.0)
