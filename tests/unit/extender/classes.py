"""Scores of the user's own, as a file names them."""

from __future__ import annotations

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState


class FewPods(Plugin):
    """A hundred less the number of pods."""

    name = "FewPods"
    points = extension_points("score")

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        return 100 - state.pod_count[feasible].clip(max=100)


class Raises(Plugin):
    """One with a mistake."""

    name = "Raises"
    points = extension_points("score")

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        return feasible // (1 // 0)
