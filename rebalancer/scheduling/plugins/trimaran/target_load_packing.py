"""TargetLoadPacking of Trimaran: pack nodes up to a target, then spread.

Source: scheduler-plugins v0.34.7 pkg/trimaran/targetloadpacking/targetloadpacking.go:108.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Self

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo

from rebalancer.cluster import quantities
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU
from rebalancer.cluster.quantities import cpu_milli
from rebalancer.cluster.records import PodSpec
from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, LATEST, Metric, WatcherMetrics
from rebalancer.scheduling.framework.plugin import Evidence, PluginInputs
from rebalancer.scheduling.plugins.trimaran.node_figures import TrimaranArguments, TrimaranPlugin, positive_or
from rebalancer.scheduling.resources import round_half_away
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_cluster
from rebalancer.scheduling.state.pod_classes import PodClasses

# Times the largest amount of a pod it still fits the int64 in which the Go plugin keeps the product.
_LARGEST_MULTIPLIER = 1000
# What one pod is expected to use at most: more than any node has, so it scores 0 everywhere, and the sum of
# millions of such pods is still an int64. Go's sum would overflow.
_MOST_CPU_MILLI = 1 << 40


def _quantities(value: object) -> object:
    """Quantities may be bare numbers; all are kept as text, checked."""
    if not isinstance(value, Mapping):
        return value
    texts = {
        name: str(quantity)
        if isinstance(quantity, (int, float)) and not isinstance(quantity, bool)
        else quantity
        for name, quantity in value.items()
    }
    for text in texts.values():
        if isinstance(text, str) and abs(cpu_milli(text)) > quantities.MAX_AMOUNT:
            raise ValueError(f"{text[:40]} is more than any machine has")
    return texts


def _number_text(value: object, info: ValidationInfo) -> object:
    """A Go string that holds a float; a bare float only from Python."""
    if not isinstance(value, str):
        if info.mode == "json":
            raise ValueError(f'must be text; write "{value}"')
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{value[:40]!r} is not a number")
    if abs(number) > _LARGEST_MULTIPLIER:
        raise ValueError(f"{value[:40]!r} is more than {_LARGEST_MULTIPLIER}")
    return number


class TargetLoadPackingArguments(TrimaranArguments):
    """Arguments of TargetLoadPacking.

    The scheduler starts with a target above 100 as well, but then a node below it scores more than 100, and
    the scheduling of every pod fails.
    """

    target_utilization: Annotated[int, positive_or(40), Field(le=100)] = 40
    default_requests: Annotated[Mapping[str, str], BeforeValidator(_quantities)] = Field(
        default={"cpu": "1000m"}
    )
    default_requests_multiplier: Annotated[float, BeforeValidator(_number_text)] = 1.5

    @property
    def default_requests_cpu_milli(self) -> int:
        """CPU a container without request and limit is taken to use; 0 when the map has no cpu."""
        return cpu_milli(self.default_requests["cpu"]) if "cpu" in self.default_requests else 0


def packing_score(predicted: FloatArray, target: float) -> IntArray:
    """The score of a predicted utilization in percent."""
    rising = (100 - target) * predicted / target + target
    falling = target * (100 - predicted) / max(100 - target, 1e-300)
    return round_half_away(np.where(predicted > target, np.where(predicted > 100, 0.0, falling), rising))


def predicted_utilization(
    used_percent: FloatArray, capacity: IntArray, own: int | IntArray, missing: IntArray
) -> FloatArray:
    """(…, nodes) 100·(util/100·capacity + pod + missing)/capacity in percent; 0 where the capacity is 0."""
    room = capacity.astype(np.float64)
    used = (used_percent / 100) * room
    return np.where(capacity > 0, 100 * (used + own + missing) / np.where(capacity > 0, room, 1.0), 0.0)


def first_utilization(metrics: tuple[Metric, ...]) -> float | None:
    """The first CPU figure that is an average or the latest one; None when there is none."""
    for metric in metrics:
        if metric.type == CPU_TYPE and metric.operator in (AVERAGE, LATEST):
            return metric.value
    return None


class TargetLoadPacking(TrimaranPlugin[TargetLoadPackingArguments]):
    """Scores nodes by their CPU as load-watcher sees it, with the pod and those just bound added."""

    name = "TargetLoadPacking"
    Arguments = TargetLoadPackingArguments
    scored_resources = frozenset({"cpu"})
    counts_recent_pods = True
    # targetloadpacking.go:46
    process_wide_arguments = ("target_utilization", "default_requests", "default_requests_multiplier")
    evidence = Evidence.DECISIONS

    @classmethod
    def make(cls, arguments: TargetLoadPackingArguments, inputs: PluginInputs) -> Self:
        """With load-watcher's figures and the pods that they do not show yet."""
        watcher = inputs.view.watchers.get(arguments.watcher_address)
        return cls(arguments, watcher, inputs.recently_bound(watcher.window_end) if watcher else ())

    def __init__(
        self,
        arguments: TargetLoadPackingArguments,
        watcher: WatcherMetrics | None,
        recently_bound: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """``recently_bound`` are (pod, class, node) of those whose load the window does not show yet."""
        super().__init__(arguments, watcher)
        self._recently_bound = recently_bound
        self.recent_pods = frozenset(pod for pod, _, _ in recently_bound)

    @property
    def follows(self) -> tuple[object, ...]:
        """What its scores follow: alike where two profiles score all pods alike."""
        return self._arguments, self._watcher, self._recently_bound

    @property
    def may_score_below_zero(self) -> bool:
        """Whether its arguments let it expect that a pod uses less than nothing."""
        arguments = self._arguments
        return min(arguments.default_requests_multiplier, arguments.default_requests_cpu_milli) < 0

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
                product = request * self._arguments.default_requests_multiplier
                bounded = min(max(product, -_MOST_CPU_MILLI), _MOST_CPU_MILLI)
                total += int(round_half_away(np.array([bounded]))[0])
            else:
                total += self._arguments.default_requests_cpu_milli
        overhead = quantities.parse((spec.overhead or {}).get("cpu", "0"))
        total += quantities.milli_of(Fraction(overhead))
        return min(max(total, -_MOST_CPU_MILLI), _MOST_CPU_MILLI)

    def expected(self, classes: PodClasses, pod_class: int) -> int:
        """What the plugin expects a pod of a class to use, in thousandths of a core."""
        spec = classes[pod_class].spec
        return classes.cached(pod_class, self, "cpu", lambda: self.predicted_cpu_milli(spec))

    @once_a_cluster
    def _utilization(self, state: ClusterState) -> tuple[BoolArray, FloatArray]:
        """Per node: whether load-watcher lists figures for it, and its CPU in percent."""
        nodes = self._watcher.nodes if self._watcher else {}
        by_node = [nodes.get(name, ()) for name in state.nodes.names]
        # The last figure counts.
        used = np.array([first_utilization(figures[::-1]) for figures in by_node], np.float64)
        return ~np.isnan(used), np.nan_to_num(used, nan=0.0)

    def missing(self, state: ClusterState) -> IntArray:
        """(nodes,) what pods bound after the window's end will add; the metrics do not show them yet.

        A pod that is gone adds nothing, though its load may be in the metrics (trimaran/handler.go:89).
        """
        classes = state.classes
        missing = state.bound_sum(self, lambda pod_class: self.expected(classes, pod_class))
        if self._recently_bound:
            missing = missing.copy()
        for pod, pod_class, node in self._recently_bound:
            if state.node[pod] == node:
                missing[node] += self.expected(classes, pod_class)
        return missing

    def has_figures(self, state: ClusterState, pod_class: int) -> BoolArray:
        return self._utilization(state)[0]

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """0 for a node without figures; not normalised."""
        missing = self.missing(state)[feasible]
        return self.score_of(state, self.expected(state.classes, pod_class), missing, feasible)

    def score_of(
        self, state: ClusterState, own: int | IntArray, missing: IntArray, nodes: IntArray
    ) -> IntArray:
        """(…, nodes) the scores of some rows for a pod; ``own`` is what it is expected to use.

        ``missing`` are (…, nodes) what these nodes use besides, and the figures do not show; both are in
        thousandths of a core.
        """
        has_figure, used = self._utilization(state)
        predicted = predicted_utilization(used[nodes], state.nodes.table.capacity[nodes, CPU], own, missing)
        scores = packing_score(predicted, float(self._arguments.target_utilization))
        return np.where(has_figure[nodes], scores, 0)
