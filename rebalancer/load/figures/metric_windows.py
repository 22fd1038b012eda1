"""What of a window stands for it: a spike is not a hot node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray

_SHORTEST_STEP = 15.0
_POINTS = 30


@dataclass(frozen=True, slots=True)
class Window:
    """How far back figures look, and what of that is taken; no seconds: the present."""

    seconds: float = 0.0
    statistic: str = "mean"  # mean, max, meanPlusDeviation or p1 … p99

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
        return float(np.percentile(values, self.percentile))

    @property
    def percentile(self) -> float:
        """The number behind the p of a percentile."""
        return float(self.statistic.removeprefix("p"))

    def over(self, query: str) -> str:
        """PromQL of the statistic of a query over the window, as an instant query."""
        if not self.seconds:
            return query
        points = f"({query})[{max(1, round(self.seconds))}s:{round(self.step_seconds)}s]"
        if self.statistic == "mean":
            return f"avg_over_time({points})"
        if self.statistic == "max":
            return f"max_over_time({points})"
        if self.statistic == "meanPlusDeviation":
            return f"avg_over_time({points}) + stddev_over_time({points})"
        return f"quantile_over_time({self.percentile / 100:g}, {points})"


PRESENT = Window()


def deviation(values: FloatArray) -> float:
    """The standard deviation of (points,) values, as stddev_over_time; NaN when there are none."""
    return float(np.std(values)) if len(values) else float("nan")
