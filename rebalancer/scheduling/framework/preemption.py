"""Preemption: on which nodes a pod that no node admits could take the room of pods of lower priority.

rebalancer models neither which of these nodes the scheduler would choose, nor which pods it would spare.
"""

from __future__ import annotations

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.state.cluster_state import GONE, ClusterState

# PreemptionToleration is of scheduler-plugins. It spares some pods that DefaultPreemption would evict.
_PREEMPTING = frozenset({"DefaultPreemption", "PreemptionToleration"})


class Preemption(msgspec.Struct, frozen=True, eq=False):
    """The nodes that would admit a pod if all pods of lower priority left them."""

    nodes: IntArray  # rows, ascending; empty: the pod would stay Pending
    victims: tuple[int, ...] = ()  # the pods of lower priority on the first of them


_NO_PREEMPTION = Preemption(np.zeros(0, np.int64))


class Preemptions:
    """Finds possible preemptions on one state, which it leaves as it is."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._without_lower: dict[tuple[int, int], tuple[ClusterState, IntArray] | None] = {}

    def of(self, scheduler: Scheduler, pod_class: int) -> Preemption:
        """The preemption that is possible for a pod of a class; ask it of a pod that no node admits.

        That may also be so only after moves of a plan, which the state does not have.
        """
        pod = self._state.classes[pod_class]
        if _PREEMPTING.isdisjoint(scheduler.profile.enabled(ExtensionPoint.POST_FILTER)):
            return _NO_PREEMPTION
        if pod.spec.preemption_policy == "Never":
            return _NO_PREEMPTION
        without_lower = self._without_lower_priority(pod.priority, scheduler)
        if without_lower is None:
            return _NO_PREEMPTION
        emptied, nodes_emptied = without_lower
        feasible = np.flatnonzero(scheduler.feasible_as_seen(emptied, pod_class))
        nodes = np.intersect1d(feasible, nodes_emptied)
        if not len(nodes):
            return _NO_PREEMPTION
        return Preemption(nodes, self._lower_on(int(nodes[0]), pod.priority))

    def _without_lower_priority(
        self, priority: int, scheduler: Scheduler
    ) -> tuple[ClusterState, IntArray] | None:
        """What a scheduler sees without the pods of lower priority, and their nodes; None where none is.

        It depends only on the priority and on what the scheduler sees, so it is computed once for each.
        """
        key = priority, scheduler.view
        if key not in self._without_lower:
            state = self._state.seen_by(scheduler.view)
            is_lower = np.array([pod.priority < priority for pod in state.classes], np.bool_)  # (classes,)
            node = state.node.values()
            pod_class = state.pod_class.values()
            leaving = is_lower[pod_class] & (node >= 0)  # (pods,)
            terminating = state.terminating.values().astype(np.bool_)
            emptied = ClusterState(state.classes, np.where(leaving, GONE, node), pod_class, terminating)
            self._without_lower[key] = (emptied, node[leaving]) if leaving.any() else None
        return self._without_lower[key]

    def _lower_on(self, node: int, priority: int) -> tuple[int, ...]:
        """The pods of lower priority on a node."""
        classes = self._state.classes
        return tuple(
            pod
            for pod, node_of_pod in enumerate(self._state.node)
            if node_of_pod == node and classes[self._state.pod_class[pod]].priority < priority
        )
