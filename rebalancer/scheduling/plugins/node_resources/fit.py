"""NodeResourcesFit: room for the pod, and three ways of scoring it.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/noderesources/fit.go:509, :663.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Self

import msgspec
import numpy as np
from pydantic import model_validator

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.nodes import CPU, EPHEMERAL_STORAGE, MEMORY, PODS_COLUMN
from rebalancer.cluster.quantities import units_of
from rebalancer.profiles.types import Arguments, extension_points
from rebalancer.profiles.types import Arguments as PluginArguments
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Evidence, Plugin
from rebalancer.scheduling.plugins.node_resources import scored_resources
from rebalancer.scheduling.plugins.node_resources.scored_resources import ScoredResource, ScoredTable
from rebalancer.scheduling.resources import exact_amounts, is_scalar, round_half_away
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class
from rebalancer.scheduling.versions.rules import (
    EVERY_SCORED_RESOURCE,
    FIT_COMPARES_ALL,
    SCORE_WITHOUT_OVERHEAD,
    ZERO_SCALARS,
)

_TOO_MANY_PODS = 1
_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_MAX_CODED = 60  # bits of a code; the resources beyond share the last one


class ScoringStrategyType(StrEnum):
    """How NodeResourcesFit turns requested and allocatable into a score."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ScoringStrategy(Arguments):
    """Which resources NodeResourcesFit scores, and how."""

    type: ScoringStrategyType
    resources: scored_resources.Resources = scored_resources.CPU_AND_MEMORY
    requested_to_capacity_ratio: scored_resources.RequestedToCapacityRatio | None = None

    @model_validator(mode="after")
    def _shape_where_needed(self) -> Self:
        if (
            self.type is ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO
            and not self.requested_to_capacity_ratio
        ):
            raise ValueError("type RequestedToCapacityRatio needs requestedToCapacityRatio.shape")
        return self


class NodeResourcesFitArguments(Arguments):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy.model_construct(
        type=ScoringStrategyType.LEAST_ALLOCATED
    )

    @model_validator(mode="after")
    def _groups_have_no_slash(self) -> Self:
        bad = next((group for group in self.ignored_resource_groups if "/" in group), None)
        if bad is not None:
            raise ValueError(f"ignoredResourceGroups: {bad} must be a group, without a slash")
        return self


class Room(msgspec.Struct, frozen=True, eq=False):
    """What of a node may be taken already, for a pod of a class to fit beside it."""

    pods: IntArray  # (nodes,) fewer than these
    resources: tuple[tuple[int, IntArray], ...]  # by column: (nodes,) no more than these


class NodeResourcesFit(Plugin):
    """Rejects nodes without room; scores by how much of each resource would be taken."""

    name = "NodeResourcesFit"
    needs_pre_filter = True
    points = extension_points("preFilter filter preScore score")
    Arguments: ClassVar[type[PluginArguments] | None] = NodeResourcesFitArguments
    static_pre_filter = True
    is_in_range = True
    evidence = Evidence.DECISIONS
    leaves_out_overhead: ClassVar[bool] = True  # where a rule of the release does

    def __init__(self, arguments: NodeResourcesFitArguments) -> None:
        self._scored = arguments.scoring_strategy
        self.scoring_type = self._scored.type
        self.is_ratio = self._scored.type is ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO
        self._ignored = frozenset(arguments.ignored_resources)
        self._ignored_groups = frozenset(arguments.ignored_resource_groups)
        ratio = self._scored.requested_to_capacity_ratio
        self._shape = ratio.shape if ratio else ()

    def _is_ignored(self, resource: str) -> bool:
        extended = "/" in resource and "kubernetes.io/" not in resource
        return extended and (resource in self._ignored or resource.split("/", 1)[0] in self._ignored_groups)

    @once_a_class
    def room(self, state: ClusterState, pod_class: int) -> Room:
        """What must fit: native resources first, then scalars by name."""
        classes = state.classes
        incoming = classes.requests[pod_class].incoming
        row = classes.vector(incoming)
        scalars = [column for column in range(PODS_COLUMN + 1, len(row)) if row[column] > 0]
        if classes.release.has(ZERO_SCALARS):
            scalars = sorted(classes.column[name] for name in incoming if is_scalar(name))
        columns = [column for column in _NATIVE if row[column] > 0]
        if classes.release.has(FIT_COMPARES_ALL) and (columns or any(map(is_scalar, incoming))):
            columns = list(_NATIVE)
        columns += [column for column in scalars if not self._is_ignored(classes.resources[column])]
        return Room(
            classes.allocatable[:, PODS_COLUMN],
            tuple((column, classes.allocatable[:, column] - row[column]) for column in columns),
        )

    def _short(self, state: ClusterState, pod_class: int) -> Iterator[BoolArray]:
        """(nodes,) whether there is too little: of pods first, then of each resource that must fit."""
        room = self.room(state, pod_class)
        yield state.pod_count >= room.pods
        for column, highest in room.resources:
            yield state.requested[:, column] > highest

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """Bit 0: too many pods; bit k: not enough of the k-th resource requested."""
        codes = np.zeros(len(state.nodes), np.int64)
        for bit, short in enumerate(self._short(state, pod_class)):
            codes |= short.astype(np.int64) << min(bit, _MAX_CODED)
        return codes

    def rejected(self, state: ClusterState, pod_class: int) -> BoolArray:
        parts = self._short(state, pod_class)
        rejected = next(parts)
        for short in parts:
            rejected |= short
        return rejected

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        """The scheduler's words: every resource that is short."""
        reasons = ["Too many pods"] if code & _TOO_MANY_PODS else []
        for bit, (column, _) in enumerate(self.room(state, pod_class).resources, start=1):
            if code >> min(bit, _MAX_CODED) & 1:
                reasons.append(f"Insufficient {state.classes.resources[column]}")
        return ", ".join(reasons)

    @once_a_class
    def scored_by(self, state: ClusterState, pod_class: int) -> Sequence[ScoredResource]:
        """The resources of the score, as they count for a class."""
        own = self._own(state, pod_class)
        counted = (
            scored_resources.scored_resource(state, own, resource, defaults=True)
            for resource in self._scored.resources
        )
        return tuple(resource for resource in counted if resource is not None)

    @once_a_class
    def _table(self, state: ClusterState, pod_class: int) -> ScoredTable | None:
        """The same resources as one table, where their mean has the same weights on every node."""
        if self.is_ratio or state.classes.release.has(EVERY_SCORED_RESOURCE):
            return None
        return ScoredTable.of(self.scored_by(state, pod_class))

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """Σ score·weight ÷ Σ weight over the configured resources; not normalised."""
        table = self._table(state, pod_class)
        if table is not None:
            scores = self.score_of(table.requested(state, feasible), table.capacity(feasible))
            if table.total_weight > len(scores):
                scores *= table.weights
            mean: IntArray = np.add.reduce(scores) // table.total_weight
            return mean
        if state.classes.release.has(EVERY_SCORED_RESOURCE):
            return self._scores_of_all(state, pod_class, feasible)
        total = np.zeros_like(feasible)
        weights: IntArray | int = 0  # one number while every node offers what is counted
        for resource in self.scored_by(state, pod_class):
            score = self.score_of(resource.requested(state, feasible), resource.capacity(feasible))
            score *= resource.weight
            if resource.offered is None and not self.is_ratio:
                total += score
                weights = weights + resource.weight
                continue
            counted = np.ones(len(feasible), np.bool_)
            if resource.offered is not None:
                counted = resource.offered[feasible]
            if self.is_ratio:
                counted &= score > 0
            total += np.where(counted, score, 0)
            weights = weights + np.where(counted, resource.weight, 0)
        return self._mean(total, weights)

    def _own(self, state: ClusterState, pod_class: int) -> Mapping[str, int]:
        """What the pod counts for in the score."""
        own = state.classes.requests[pod_class].incoming_scored
        overhead = state.classes[pod_class].spec.overhead
        if overhead and self.leaves_out_overhead and state.classes.release.has(SCORE_WITHOUT_OVERHEAD):
            left_out = {name: units_of(value) for name, value in exact_amounts(overhead).items()}
            return {name: value - left_out.get(name, 0) for name, value in own.items()}
        return own

    def _scores_of_all(self, state: ClusterState, pod_class: int, rows: IntArray) -> IntArray:
        """As ``raw_scores``, up to 1.21: a resource that a node does not offer counts as one that is used up.

        Source: kubernetes v1.20.15 pkg/scheduler/framework/plugins/noderesources/resource_allocation.go:90,
        requested_to_capacity_ratio.go:112.
        """
        total = np.zeros_like(rows)
        weights = np.zeros_like(rows)
        counting = {scored.name: scored for scored in self.scored_by(state, pod_class)}
        for resource in self._scored.resources:
            offered = np.zeros(len(rows), np.bool_)
            requested = np.zeros_like(rows)
            capacity = np.ones_like(rows)
            scored = counting.get(resource.name)
            if scored is not None:
                offered = np.ones(len(rows), np.bool_) if scored.offered is None else scored.offered[rows]
                requested = scored.requested(state, rows)
                capacity = scored.capacity(rows)
            if self.is_ratio:
                full = ~offered | (requested > capacity)
                free = (capacity - requested) * MAX_SCORE // capacity
                score = scored_resources.on_shape(self._shape, np.where(full, MAX_SCORE, MAX_SCORE - free))
                counted = score > 0
            else:
                score = np.where(offered, self.score_of(requested, capacity), 0)
                counted = np.ones_like(offered)
            total += np.where(counted, score * resource.weight, 0)
            weights += np.where(counted, resource.weight, 0)
        return self._mean(total, weights)

    def _mean(self, total: IntArray, weights: IntArray | int) -> IntArray:
        if isinstance(weights, int):
            return total // weights if weights else total
        divisor = np.where(weights > 0, weights, 1)
        mean = round_half_away(total / divisor) if self.is_ratio else total // divisor
        return np.where(weights > 0, mean, 0)

    def score_of(self, requested: IntArray, allocatable: IntArray) -> IntArray:
        match self._scored.type:
            case ScoringStrategyType.LEAST_ALLOCATED:
                left: IntArray = allocatable - requested
                np.maximum(left, 0, out=left)
                left *= MAX_SCORE
                left //= allocatable
                return left
            case ScoringStrategyType.MOST_ALLOCATED:
                return np.minimum(requested, allocatable) * MAX_SCORE // allocatable
            case _:
                over = requested > allocatable
                used = np.where(over, MAX_SCORE, requested * MAX_SCORE // allocatable)
                return scored_resources.on_shape(self._shape, used)
