"""NodeResourcesBalancedAllocation.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go:100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from pydantic import model_validator

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.profiles.types import Arguments, extension_points
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Evidence, Plugin
from rebalancer.scheduling.plugins.node_resources.scored_resources import CPU_AND_MEMORY, Resources, amounts
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.rules import (
    BALANCE_BEFORE_AND_AFTER,
    BALANCE_OF_TWO,
    BALANCE_SKIPS_BEST_EFFORT,
)

_TWO = ("cpu", "memory")


class NodeResourcesBalancedAllocationArguments(Arguments):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: Resources = CPU_AND_MEMORY

    @model_validator(mode="after")
    def _plain_resources(self) -> Self:
        names = [resource.name for resource in self.resources]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"resources lists {repeated} twice")
        weighted = next((resource for resource in self.resources if resource.weight != 1), None)
        if weighted is not None:
            raise ValueError(f"the weight of {weighted.name} must be 1, not {weighted.weight}")
        return self


class NodeResourcesBalancedAllocation(Plugin):
    """Scores (1 − σ)·100, σ the standard deviation of the requested shares with the pod on the node."""

    name = "NodeResourcesBalancedAllocation"
    points = extension_points("preScore score")
    Arguments = NodeResourcesBalancedAllocationArguments
    evidence = Evidence.DECISIONS

    def __init__(self, arguments: NodeResourcesBalancedAllocationArguments) -> None:
        self._resources = tuple(resource.name for resource in arguments.resources)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """Skipped for a pod that requests none of the resources; not normalised."""
        if state.classes.release.has(BALANCE_OF_TWO):
            scored = state.classes.requests[pod_class].incoming_scored
            return _balance_of_two(state, scored, feasible)
        requests = state.classes.requests[pod_class].incoming_balanced
        own = tuple(requests.get(name, 0) for name in self._resources)
        if not any(own) and state.classes.release.has(BALANCE_SKIPS_BEST_EFFORT):
            return None
        after = self._balance(state, pod_class, feasible, with_pod=True)
        if not state.classes.release.has(BALANCE_BEFORE_AND_AFTER):
            return after
        # 50 + (50 + with − without) ÷ 2, both over the same resources (v1.36.3 balanced_allocation.go:204).
        half = MAX_SCORE // 2
        gained: IntArray = after - self._balance(state, pod_class, feasible, with_pod=False)
        return half + (half + gained) // 2

    def _balance(self, state: ClusterState, pod_class: int, rows: IntArray, *, with_pod: bool) -> IntArray:
        own = state.classes.requests[pod_class].incoming_balanced
        shares: list[FloatArray] = []
        counted: list[BoolArray] = []
        for name in self._resources:
            found = amounts(state, own, rows, name, defaults=False)
            if found is None:
                continue
            requested, allocatable = found
            if not with_pod:
                requested = requested - own.get(name, 0)
            present = allocatable > 0
            if present.all():
                share = np.minimum(requested / allocatable, 1.0)
            else:
                share = np.where(present, np.minimum(requested / np.where(present, allocatable, 1), 1.0), 0.0)
            shares.append(share)
            counted.append(present)
        if not shares:
            return np.full_like(state.pod_count[rows], MAX_SCORE)
        return _scores(shares, counted)


def _balance_of_two(state: ClusterState, requests: Mapping[str, int], rows: IntArray) -> IntArray:
    """(rows,) what is left of 1 after the difference of two shares, each with the pod and with defaults.

    Source: kubernetes v1.20.15 pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go:85.
    """
    shares: list[FloatArray] = []
    for name in _TWO:
        counted = amounts(state, requests, rows, name, defaults=True)
        assert counted is not None  # every node has a column for it
        requested, allocatable = counted
        offered = allocatable > 0
        shares.append(np.where(offered, requested / np.where(offered, allocatable, 1), 1.0))
    cpu, memory = shares
    score = ((1 - np.abs(cpu - memory)) * float(MAX_SCORE)).astype(np.int64)
    return np.where((cpu >= 1) | (memory >= 1), 0, score)


def _scores(shares: Sequence[FloatArray], counted: Sequence[BoolArray]) -> IntArray:
    """Shares and whether they count, (nodes,) of each resource; sums run in the order of the resources."""
    if len(shares) == 2 and all(present.all() for present in counted):
        deviation = np.abs((shares[0] - shares[1]) / 2)
        return ((1 - deviation) * float(MAX_SCORE)).astype(np.int64)
    number = np.sum(counted, axis=0)
    divisor = np.maximum(number, 1)
    total = np.zeros(len(number))
    for share in shares:
        total = total + share
    mean = total / divisor
    squares = np.zeros(len(number))
    signed = np.zeros(len(number))  # of two counted shares: first − second
    seen = np.zeros(len(number), np.int64)
    for share, present in zip(shares, counted, strict=True):
        squares = squares + np.where(present, (share - mean) * (share - mean), 0.0)
        signed = np.where(present, np.where(seen == 0, share, signed - share), signed)
        seen = seen + present
    deviation = np.where(
        number == 2, np.abs(signed / 2), np.where(number > 2, np.sqrt(squares / divisor), 0.0)
    )
    return np.asarray(np.trunc((1 - deviation) * float(MAX_SCORE)), np.int64)
