"""Figures over a window of time instead of a moment, because a spike does not make a node hot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rebalancer.cluster.arrays import FloatArray

PREDICTED_PEAK = "predictedPeak"
PEAK_DEVIATIONS = 3.0  # above the mean: a node's load exceeds it rarely, whatever its pods do together
PEAK_PERCENTILE = 95.0  # of each pod: all pods of a node seldom exceed theirs at once
_SHORTEST_STEP = 15.0
_POINTS = 30


@dataclass(frozen=True, slots=True)
class MetricWindow:
    """How far back figures look, and which statistic of it counts; 0 seconds: the present."""

    seconds: float = 0.0
    statistic: str = "mean"  # mean, max, meanPlusDeviation, predictedPeak or p1 … p99
    by_resource: Mapping[str, str] = field(default_factory=dict)  # where it is not ``statistic``

    @classmethod
    def of_policy(cls, seconds: float, statistic: str | Mapping[str, str]) -> MetricWindow:
        """The window that ``load.window`` and ``load.statistic`` describe."""
        if isinstance(statistic, str):
            return cls(seconds, statistic)
        return cls(seconds, by_resource=statistic)

    def of_resource(self, resource: str) -> MetricWindow:
        """The window with the one statistic that counts for a resource."""
        return replace(self, statistic=self.by_resource.get(resource, self.statistic), by_resource={})

    @property
    def step_seconds(self) -> float:
        """How far apart the points of a window are asked for."""
        return max(_SHORTEST_STEP, float(round(self.seconds / _POINTS)))

    def of(self, values: FloatArray) -> float:
        """The statistic of (points,) finite values; NaN when there are none."""
        if not len(values):
            return float("nan")
        if self.statistic == "mean":
            return float(np.mean(values))
        if self.statistic == "max":
            return float(np.max(values))
        if self.statistic == "meanPlusDeviation":
            return float(np.mean(values) + np.std(values))
        if self.statistic == PREDICTED_PEAK:
            return float(np.mean(values) + PEAK_DEVIATIONS * np.std(values))
        return float(np.percentile(values, self.percentile))

    @property
    def percentile(self) -> float:
        """The number behind the p of a percentile."""
        return float(self.statistic.removeprefix("p"))

    def over(self, query: str) -> str:
        """PromQL of the statistic of a query over the window, as an instant query of pods.

        A predicted peak of pods is a high percentile of each: their sum is one of the two predictions of
        their node's peak.
        """
        if not self.seconds:
            return query
        points = f"({query})[{max(1, round(self.seconds))}s:{round(self.step_seconds)}s]"
        if self.statistic == "mean":
            return f"avg_over_time({points})"
        if self.statistic == "max":
            return f"max_over_time({points})"
        if self.statistic == "meanPlusDeviation":
            return f"avg_over_time({points}) + stddev_over_time({points})"
        percentile = PEAK_PERCENTILE if self.statistic == PREDICTED_PEAK else self.percentile
        return f"quantile_over_time({percentile / 100:g}, {points})"


PRESENT = MetricWindow()


def deviation(values: FloatArray) -> float:
    """The standard deviation of (points,) values, as stddev_over_time; NaN when there are none."""
    return float(np.std(values)) if len(values) else float("nan")
