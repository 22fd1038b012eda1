"""NodePorts: host ports that are taken.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodeports/node_ports.go:157.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import PASS, SKIP, Evidence, Plugin, PreFilter
from rebalancer.scheduling.resources import marks_in_conflict, wanted_ports
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class
from rebalancer.scheduling.state.counters import PodsWithTerm


class NodePorts(Plugin):
    """Rejects nodes where another pod holds a host port the pod wants."""

    name = "NodePorts"
    needs_pre_filter = True
    points = extension_points("preFilter filter")
    evidence = Evidence.DECISIONS
    static_pre_filter = True
    reasons = {1: "node(s) didn't have free ports for the requested pod ports"}

    @once_a_class
    def _holding(self, state: ClusterState, pod_class: int) -> int:
        """The counter of the pods that hold a wanted port."""
        marks = marks_in_conflict(wanted_ports(state.classes[pod_class].spec))
        return state.classes.counters.number(PodsWithTerm(frozenset((mark, 1) for mark in marks)))

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        return PASS if wanted_ports(state.classes[pod_class].spec) else SKIP

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        return np.asarray(self.rejected(state, pod_class), np.int64)

    def rejected(self, state: ClusterState, pod_class: int) -> BoolArray:
        held: BoolArray = state.counter(self._holding(state, pod_class))[:-1] > 0
        return held
