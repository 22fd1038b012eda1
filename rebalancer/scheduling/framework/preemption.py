"""What happens to a pod that no node admits: it preempts pods of lower priority, or waits.

Which of the possible nodes the scheduler would choose, and which pods there it would spare, is not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.state.cluster_state import GONE, ClusterState

PLUGIN = "DefaultPreemption"


@dataclass(frozen=True, slots=True, eq=False)
class Preemption:
    """Rows of the nodes that would admit the pod without the pods of lower priority there."""

    nodes: IntArray  # ascending; empty: it would stay Pending
    victims: tuple[int, ...] = ()  # pods of lower priority on the first of them


NONE = Preemption(np.zeros(0, np.int64))


class Preemptions:
    """Possible preemptions on one state; what depends only on the priority is computed once."""

    def __init__(self, state: ClusterState) -> None:
        """``state`` is not changed."""
        self._state = state
        self._without: dict[int, ClusterState | None] = {}

    def of(self, scheduler: Scheduler, class_index: int) -> Preemption:
        """The preemption possible for a pod of a class that no node admits."""
        pod = self._state.classes[class_index]
        if PLUGIN not in scheduler.profile.enabled(ExtensionPoint.POST_FILTER):
            return NONE
        if pod.spec.preemption_policy == "Never":
            return NONE
        without = self._without_lower(pod.priority)
        if without is None:
            return NONE
        nodes = np.flatnonzero(scheduler.feasible(without, class_index))
        victims = self._lower_on(int(nodes[0]), pod.priority) if len(nodes) else ()
        return Preemption(nodes, victims)

    def _without_lower(self, priority: int) -> ClusterState | None:
        """The state without the pods of lower priority; None when there are none."""
        if priority not in self._without:
            state = self._state
            lower = np.array([pod.priority < priority for pod in state.classes], np.bool_)
            node, pod_class = state.node.values(), state.pod_class.values()
            leaving = lower[pod_class] & (node >= 0)
            terminating = state.terminating.values().astype(np.bool_)
            self._without[priority] = (
                ClusterState(state.classes, np.where(leaving, GONE, node), pod_class, terminating)
                if leaving.any()
                else None
            )
        return self._without[priority]

    def _lower_on(self, node: int, priority: int) -> tuple[int, ...]:
        classes = self._state.classes
        return tuple(
            pod
            for pod, where in enumerate(self._state.node)
            if where == node and classes[self._state.pod_class[pod]].priority < priority
        )
