"""TargetLoadPacking of Trimaran: pack nodes up to a target, then spread.

Source: scheduler-plugins v0.34.7 pkg/trimaran/targetloadpacking/targetloadpacking.go:108.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from rebalancer.cluster import quantities
from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.cluster.columns.nodes import CPU
from rebalancer.cluster.records import PodSpec
from rebalancer.load.load_watcher.document import AVERAGE, LATEST, Metric, WatcherMetrics
from rebalancer.load.load_watcher.document import CPU as CPU_TYPE
from rebalancer.profiles.load_arguments import TargetLoadPackingArguments
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.resources.arithmetic import round_half_away
from rebalancer.scheduling.state.cluster_state import ClusterState


def packing_score(predicted: FloatArray, target: float) -> IntArray:
    """The score of a predicted utilization in percent."""
    rising = (100 - target) * predicted / target + target
    falling = target * (100 - predicted) / max(100 - target, 1e-300)
    return round_half_away(np.where(predicted > target, np.where(predicted > 100, 0.0, falling), rising))


def predicted_utilization(
    used_percent: FloatArray, capacity: IntArray, own: int, missing: IntArray
) -> FloatArray:
    """100·(util/100·capacity + pod + missing)/capacity in percent; 0 where the capacity is 0."""
    room = capacity.astype(np.float64)
    used = (used_percent / 100) * room
    return np.where(
        capacity > 0, 100 * (used + float(own) + missing) / np.where(capacity > 0, room, 1.0), 0.0
    )


def utilization_of(metrics: tuple[Metric, ...]) -> float | None:
    """The last CPU figure that is an average or the latest one; None when there is none."""
    found = None
    for metric in metrics:
        if metric.type == CPU_TYPE and metric.operator in (AVERAGE, LATEST):
            found = metric.value
    return found


class TargetLoadPacking(Plugin):
    """Scores nodes by their CPU as load-watcher sees it, with the pod and those just bound added."""

    name = "TargetLoadPacking"
    points = frozenset({ExtensionPoint.SCORE})

    def __init__(
        self,
        arguments: TargetLoadPackingArguments,
        watcher: WatcherMetrics | None,
        recently_bound: Sequence[tuple[int, int]] = (),
    ) -> None:
        """``recently_bound`` are (class, node) of the pods whose load the window does not show yet."""
        self._arguments = arguments
        self._watcher = watcher
        self._recently_bound = recently_bound

    def predicted_cpu_milli(self, spec: PodSpec) -> int:
        """What the plugin expects a pod to use: limits, else requests times a factor, else a default."""
        total = 0
        for container in spec.containers or ():
            resources = container.resources
            limits = (resources.limits if resources else None) or {}
            requests = (resources.requests if resources else None) or {}
            if "cpu" in limits:
                total += quantities.cpu_milli(limits["cpu"])
            elif "cpu" in requests:
                request = quantities.cpu_milli(requests["cpu"])
                total += int(
                    round_half_away(np.array([request * self._arguments.default_requests_multiplier]))[0]
                )
            else:
                total += self._arguments.default_requests_cpu_milli
        overhead = quantities.parse((spec.overhead or {}).get("cpu", "0"))
        return total + quantities.milli_of(Fraction(overhead))

    def _predicted(self, state: ClusterState, class_index: int) -> int:
        spec = state.facts.classes[class_index].spec
        return state.facts.cached((self, "cpu"), class_index, lambda: self.predicted_cpu_milli(spec))

    def _known(self, state: ClusterState) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], FloatArray]:
        """Per node: whether load-watcher lists figures for it, and its CPU in percent."""

        def compute() -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], FloatArray]:
            nodes = self._watcher.nodes if self._watcher else {}
            used = np.array([utilization_of(nodes.get(name, ())) for name in state.nodes.names], np.float64)
            return ~np.isnan(used), np.nan_to_num(used, nan=0.0)

        return state.facts.cached((self, "nodes"), -1, compute)

    def _missing(self, state: ClusterState) -> IntArray:
        """What pods bound after the window's end will add; the metrics do not show them yet."""
        missing = np.zeros(len(state.nodes), np.int64)
        for class_index, node in (*self._recently_bound, *state.bound_here.values()):
            missing[node] += self._predicted(state, class_index)
        return missing

    def raw_scores(self, state: ClusterState, class_index: int, feasible: IntArray) -> IntArray:
        """0 for a node without figures; not normalised."""
        known, used = self._known(state)
        predicted = predicted_utilization(
            used[feasible],
            state.nodes.table.capacity[feasible, CPU],
            self._predicted(state, class_index),
            self._missing(state)[feasible],
        )
        scores = packing_score(predicted, float(self._arguments.target_utilization))
        return np.where(known[feasible], scores, 0)
