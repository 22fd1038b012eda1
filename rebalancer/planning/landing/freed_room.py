"""Which Pending pods may take the room that an evicted pod leaves.

Pending pods retry as soon as something becomes free. If one of them fits where the evicted pod was, its node
is as full as before, and the eviction was for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import BoolArray, NodeRow, PodRow
from rebalancer.cluster.nodes import BASE_RESOURCES
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling.state.cluster_state import ClusterState


class FreedRoom:
    """The classes of Pending pods that fit nowhere, and the nodes on which they wait for room."""

    def __init__(self, schedulers: ProfileSchedulers, waiting: Sequence[int]) -> None:
        """``waiting`` are classes, in queue order."""
        self._schedulers = schedulers
        self._waiting = np.array(waiting, np.int64)
        classes = schedulers.state.classes
        # (waiting, resources)
        self._requests = np.array(
            [classes.vector(classes.requests[index].incoming) for index in waiting], np.int64
        ).reshape(len(waiting), len(classes.resources))
        # (waiting,) whether the scheduler may place the class without room for all that it requests
        self._needs_no_room = np.array(
            [
                not schedulers.is_foreign(index) and not schedulers.needs_requested_room(index)
                for index in waiting
            ],
            np.bool_,
        )

    def may_be_taken_by(self, row: PodRow, source: NodeRow, state: ClusterState) -> list[int]:
        """The waiting classes that fit on a node once a pod has left it, by requests, labels and taints.

        ``state`` still has the pod. Other filters may yet reject them: see ``takes``.
        """
        if not len(self._waiting):
            return []
        classes = state.classes
        # (resources,) what is free once the pod has left
        free = classes.allocatable[source] - state.requested[source] + classes.present[state.pod_class[row]]
        free[BASE_RESOURCES.index("pods")] = 1  # a pod leaves, so there is room for one
        has_room = ((self._requests <= free) | (self._requests == 0)).all(axis=1)
        fits = (has_room | self._needs_no_room) & self._admitted[:, source]
        fitting: list[int] = self._waiting[fits].tolist()
        return fitting

    @cached_property
    def _admitted(self) -> BoolArray:
        """(waiting, nodes) which nodes admit each class by labels and taints, in every state alike."""
        state = self._schedulers.state
        likely = self._schedulers.likely_scheduler
        return np.array([likely(index).admitting(state, index) for index in self._waiting.tolist()])

    def takes(self, pod_class: int, source: NodeRow, state: ClusterState) -> bool:
        """Whether pods of a class fit on a node, or may; ``state`` is without the pod that leaves it."""
        if self._schedulers.is_foreign(pod_class):
            return True
        return bool(self._schedulers.scheduler(pod_class).feasible(state, pod_class)[source])

    def sentence(self, pod_class: int) -> str:
        """That a Pending pod of a class takes the room, or may."""
        pod = self._schedulers.state.classes[pod_class]
        name = f"a Pending pod of {pod.namespace}/{pod.owner.name or '?'}"
        if self._schedulers.is_foreign(pod_class):
            return f"{name}, whose scheduler {pod.scheduler_name} is not configured, may fit where it leaves"
        return f"{name} would fit where it leaves"
