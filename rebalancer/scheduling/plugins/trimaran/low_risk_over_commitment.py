"""LowRiskOverCommitment of Trimaran: away from limits and load beyond what is there.

The beta distribution's cumulative probability is computed by Lentz's continued fraction.

Source: scheduler-plugins v0.34.7 pkg/trimaran/lowriskovercommitment/lowriskovercommitment.go:105,
beta.go:158.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Annotated, Any

import msgspec
import numpy as np
from pydantic import BeforeValidator, Field

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.load.scheduler_view import CPU_TYPE, MEMORY_TYPE
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Evidence
from rebalancer.scheduling.plugins.trimaran.node_figures import (
    TrimaranArguments,
    TrimaranPlugin,
    limited,
    listed,
    positive_or,
    requested,
)
from rebalancer.scheduling.resources import round_half_away
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.counters import PodSum

_LARGEST_INT64 = (1 << 63) - 1  # the Go plugin refuses what it cannot keep in one
_MAX_TERMS = 10_000
_PRECISION = 1e-16
_TINY = 1e-300
_MAX_VARIANCE = 0.99  # of what a beta distribution with that mean can have


def _continued_fraction(x: float, alpha: float, beta: float) -> float:
    c = 1.0
    d = 1.0 - (alpha + beta) * x / (alpha + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _MAX_TERMS):
        even = m * (beta - m) * x / ((alpha + 2 * m - 1.0) * (alpha + 2 * m))
        odd = -(alpha + m) * (alpha + beta + m) * x / ((alpha + 2 * m) * (alpha + 2 * m + 1.0))
        change = 1.0
        for numerator in (even, odd):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + numerator / c
            c = c if abs(c) > _TINY else _TINY
            change = c * d
            result *= change
        if abs(change - 1.0) < _PRECISION:
            break
    return result


def regularized_incomplete_beta(x: float, alpha: float, beta: float) -> float:
    """I_x(α, β), the probability of at most x; NaN outside 0 ≤ x ≤ 1, α > 0, β > 0."""
    if not (alpha > 0 and beta > 0 and 0 <= x <= 1) or math.isinf(alpha) or math.isinf(beta):
        return math.nan
    if x in (0.0, 1.0):
        return x
    log_front = (
        math.lgamma(alpha + beta)
        - math.lgamma(alpha)
        - math.lgamma(beta)
        + alpha * math.log(x)
        + beta * math.log1p(-x)
    )
    front = math.exp(log_front)
    if x < (alpha + 1.0) / (alpha + beta + 2.0):
        return front * _continued_fraction(x, alpha, beta) / alpha
    return 1.0 - front * _continued_fraction(1.0 - x, beta, alpha) / beta


def largest_variance(mean: float) -> float:
    """The variance that no distribution on 0..1 with this mean exceeds; 0 for a mean outside."""
    return mean * (1 - mean) if 0 < mean < 1 else 0.0


def match_moments(first: float, second: float) -> tuple[float, float] | None:
    """α and β of the distribution with these moments; None when there is none."""
    variance = second - first * first
    if first < 0 or first > 1 or variance < 0 or variance >= first * (1 - first):
        return None
    factor = (first * (1 - first) / variance if variance > 0 else math.inf) - 1
    factor = max(factor, 5e-324)
    return first * factor, (1 - first) * factor


def at_most(x: float, alpha: float, beta: float) -> float:
    """The probability of at most x; 0 where it is not defined."""
    probability = regularized_incomplete_beta(x, alpha, beta)
    return probability if 0 <= probability <= 1 else 0.0


def _risk_weights(value: object) -> object:
    """Weights for cpu and memory; missing ones and those outside [0, 1] become 0.5."""
    if not isinstance(value, Mapping):
        return value
    weights: dict[str, Any] = {"cpu": 0.5, "memory": 0.5, **value}
    return {
        name: 0.5 if isinstance(weight, (int, float)) and not 0 <= weight <= 1 else weight
        for name, weight in weights.items()
    }


class LowRiskOverCommitmentArguments(TrimaranArguments):
    """Arguments of LowRiskOverCommitment."""

    smoothing_window_size: Annotated[int, positive_or(5), Field(le=_LARGEST_INT64)] = 5
    risk_limit_weights: Annotated[Mapping[str, float], BeforeValidator(_risk_weights)] = Field(
        default={"cpu": 0.5, "memory": 0.5}
    )


class Measured(msgspec.Struct, frozen=True):
    """A resource of a node as measured: mean and deviation, as shares of allocatable."""

    mu: float
    sigma: float

    @classmethod
    def of(cls, average: float, deviation: float, allocatable: float, window: int) -> Measured:
        """From percents; the deviation is scaled for smoothing and kept below what a beta can have."""
        if allocatable <= 0:
            return cls(0.0, 0.0)
        mu = max(min((average * allocatable / 100) / allocatable, 1.0), 0.0)
        sigma = max(min((deviation * allocatable / 100) / allocatable, 1.0), 0.0)
        largest = math.sqrt(largest_variance(mu) * _MAX_VARIANCE)
        return cls(mu, min(sigma * math.sqrt(window), largest))


@lru_cache(maxsize=1 << 16)  # a search goes to and fro between the same states of a node
def probability_within(measured: Measured, requested_there: int, limited_there: int, capacity: int) -> float:
    """The chance that the load stays within what is requested, given that it stays within the limits."""
    mu = measured.mu
    sigma = measured.sigma
    threshold = max(min(requested_there / capacity, 1.0), 0.0) if capacity > 0 else 0.0
    shape: tuple[float, float] | None = None
    if mu == 0 or (sigma == 0 and mu <= threshold):
        probability = 1.0
    elif sigma == 0:
        probability = 0.0
    else:
        shape = match_moments(mu, (sigma * sigma) + (mu * mu))
        probability = at_most(threshold, *shape) if shape else 0.0
    if limited_there < capacity and requested_there <= limited_there:
        limit = limited_there / capacity
        if limit == 0:
            return 1.0
        within = at_most(limit, *shape) if shape else 0.0
        if within > 0:
            return max(min(probability / within, 1.0), 0.0)
    return probability


def combined_risk(
    weight: float, capacity: IntArray, request: IntArray, limit: IntArray, load: FloatArray
) -> FloatArray:
    """w·riskLimit + (1 − w)·riskLoad in 0..1, riskLimit the share of the overcommitment beyond capacity."""
    beyond = limit > capacity
    by_limit = np.where(beyond, (limit - capacity) / np.where(beyond, limit - request, 1), 0.0)
    return np.maximum(np.minimum(weight * by_limit + (1 - weight) * load, 1.0), 0.0)


class _LoadRisk:
    """riskLoad of one resource; remembered node by node until what is requested there changes."""

    def __init__(self, valid: BoolArray, measured: list[Measured], capacity: IntArray) -> None:
        self._valid = valid
        self._measured = measured
        self._capacity = capacity
        self._for = np.full((2, len(capacity)), -1, np.int64)  # the request and limit each risk is for
        self._risk = np.zeros(len(capacity))

    def of(self, requested_there: IntArray, limited_there: IntArray) -> FloatArray:
        """(nodes,) the chance of more load than the pods that are there request."""
        now = np.stack([requested_there, limited_there])
        for row in np.flatnonzero(self._valid & (now != self._for).any(axis=0)).tolist():
            request = int(requested_there[row])
            limit = int(limited_there[row])
            capacity = int(self._capacity[row])
            self._risk[row] = 1 - probability_within(self._measured[row], request, limit, capacity)
        self._for = now
        return self._risk


class LowRiskOverCommitment(TrimaranPlugin[LowRiskOverCommitmentArguments]):
    """Scores (1 − the larger risk of CPU and memory)·100; 0 for pods without requests and limits."""

    name = "LowRiskOverCommitment"
    points = extension_points("preScore score")
    Arguments = LowRiskOverCommitmentArguments
    scored_resources = frozenset({"cpu", "memory"})
    evidence = Evidence.DECISIONS
    _amounts: Mapping[str, tuple[PodSum, PodSum]] = {
        CPU_TYPE: (PodSum(partial(requested, resource="cpu")), PodSum(partial(limited, resource="cpu"))),
        MEMORY_TYPE: (
            PodSum(partial(requested, resource="memory")),
            PodSum(partial(limited, resource="memory")),
        ),
    }

    def _load_risk(self, state: ClusterState, kind: str) -> _LoadRisk:
        def compute() -> _LoadRisk:
            seen = self._figures(state, kind)
            amounts = self._compared(state, kind)
            window = self._arguments.smoothing_window_size
            rows = zip(seen.average.tolist(), seen.deviation.tolist(), amounts.tolist(), strict=True)
            measured = [Measured.of(*row, window) for row in rows]
            return _LoadRisk(seen.valid, measured, self._allocatable(state, kind))

        return state.nodes.cached(self, kind, compute)

    def risks(self, state: ClusterState, pod_class: int, kind: str) -> FloatArray:
        """(nodes,) the risk of one resource with the pod on each node."""
        request, limit = self._amounts[kind]
        pod = state.classes[pod_class]
        capacity = self._allocatable(state, kind)
        book = state.classes.counters
        requested_there = state.counter(book.number(request))[:-1]
        limited_there = state.counter(book.number(limit))[:-1]
        load = self._load_risk(state, kind).of(np.minimum(requested_there, capacity), limited_there)
        return combined_risk(
            self._arguments.risk_limit_weights["cpu" if kind == CPU_TYPE else "memory"],
            capacity,
            np.minimum(requested_there + request.amount(pod), capacity),
            limited_there + limit.amount(pod),
            load,
        )

    def has_figures(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) load-watcher lists its CPU and memory; none when the pod requests and limits nothing."""
        if not self._has_amounts(state, pod_class):
            return np.zeros(len(state.nodes), np.bool_)
        cpu, memory = (self._figures(state, kind).valid for kind in (CPU_TYPE, MEMORY_TYPE))
        return np.asarray(cpu & memory, np.bool_)

    def _has_amounts(self, state: ClusterState, pod_class: int) -> bool:
        pod = state.classes[pod_class]
        return any(amount.amount(pod) for amounts in self._amounts.values() for amount in amounts)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """0 for a node without figures; not normalised."""
        if not self._has_amounts(state, pod_class):
            return np.zeros(len(feasible), np.int64)
        risk = np.maximum(self.risks(state, pod_class, CPU_TYPE), self.risks(state, pod_class, MEMORY_TYPE))
        scores = round_half_away((1 - risk) * float(MAX_SCORE))
        is_listed = state.nodes.cached(self, "listed", lambda: listed(self._watcher, state.nodes.names))
        return np.where(is_listed, scores, 0)[feasible]
