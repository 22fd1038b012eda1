"""Plugins of the user's own, as if they were installed."""

from __future__ import annotations

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import PluginDescription, extension_points
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.registry import describe
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


class TooFew(Plugin):
    """One that scores the first node only."""

    name = "TooFew"
    points = extension_points("score")

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        return feasible[:1]


class Wordless(Plugin):
    """One that rejects every node, and fails where it is to say why."""

    name = "Wordless"
    points = extension_points("filter")

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        return 1 - super().filter(state, pod_class)

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        raise KeyError(code)


def own_plugins() -> tuple[PluginDescription, ...]:
    """What the entry points would name."""
    return describe(FewPods), describe(Raises), describe(TooFew), describe(Wordless)
