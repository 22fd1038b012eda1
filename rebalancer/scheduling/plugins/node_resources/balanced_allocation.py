"""NodeResourcesBalancedAllocation.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go:100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec
import numpy as np
from pydantic import model_validator

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.profiles.types import Arguments, extension_points
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Evidence, Plugin
from rebalancer.scheduling.plugins.node_resources.scored_resources import (
    CPU_AND_MEMORY,
    Resources,
    ScoredResource,
    ScoredTable,
    scored_resource,
)
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class
from rebalancer.scheduling.versions.rules import (
    BALANCE_BEFORE_AND_AFTER,
    BALANCE_OF_TWO,
    BALANCE_SKIPS_BEST_EFFORT,
)


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


class Balanced(msgspec.Struct, frozen=True, eq=False):
    """What is compared for a class, and how."""

    resources: Sequence[ScoredResource]
    of_two: bool  # cpu and memory, as up to 1.21
    counts_before: bool  # what is requested without the pod, too
    table: ScoredTable | None  # two resources that every node offers


class NodeResourcesBalancedAllocation(Plugin):
    """Scores (1 − σ)·100, σ the standard deviation of the requested shares with the pod on the node."""

    name = "NodeResourcesBalancedAllocation"
    points = extension_points("preScore score")
    Arguments = NodeResourcesBalancedAllocationArguments
    evidence = Evidence.DECISIONS
    is_in_range = True

    def __init__(self, arguments: NodeResourcesBalancedAllocationArguments) -> None:
        self._resources = arguments.resources

    @once_a_class
    def balanced_of(self, state: ClusterState, pod_class: int) -> Balanced | None:
        """What is compared for a class; None where it is not scored."""
        release = state.classes.release
        requests = state.classes.requests[pod_class]
        if release.has(BALANCE_OF_TWO):
            own = requests.incoming_scored
        else:
            own = requests.incoming_balanced
            asks = any(own.get(resource.name, 0) for resource in self._resources)
            if not asks and release.has(BALANCE_SKIPS_BEST_EFFORT):
                return None
        of_two = release.has(BALANCE_OF_TWO)
        configured = CPU_AND_MEMORY if of_two else self._resources
        counted = [scored_resource(state, own, resource, defaults=of_two) for resource in configured]
        resources = tuple(resource for resource in counted if resource is not None)
        table = ScoredTable.of(resources) if len(resources) == 2 and not of_two else None
        return Balanced(resources, of_two, release.has(BALANCE_BEFORE_AND_AFTER), table)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """Skipped for a pod that requests none of the resources; not normalised."""
        balanced = self.balanced_of(state, pod_class)
        if balanced is None:
            return None
        if balanced.table is not None:
            table = balanced.table
            capacity = table.capacity(feasible)
            amounts = table.requested(state, feasible)
            after = _balance_table(amounts, capacity)
            if not balanced.counts_before:
                return after
            return gained(after, _balance_table(amounts - table.own, capacity))
        requested = [resource.requested(state, feasible) for resource in balanced.resources]
        if balanced.of_two:
            return _balance_of_two(balanced.resources, requested, feasible)
        after = balance(balanced.resources, requested, feasible)
        if not balanced.counts_before:
            return after
        without = [
            amount - resource.own for amount, resource in zip(requested, balanced.resources, strict=True)
        ]
        return gained(after, balance(balanced.resources, without, feasible))


def gained(after: IntArray, before: IntArray) -> IntArray:
    """(rows,) the score by those with the pod and without it (v1.36.3 balanced_allocation.go:204)."""
    half = MAX_SCORE // 2
    return half + (half + after - before) // 2


def _balance_table(requested: IntArray, capacity: IntArray) -> IntArray:
    """(rows,) the score of two resources, given (resources, rows)."""
    shares = requested / capacity
    np.minimum(shares, 1.0, out=shares)
    deviation = np.abs((shares[0] - shares[1]) / 2)
    scores: IntArray = ((1 - deviation) * float(MAX_SCORE)).astype(np.int64)
    return scores


def balance(resources: Sequence[ScoredResource], requested: Sequence[IntArray], rows: IntArray) -> IntArray:
    """(rows,) the score, given what is requested of each resource."""
    shares: list[FloatArray] = []
    for resource, amount in zip(resources, requested, strict=True):
        share = np.minimum(amount / resource.capacity(rows), 1.0)
        if resource.offered is not None:
            share = np.where(resource.offered[rows], share, 0.0)
        shares.append(share)
    if not shares:
        return np.full(len(rows), MAX_SCORE, np.int64)
    every = np.ones(len(rows), np.bool_)
    return _scores(
        shares, [every if resource.offered is None else resource.offered[rows] for resource in resources]
    )


def _balance_of_two(
    resources: Sequence[ScoredResource], requested: Sequence[IntArray], rows: IntArray
) -> IntArray:
    """(rows,) what is left of 1 after the difference of two shares, each with the pod and with defaults.

    Source: kubernetes v1.20.15 pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go:85.
    """
    shares: list[FloatArray] = []
    for resource, amount in zip(resources, requested, strict=True):
        share = amount / resource.capacity(rows)
        if resource.offered is not None:
            share = np.where(resource.offered[rows], share, 1.0)
        shares.append(share)
    cpu, memory = shares  # every node has a column for them
    score = ((1 - np.abs(cpu - memory)) * float(MAX_SCORE)).astype(np.int64)
    return np.where((cpu >= 1) | (memory >= 1), 0, score)


def _scores(shares: Sequence[FloatArray], counted: Sequence[BoolArray]) -> IntArray:
    """Shares and whether they count, (nodes,) of each resource; sums run in the order of the resources."""
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
