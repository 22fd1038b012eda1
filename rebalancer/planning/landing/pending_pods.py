"""Pods that are Pending already: they compete for the same room, so they are placed before any move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling import ClusterState, requested_amounts, waiting_pods

# Classes of Pending pods that fit nowhere, looked at again whenever a move would free room.
MAX_WAITING_CLASSES = 20


@dataclass(frozen=True, slots=True)
class Pending:
    """What became of the Pending pods in the model."""

    waiting: Sequence[int]  # classes that fit nowhere, in queue order
    placed: int
    unplaced: int


def place_pending(
    inputs: PlanningInputs, schedulers: ProfileSchedulers, state: ClusterState, usage: FloatArray
) -> Pending:
    """Bind every feasible Pending pod in ``state`` where it most likely lands; add its request to ``usage``.

    What they will use is not known yet; their requests are the best estimate.
    """
    pods = inputs.snapshot.pods
    infeasible: dict[int, None] = {}
    placed = unplaced = 0
    for row in waiting_pods(state, pods):
        class_index = state.pod_class[row]
        scheduler = schedulers.by_name.get(pods.classes[class_index].scheduler_name)
        if scheduler is None:
            continue
        placement = None if class_index in infeasible else scheduler.place(state, class_index, row)
        if placement is None or not len(placement.feasible) or not placement.chance.any():
            infeasible.setdefault(class_index)
            unplaced += 1
            continue
        target = int(placement.feasible[int(np.argmax(placement.chance))])
        state.bind(row, target)
        usage[target] += requested_amounts(
            state.classes.requests[class_index].incoming, inputs.load.resources
        )
        placed += 1
    return Pending(tuple(infeasible)[:MAX_WAITING_CLASSES], placed, unplaced)
