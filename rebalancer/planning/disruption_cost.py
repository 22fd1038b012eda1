"""What it costs to restart a pod.

Every eviction costs 1, for the restart alone; what makes a restart worse adds to it. So a move of cost 2 must
remove twice the excess of a move of cost 1 to be as worthwhile.

    web-1   one of 10 replicas, ready within 3 s in earlier runs   1 + 0.5 × 0.1 + 0.5 × 0.01        = 1.06
    db-0    one of 2 replicas, 150 s until ready, one volume       1 + 0.5 × 0.5 + 0.5 × 0.5 + 0.25  = 1.75
    api-1   one of 10 replicas, one of them was moved to its node  1 + 0.5 × 0.1 + 4 × 1             = 5.05

Each level of ``planning.aggressiveness`` asks for a least relief: the points above coolTo that a move must
remove for each unit, from 6 at the first level to none at the last. On a node of many small pods no move
removes as much, yet together they may cool it. So where a node's movable pods suffice to end its being hot, a
move is judged by what is usual there: half of what they remove for each unit is enough, down to a tenth of
that least. A node that stays hot whatever moves is not worth many small restarts.

    least relief 1  pods of 20 points at a cost of 1    usual 20    a move must remove 1 point
                    pods of 0.8 points                  usual 0.8   0.4 points
                    pods of 0.1 points                  usual 0.1   0.1 points, a tenth of it
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.workloads.lookup import WorkloadInfo, Workloads
from rebalancer.state.run_state import COOLDOWN_WINDOW_SECONDS, RunState

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"
# Whoever owns a pod may annotate it with any text. Zeros may lead behind a minus only: pkg/apis/core/helper,
# GetDeletionCostFromPodAnnotations.
_NUMBER = re.compile(r"(?:(-)0*)?([1-9]\d{0,9})", re.ASCII)
_SLOW_SECONDS = 300.0  # time until ready at which its cost reaches its maximum
_MANY_VOLUMES = 2  # with so many their cost reaches its maximum
_OLD_SECONDS = 7 * 86_400.0  # age at which the cost of age reaches its maximum
# Pods of one hour are as old, or the order of two whose costs are rounded would change from plan to plan.
_CREATED_WITHIN_SECONDS = 3600.0
_SHARE_OF_USUAL = 0.5  # a move that removes so much of what is usual on its node, for its cost, is worthwhile
_SHARE_OF_ASKED = 0.1  # of the least relief, which every move must remove for each unit, whatever is usual

# How much each aspect of a restart, from 0 to 1, counts beside 1 for the restart itself. What counts more in
# one cluster than in another is a key of ``planning.weights``.
_WEIGHTS: Mapping[str, float] = {
    # What their owners annotate is a wish: another pod goes first if it relieves half as much.
    "pod_deletion_cost": 1.0,
    "eviction_cost": 1.0,
    "age": 0.1,  # an old pod is no better than a young one but for its caches: it decides between equals
    "replicas": 0.5,  # one of two replicas serves half of the requests
    "readiness": 0.5,
    "volumes": 0.5,  # detaching and attaching a volume takes about as long as a slow start
    "moved_here": 4.0,  # so that a node is left by the pods first that no run has brought there
}


class Disruption:
    """Weighs the pods of a node against one another."""

    def __init__(self, inputs: PlanningInputs, workloads: Workloads) -> None:
        self._inputs = inputs
        self._pods = inputs.snapshot.pods
        self._workloads = workloads
        self._weights = inputs.policy.planning.weights
        self._took = seconds_to_ready(inputs.state)

    def costs(self, rows: Sequence[PodRow]) -> FloatArray:
        """(rows,) what restarting each pod costs: the weighted sum of its aspects."""
        of_policy = {"priority": self._weights.priority, "time_to_ready": self._weights.time_to_ready}
        weights = {**_WEIGHTS, **of_policy}
        total = np.zeros(len(rows))
        for name, values in self.aspects(rows).items():
            total += weights[name] * values
        return total

    def aspects(self, rows: Sequence[PodRow]) -> Mapping[str, FloatArray]:
        """(rows,) by aspect: how bad a restart of each pod is in it, from 0 to 1."""
        workloads = [self._workloads.of(row) for row in rows]
        priorities = np.array([self._pods.class_of(row).priority for row in rows], np.float64)
        annotations = [self._pods.annotations[row] for row in rows]
        deletion = np.array([annotated_cost(of_pod, DELETION_COST) for of_pod in annotations], np.float64)
        eviction = np.array([annotated_cost(of_pod, EVICTION_COST) for of_pod in annotations], np.float64)
        created = self._pods.created[list(rows)] // _CREATED_WITHIN_SECONDS * _CREATED_WITHIN_SECONDS
        ages = self._inputs.now - created
        age = np.clip(np.nan_to_num(ages, nan=_OLD_SECONDS) / _OLD_SECONDS, 0.0, 1.0)
        few = np.array([1.0 / max(workload.desired or 1, 1) for workload in workloads])
        degraded = np.array([_unready_share(workload) for workload in workloads])
        names = self._inputs.snapshot.nodes.names
        here = [
            (workload.key, names[self._pods.node[row]]) for row, workload in zip(rows, workloads, strict=True)
        ]
        unready = ~self._pods.ready[list(rows)]  # restarting an unready pod takes nothing away
        return {
            "priority": _spread(priorities),
            "pod_deletion_cost": _spread(deletion),
            "age": age,
            "replicas": few,
            "readiness": np.where(unready, 0.0, degraded),
            "eviction_cost": _spread(eviction),
            "time_to_ready": np.array([self._slowness(workload) for workload in workloads]),
            "volumes": np.array([self._volumes(row) for row in rows]),
            "moved_here": np.array([place in self._brought for place in here], np.float64),
        }

    def _volumes(self, row: PodRow) -> float:
        """From 0 without persistent volumes to 1 with several."""
        volumes = self._pods.class_of(row).spec.volumes or ()
        claims = sum(1 for volume in volumes if volume.persistent_volume_claim or volume.ephemeral)
        return min(claims / _MANY_VOLUMES, 1.0)

    def _slowness(self, workload: WorkloadInfo) -> float:
        """From 0 to 1 by how long the replacements of earlier runs took to be ready; 0 without any."""
        seconds = self._took.get(workload.key)
        return 0.0 if seconds is None else min(float(np.median(seconds)) / _SLOW_SECONDS, 1.0)

    @cached_property
    def _brought(self) -> frozenset[tuple[str, str]]:
        """The workloads that runs moved lately, each with a node that it was moved to."""
        state = self._inputs.state
        since = self._inputs.now - COOLDOWN_WINDOW_SECONDS
        moves = state.moves if state else ()
        return frozenset(
            (f"{move.namespace}/{move.workload}", move.to_node)
            for move in moves
            if move.to_node and move.evicted_at > since
        )


def annotated_cost(annotations: Mapping[str, str], name: str) -> int:
    """The 32-bit number of an annotation; 0 where it has none, as the ReplicaSet controller reads it."""
    match = _NUMBER.fullmatch(annotations.get(name, ""))
    number = int(f"{match[1] or ''}{match[2]}") if match else 0
    return number if -(1 << 31) <= number < 1 << 31 else 0


def seconds_to_ready(state: RunState | None) -> Mapping[str, list[float]]:
    """How long each replacement of earlier runs took, by the key of its workload."""
    seconds_by_workload: dict[str, list[float]] = defaultdict(list)
    for move in state.moves if state else ():
        if move.landed_at is not None:
            key = f"{move.namespace}/{move.workload}"
            seconds_by_workload[key].append(max(move.landed_at - move.evicted_at, 0.0))
    return seconds_by_workload


def least_relief(asked: float, usual: float) -> float:
    """The points that a move off a node must remove for each unit of its cost.

    ``asked`` is the least relief of a level of aggressiveness, ``usual`` what is usual on the node.
    """
    return max(min(asked, _SHARE_OF_USUAL * usual), _SHARE_OF_ASKED * asked)


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
