"""DynamicResources: without resource claims it rejects nothing and scores 0.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go:918.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import Arguments, Input, extension_points
from rebalancer.scheduling.framework.plugin import Evidence, Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState


class DynamicResourcesArguments(Arguments):
    """Arguments of DynamicResources."""

    filter_timeout: str | None = None
    binding_timeout: str | None = None


class DynamicResources(Plugin):
    """Exact for pods without resource claims; the landings of others are reported as unpredictable."""

    name = "DynamicResources"
    points = extension_points("preEnqueue preFilter filter postFilter score reserve preBind")
    Arguments = DynamicResourcesArguments
    inputs = frozenset({Input.RESOURCE_CLAIMS})
    evidence = Evidence.DECISIONS
    static = True

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        return np.zeros(len(feasible), np.int64)
