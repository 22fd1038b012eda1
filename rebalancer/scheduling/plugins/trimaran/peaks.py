"""Peaks of Trimaran: where the pod adds least power.

Source: scheduler-plugins v0.34.7 pkg/trimaran/peaks/peaks.go:104.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from pydantic import Field

from rebalancer.cluster import quantities
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.nodes import CPU
from rebalancer.cluster.records import Container, PodSpec
from rebalancer.profiles.types import Arguments
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Normalization
from rebalancer.scheduling.plugins.trimaran.node_figures import TrimaranPlugin
from rebalancer.scheduling.plugins.trimaran.target_load_packing import (
    first_utilization,
    predicted_utilization,
)
from rebalancer.scheduling.resources import before_overhead
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_cluster
from rebalancer.scheduling.versions.rules import PEAKS_REQUESTS


class PowerModel(Arguments):
    """Power of a node: k0 + k1·e^(k2·utilisation)."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class PeaksArguments(Arguments):
    """Arguments of Peaks, whose keys begin with capitals because of malformed tags in its Go source."""

    watcher_address: str = Field(default="", validation_alias="WatcherAddress")
    node_power_model: Mapping[str, PowerModel] = Field(default={}, validation_alias="NodePowerModel")


_NO_POWER = PowerModel.model_construct()
_LARGEST = float(1 << 62)  # beyond it Go's integers would overflow


def _request(container: Container) -> Fraction:
    requests = (container.resources.requests if container.resources else None) or {}
    return quantities.parse(requests.get("cpu", "0"))


def cpu_request_milli(spec: PodSpec, as_scheduled: bool) -> int:
    """The pod's request, plus overhead unless that is 0; rounded up once.

    Up to 1.33 it is max(Σ containers, each init container); ``as_scheduled``, as later, sidecars and the
    pod's own resources count (kubernetes v1.34.4 pkg/api/v1/resource/helpers.go:33).
    """
    if as_scheduled:
        total = before_overhead(spec).get("cpu", Fraction(0))
    else:
        total = sum((_request(container) for container in spec.containers or ()), Fraction(0))
        total = max([total, *(_request(container) for container in spec.init_containers or ())])
    if total:
        total += quantities.parse((spec.overhead or {}).get("cpu", "0"))
    return quantities.milli_of(total)


class Peaks(TrimaranPlugin[PeaksArguments]):
    """Scores the rise in power that each node's power model predicts; the least rise scores 100."""

    name = "Peaks"
    Arguments = PeaksArguments
    scored_resources = frozenset({"cpu"})
    normalization = Normalization.RANGE
    static = True

    @once_a_cluster
    def _nodes(self, state: ClusterState) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Per node: CPU in percent, NaN when unknown; K1 and K2 of its power model, 0 when it has none."""
        nodes = self._watcher.nodes if self._watcher else {}
        names = state.nodes.names
        models = [self._arguments.node_power_model.get(name, _NO_POWER) for name in names]
        return (
            np.array([first_utilization(nodes.get(name, ())) for name in names], np.float64),
            np.array([model.k1 for model in models], np.float64),
            np.array([model.k2 for model in models], np.float64),
        )

    def has_figures(self, state: ClusterState, pod_class: int) -> BoolArray:
        return ~np.isnan(self._nodes(state)[0])

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """trunc(K1·(e^(K2·predicted) − e^(K2·used))·1e15); 0 without figures and above 100 %."""
        used, k1, k2 = (column[feasible] for column in self._nodes(state))
        has_figure = ~np.isnan(used)
        used = np.where(has_figure, used, 0.0)
        spec = state.classes[pod_class].spec
        as_scheduled = state.classes.release.has(PEAKS_REQUESTS)
        own = state.classes.cached(pod_class, self, "cpu", lambda: cpu_request_milli(spec, as_scheduled))
        capacity = state.nodes.table.capacity[feasible, CPU]
        predicted = predicted_utilization(used, capacity, own, np.zeros_like(capacity))
        counted = has_figure & (predicted <= MAX_SCORE)
        predicted = np.where(counted, predicted, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            rise = k1 * (np.exp(k2 * predicted) - np.exp(k2 * used)) * 1e15
        rise = np.clip(np.nan_to_num(rise, nan=0.0), -_LARGEST, _LARGEST)
        return np.where(counted, np.trunc(rise), 0.0).astype(np.int64)

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """100 − trunc(100·(raw − min)/(max − min)); all 100 when equal, all 0 when 0."""
        if smallest == 0 == largest:
            return raw
        if smallest == largest:
            return np.full_like(raw, MAX_SCORE)
        share = float(MAX_SCORE) * (raw - smallest).astype(np.float64) / float(largest - smallest)
        return MAX_SCORE - np.trunc(share).astype(np.int64)
