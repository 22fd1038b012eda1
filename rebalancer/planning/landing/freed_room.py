"""Who would take the room that an evicted pod leaves: Pending pods retry as soon as something becomes free.

If one of them fits there, the node is as full as before, and the eviction was for nothing. A class of Pending
pods is asked once for each move, and not at all on nodes that it could never use: whether labels, taints and
names admit it there does not change while a plan is made, so that is found out once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.cluster.nodes import BASE_RESOURCES
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling import ClusterState

# Filters whose verdict depends on a pod's class and the node alone.
_STATIC = frozenset({"NodeName", "NodeUnschedulable", "NodeAffinity", "TaintToleration"})


class FreedRoom:
    """The classes of Pending pods that fit nowhere, and the nodes on which they wait for room."""

    def __init__(self, schedulers: ProfileSchedulers, waiting: Sequence[int]) -> None:
        """``waiting`` are classes, in queue order."""
        self._schedulers = schedulers
        self._waiting = np.array(waiting, np.int64)
        self._never: dict[tuple[int, NodeRow], bool] = {}
        classes = schedulers.state.classes
        self._wanted = np.array(
            [classes.vector(classes.requests[index].incoming) for index in waiting], np.int64
        ).reshape(len(waiting), len(classes.resources))
        self._unfiltered = np.array(
            [not schedulers.needs_requested_room(index) for index in waiting], np.bool_
        )

    def may_be_taken_by(self, row: PodRow, source: NodeRow, state: ClusterState) -> list[int]:
        """The classes whose requests fit once a pod has left its node, and which labels and taints admit.

        ``state`` still has the pod.
        """
        if not len(self._waiting):
            return []
        classes = state.classes
        free = classes.allocatable[source] - state.requested[source]
        free = free + classes.present(state.pod_class[row])
        free[BASE_RESOURCES.index("pods")] = 1  # a pod leaves, so there is room for one
        fits = ((self._wanted <= free) | (self._wanted == 0)).all(axis=1) | self._unfiltered
        return [
            index for index in self._waiting[fits].tolist() if not self._is_shut_out(index, source, state)
        ]

    def takes(self, class_index: int, source: NodeRow, state: ClusterState) -> bool:
        """Whether pods of a class fit on a node; ``state`` is without the pod that leaves it."""
        return bool(self._schedulers.scheduler(class_index).feasible(state, class_index)[source])

    def words(self, class_index: int) -> str:
        """Who takes the room."""
        pod = self._schedulers.state.classes[class_index]
        return f"a Pending pod of {pod.namespace}/{pod.owner.name or '?'} would fit where it leaves"

    def _is_shut_out(self, class_index: int, source: NodeRow, state: ClusterState) -> bool:
        key = (class_index, source)
        if key not in self._never:
            scheduler = self._schedulers.scheduler(class_index)
            self._never[key] = bool(scheduler.rejection_at(state, class_index, source, _STATIC))
        return self._never[key]
