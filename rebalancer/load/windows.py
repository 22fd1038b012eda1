"""Figures over a window of time instead of a moment, because a spike does not make a node hot.

Prometheus answers for a whole window. Sources that know only the present get their window from the figures
that earlier runs kept. The statistic of a window is a mean, a peak, a percentile or a predicted peak.

A node's predicted peak is the higher of two predictions, each of which misses what the other sees. One is
made from the node's own past, its mean plus a few standard deviations. It knows how the pods of today rose
and fell together, but nothing of a pod that came a minute ago. The other sums a high percentile of each pod's
past. It counts every pod that is here now, but takes all of them for busy at the same time:

    n1 in the last 15 minutes: mean 2.0 cores, deviation 0.3; 2.0 + 3 x 0.3 = 2.9
    its pods, 95th percentiles 1.2, 0.9 and 1.4 cores; the last one came from another node: 3.5
    predicted peak: 3.5 cores

A pod without a figure adds nothing to the sum, so the node's own past still counts for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.load.report import allocatable_of, named
from rebalancer.load.usage import NodeUsage, PodUsage
from rebalancer.state.run_state import LoadSamples

PREDICTED_PEAK = "predictedPeak"
PEAK_DEVIATIONS = 3.0  # above the mean: a node's load exceeds it rarely, whatever its pods do together
PEAK_PERCENTILE = 95.0  # of each pod: all pods of a node seldom exceed theirs at once
_SHORTEST_STEP = 15.0
_POINTS = 30


class MetricWindow(msgspec.Struct, frozen=True):
    """How far back figures look, and which statistic of it counts; 0 seconds: the present."""

    seconds: float = 0.0
    statistic: str = "mean"  # mean, max, meanPlusDeviation, predictedPeak or p1 … p99
    by_resource: Mapping[str, str] = {}  # where it is not ``statistic``

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


def with_summed_peaks(nodes: NodeUsage, pods: PodUsage, table: PodTable, window: MetricWindow) -> NodeUsage:
    """The figures, raised to the sum of their pods' where the statistic is a predicted peak.

    A node without a figure of its own stays unknown: what runs beside its pods is not in their sum.
    """
    usage = nodes.usage.copy()
    bound = np.flatnonzero(table.node >= 0)
    for column, resource in enumerate(nodes.resources):
        if window.of_resource(resource).statistic != PREDICTED_PEAK or resource not in pods.resources:
            continue
        amounts = np.nan_to_num(pods.usage[bound, pods.resources.index(resource)], nan=0.0)
        summed = np.bincount(table.node[bound], weights=amounts, minlength=len(usage))
        usage[:, column] = np.maximum(usage[:, column], summed)
    return replace(nodes, usage=usage)


_PODS_COLUMN = 2


def knows_only_the_present(figures: NodeUsage, window: MetricWindow) -> bool:
    """Whether a source looks back too little to cover the window."""
    if figures.source == "requests" or not window.seconds:
        return False
    return float(np.max(figures.window_seconds, initial=0.0)) * 2 < window.seconds


def room(nodes: NodeTable, figures: NodeUsage) -> FloatArray:
    """(nodes, resources) what percentages of the figures' resources are of."""
    return np.delete(allocatable_of(nodes, figures.resources, figures.capacity), _PODS_COLUMN, axis=1)


def present_percent(nodes: NodeTable, figures: NodeUsage) -> dict[str, dict[str, float]]:
    """What the state keeps of the figures: percent of allocatable by resource and node."""
    whole = room(nodes, figures)
    percent = np.where(whole > 0, 100.0 * figures.usage / np.where(whole > 0, whole, 1.0), np.nan)
    by_resource: dict[str, dict[str, float]] = {}
    for column, resource in enumerate(figures.resources):
        values = {
            name: float(value)
            for name, value in zip(nodes.names, percent[:, column], strict=True)
            if np.isfinite(value)
        }
        if values:
            by_resource[resource] = values
    return by_resource


def over_earlier_runs(
    figures: NodeUsage, nodes: NodeTable, samples: LoadSamples | None, window: MetricWindow, now: float
) -> NodeUsage:
    """The window's statistic over the samples of earlier runs and the present; unknown stays unknown."""
    if samples is None:
        lack = f"no state of earlier runs: load.window {window.seconds:g} s is not covered"
        return replace(figures, warnings=(*figures.warnings, f"{figures.source}: {lack}"))
    usage = figures.usage.copy()
    spread = np.full(figures.usage.shape, np.nan)
    own = figures.window_seconds
    windows = np.broadcast_to(own[:, None] if own.ndim == 1 else own, usage.shape).copy()
    whole = room(nodes, figures)
    brief: list[str] = []
    table = {node: position for position, node in enumerate(samples.nodes)}
    for row, name in enumerate(nodes.names):
        oldest = now
        # A node that was made anew under its name is another machine than the one before.
        created = times.parse_if_possible(nodes.records[row].metadata.creation_timestamp)
        since = float(np.fmax(now - window.seconds, created))
        for column, resource in enumerate(figures.resources):
            if np.isnan(usage[row, column]) or not whole[row, column] > 0 or name not in table:
                continue
            earlier = [
                (sample.at, values[table[name]])
                for sample in samples.taken
                if since <= sample.at < now and len(values := sample.percent.get(resource, ())) > table[name]
            ]
            past = [(at, value) for at, value in earlier if value is not None]
            points = np.array([value / 100 * whole[row, column] for _, value in past] + [usage[row, column]])
            usage[row, column] = window.of_resource(resource).of(points)
            spread[row, column] = deviation(points)
            begun = min((at for at, _ in past), default=now)
            windows[row, column] += now - begun
            oldest = min(oldest, begun)
        if not np.isnan(usage[row]).all() and (now - oldest) * 2 < window.seconds:
            brief.append(name)
    warnings = list(figures.warnings)
    if brief:
        warnings.append(f"{figures.source}: earlier runs cover less than half the window for {named(brief)}")
    return replace(
        figures,
        usage=usage,
        deviation=spread,
        window_seconds=windows,
        statistic=window.statistic,
        statistics=window.by_resource,
        warnings=tuple(warnings),
    )
