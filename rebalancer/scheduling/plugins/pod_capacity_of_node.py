"""PodCapacityOfNode: the fewer pods, the higher the score.

Source: the scores its article shows.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.nodes import PODS_COLUMN
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Evidence, Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState


def capacity_score(free: IntArray, allocatable: IntArray) -> IntArray:
    """(…, nodes) the free share of the pods that a node may have, floored; 0 where there is no room."""
    return np.where(allocatable > 0, MAX_SCORE * np.maximum(free, 0) // np.maximum(allocatable, 1), 0)


class PodCapacityOfNode(Plugin):
    """Scores 100·(A − c) ÷ A for c pods before placement and A allocatable; not normalised."""

    name = "PodCapacityOfNode"
    points = extension_points("score")
    scored_resources = frozenset({"pods"})
    is_in_range = True
    evidence = Evidence.ARTICLE

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """The free share of the node's pods, floored; 0 for a node without room or capacity."""
        allocatable = state.classes.allocatable[feasible, PODS_COLUMN]
        return capacity_score(allocatable - state.pod_count[feasible], allocatable)
