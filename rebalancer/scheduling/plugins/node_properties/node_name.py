"""NodeName: a pod that names its node.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodename/node_name.go:72.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.rules import OLD_NODE_REASONS


class NodeName(Plugin):
    """Rejects nodes other than spec.nodeName; a pod that has one is bound already."""

    name = "NodeName"
    points = extension_points("filter")
    static = True
    reasons = {1: "node(s) didn't match the requested node name"}

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 on every node but the one named."""
        node_name = state.classes[pod_class].spec.node_name
        if not node_name:
            return np.zeros(len(state.nodes), np.int64)
        return np.array([name != node_name for name in state.nodes.names], np.int64)

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        if state.classes.release.has(OLD_NODE_REASONS):
            return "node(s) didn't match the requested hostname"
        return self.reasons[code]

    def concerns(self, state: ClusterState, pod_class: int) -> bool:
        return bool(state.classes[pod_class].spec.node_name)
