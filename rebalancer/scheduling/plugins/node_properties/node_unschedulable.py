"""NodeUnschedulable: cordoned nodes.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go:133.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.records import Taint
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import Evidence, Plugin
from rebalancer.scheduling.matching import Tolerations
from rebalancer.scheduling.state.cluster_state import ClusterState

CORDON = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    """Rejects nodes with spec.unschedulable unless the pod tolerates the cordon's taint."""

    name = "NodeUnschedulable"
    points = extension_points("filter")
    evidence = Evidence.DECISIONS
    static = True
    reasons = {1: "node(s) were unschedulable"}

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 where the node is cordoned and the pod does not tolerate it."""
        spec = state.classes[pod_class].spec
        if Tolerations(spec.tolerations).tolerate(CORDON):
            return np.zeros(len(state.nodes), np.int64)
        return state.nodes.unschedulable.astype(np.int64)
