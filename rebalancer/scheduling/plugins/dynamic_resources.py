"""DynamicResources: without resource claims it rejects nothing and scores 0.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go:918.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState


class DynamicResources(Plugin):
    """Pods with resource claims never come here: they are protected."""

    name = "DynamicResources"
    points = frozenset({ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.SCORE})
    static = True

    def raw_scores(self, state: ClusterState, class_index: int, feasible: IntArray) -> IntArray:
        """0 everywhere."""
        return np.zeros(len(feasible), np.int64)
