"""NodePorts: host ports that are taken.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodeports/node_ports.go:157.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import PASS, SKIP, Evidence, Plugin, PreFilter
from rebalancer.scheduling.state.cluster_state import ClusterState


class NodePorts(Plugin):
    """Rejects nodes where another pod holds a host port the pod wants."""

    name = "NodePorts"
    needs_pre_filter = True
    points = extension_points("preFilter filter")
    evidence = Evidence.DECISIONS
    static_pre_filter = True
    reasons = {1: "node(s) didn't have free ports for the requested pod ports"}

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        """Nothing to filter for a pod without host ports."""
        return PASS if state.classes.ports(pod_class) else SKIP

    def asking(self, state: ClusterState) -> Iterable[int]:
        """Those with host ports."""
        for kind, pod in enumerate(state.classes):
            for item in pod.spec.every_container:
                if item.ports and state.classes.ports(kind):
                    yield kind
                    break

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 where a wanted port is taken."""
        return np.asarray(state.ports.conflicts(state.classes.ports(pod_class)), np.int64)
