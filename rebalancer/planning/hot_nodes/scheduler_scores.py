"""How the scheduler rates nodes for a plain pod, plugin by plugin, and what score rules make of it.

A plugin gives every node some score, one without figures too: TargetLoadPacking gives it 0. A rule that took
that for load would find an idle cluster hot wherever load-watcher names its nodes by address. So the score
that a rule sees of such a node is unknown, and an unknown score makes no node hot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray

_LEAST = 0.5  # points of the mean score: less pulls nothing down


@dataclass(frozen=True, slots=True, eq=False)
class RuleScore:
    """What a score rule goes by."""

    plugins: tuple[str, ...]  # those of the rule that are enabled
    score: FloatArray  # (nodes,) their weighted mean, 0..100; NaN where one of them lacks a figure
    resources: frozenset[str]  # that they score: a node is hot in these only, and cools in these only


class NodeScores:
    """The scores of a profile's plugins over all nodes, and their weighted mean."""

    def __init__(
        self,
        by_plugin: Mapping[str, IntArray],
        weights: Mapping[str, int],
        has_figures: Mapping[str, BoolArray],
    ) -> None:
        """``by_plugin`` are (nodes,) scores in 0..100; plugins absent from ``has_figures`` need none."""
        self.by_plugin = by_plugin
        self.has_figures = has_figures
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

    def known_mean_of(self, plugins: Sequence[str]) -> FloatArray:
        """(nodes,) the weighted mean of some plugins; NaN where one of them lacks a figure."""
        mean = self._mean(plugins)
        for name in plugins:
            if name in self.has_figures and len(mean):
                mean = np.where(self.has_figures[name], mean, np.nan)
        return mean

    def of(self, row: int) -> dict[str, int]:
        """A node's score by plugin."""
        return {name: int(values[row]) for name, values in self.by_plugin.items()}

    def pulled_down_by(self, row: int) -> str:
        """The plugin that takes most from a node's score; empty when none takes half a point."""
        taken = [float(points[row]) for points in self._taken]
        worst = int(np.argmax(taken)) if taken else 0
        return list(self.by_plugin)[worst] if taken and taken[worst] >= _LEAST else ""
