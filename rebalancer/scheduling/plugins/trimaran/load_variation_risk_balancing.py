"""LoadVariationRiskBalancing of Trimaran: away from load that is high or varies.

Source: scheduler-plugins v0.34.7 pkg/trimaran/loadvariationriskbalancing/analysis.go:34.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from pydantic import BeforeValidator

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.load.scheduler_view import CPU_TYPE, MEMORY_TYPE
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Evidence
from rebalancer.scheduling.plugins.trimaran import node_figures
from rebalancer.scheduling.resources import round_half_away
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class, once_a_cluster


def _one_if_negative(value: object) -> object:
    return 1.0 if isinstance(value, (int, float)) and value < 0 else value


class LoadVariationRiskBalancingArguments(node_figures.TrimaranArguments):
    """Arguments of LoadVariationRiskBalancing."""

    safe_variance_margin: Annotated[float, BeforeValidator(_one_if_negative)] = 1.0
    safe_variance_sensitivity: Annotated[float, BeforeValidator(_one_if_negative)] = 1.0


def spread_risk(share: float, margin: float, sensitivity: float) -> float:
    """σ: the deviation's share of the node, to the power 1/sensitivity, times the margin, in 0..1."""
    if sensitivity > 0:
        share = share if sensitivity == 1 else math.pow(share, 1 / sensitivity)
    elif sensitivity == 0:
        share = 0.0 if share < 1 else 1.0
    return max(min(margin * share, 1.0), 0.0)


class Risk(msgspec.Struct, frozen=True, eq=False):
    """One resource over the nodes: what is used of it, and how much that varies."""

    valid: BoolArray  # (nodes,) there are figures
    allocatable: FloatArray  # (nodes,)
    used: FloatArray  # (nodes,) in the same unit
    sigma: FloatArray  # (nodes,) 0..1

    def scores(self, request: float, rows: IntArray) -> FloatArray:
        """(1 − (μ + σ)/2)·100; 0 without any allocatable."""
        score = (1.0 - (self.mu(request, rows) + self.sigma[rows]) / 2) * float(MAX_SCORE)
        return np.where(self.allocatable[rows] > 0, score, 0.0)

    def mu(self, request: float, rows: IntArray) -> FloatArray:
        """(used + request)/allocatable in 0..1; 0 without any allocatable."""
        allocatable = self.allocatable[rows]
        share = (self.used[rows] + request) / np.where(allocatable > 0, allocatable, 1.0)
        return np.where(allocatable > 0, np.maximum(np.minimum(share, 1.0), 0.0), 0.0)


def risk_of(
    valid: BoolArray,
    allocatable: FloatArray,
    used: FloatArray,
    deviation: FloatArray,
    margin: float,
    sensitivity: float,
) -> Risk:
    """``used`` and ``deviation`` are amounts; those out of bounds are drawn to 0 and to allocatable."""
    used = np.maximum(np.minimum(used, allocatable), 0.0)
    deviation = np.maximum(np.minimum(deviation, allocatable), 0.0)
    shares = np.where(allocatable > 0, deviation / np.where(allocatable > 0, allocatable, 1.0), 0.0)
    sigma = [spread_risk(max(min(share, 1.0), 0.0), margin, sensitivity) for share in shares.tolist()]
    return Risk(valid, allocatable, used, np.array(sigma, np.float64))


class LoadVariationRiskBalancing(node_figures.TrimaranPlugin[LoadVariationRiskBalancingArguments]):
    """Scores the riskier of CPU and memory by mean and deviation of the measured load."""

    name = "LoadVariationRiskBalancing"
    Arguments = LoadVariationRiskBalancingArguments
    scored_resources = frozenset({"cpu", "memory"})
    evidence = Evidence.DECISIONS
    static = True

    def _risk(self, state: ClusterState, kind: str) -> Risk:
        seen = self._figures(state, kind)
        allocatable = self._compared(state, kind)
        return risk_of(
            seen.valid,
            allocatable,
            seen.average * allocatable / 100,
            seen.deviation * allocatable / 100,
            self._arguments.safe_variance_margin,
            self._arguments.safe_variance_sensitivity,
        )

    @once_a_cluster
    def _risks(self, state: ClusterState) -> tuple[Risk, Risk]:
        return self._risk(state, CPU_TYPE), self._risk(state, MEMORY_TYPE)

    @once_a_class
    def _requests(self, state: ClusterState, pod_class: int) -> tuple[float, float]:
        pod = state.classes[pod_class]
        memory = node_figures.in_mebibytes(float(node_figures.requested(pod, "memory")))
        return float(node_figures.requested(pod, "cpu")), float(memory)

    def has_figures(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) load-watcher lists its CPU and its memory."""
        return np.asarray(np.all([risk.valid for risk in self._risks(state)], axis=0), np.bool_)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """The lower score of the resources that have figures, rounded; 0 without any; not normalised."""
        lowest = np.full(len(feasible), np.inf)
        for risk, request in zip(self._risks(state), self._requests(state, pod_class), strict=True):
            scores = risk.scores(request, feasible)
            lowest = np.where(risk.valid[feasible], np.minimum(lowest, scores), lowest)
        return round_half_away(np.where(np.isinf(lowest), 0.0, lowest))
