"""How the scheduler rates nodes for a plain pod, plugin by plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.profiles.catalogue import CATALOGUE
from rebalancer.profiles.types import ExtensionPoint, Profile, SchedulerConfiguration
from rebalancer.scheduling.plugins.articles.pod_capacity_of_node import PodCapacityOfNode

_LEAST = 0.5  # points of the mean score: less pulls nothing down


class NodeScores:
    """The scores of a profile's plugins over all nodes, and their weighted mean."""

    def __init__(self, by_plugin: Mapping[str, IntArray], weights: Mapping[str, int]) -> None:
        """``by_plugin`` are (nodes,) scores in 0..100."""
        self.by_plugin = by_plugin
        self.weights = weights
        self.mean: FloatArray = self._mean(tuple(by_plugin))
        total = sum(weights[name] for name in by_plugin) or 1
        # (plugins, nodes) points of the mean score that a plugin takes, compared with the mean of the nodes.
        self._taken = [
            (float(values.mean()) - values) * weights[name] / total for name, values in by_plugin.items()
        ]

    def _mean(self, plugins: Sequence[str]) -> FloatArray:
        total = sum(self.weights[name] for name in plugins)
        if not total:
            return np.zeros(0)
        weighted = sum(self.weights[name] * self.by_plugin[name].astype(np.float64) for name in plugins)
        return np.asarray(weighted / total, np.float64)

    def mean_of(self, plugins: Sequence[str]) -> FloatArray | None:
        """(nodes,) the weighted mean of some plugins; None when the profile has none of them."""
        named = [name for name in plugins if name in self.by_plugin]
        return self._mean(named) if named else None

    def of(self, row: int) -> dict[str, int]:
        """A node's score by plugin."""
        return {name: int(values[row]) for name, values in self.by_plugin.items()}

    def pulled_down_by(self, row: int) -> str:
        """The plugin that takes most from a node's score; empty when none takes half a point."""
        taken = [float(points[row]) for points in self._taken]
        worst = int(np.argmax(taken)) if taken else 0
        return list(self.by_plugin)[worst] if taken and taken[worst] >= _LEAST else ""


def looking_at_load(configuration: SchedulerConfiguration, profile: Profile) -> tuple[str, ...]:
    """The score plugins of a profile that look at load or pod counts."""
    found = []
    for name in profile.enabled(ExtensionPoint.SCORE):
        description = configuration.extra_plugins.get(name) or CATALOGUE.get(name)
        measuring = description is not None and any(item.is_load for item in description.inputs)
        if measuring or name == PodCapacityOfNode.name:
            found.append(name)
    return tuple(found)
