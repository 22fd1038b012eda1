"""What resource scores compare: resources with weights and shapes, requested with the pod, and allocatable.

Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/defaults.go:177.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

import msgspec
import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.nodes import CPU, MEMORY, PODS_COLUMN
from rebalancer.profiles.types import Arguments
from rebalancer.scheduling.resources import divide_toward_zero, is_scalar, take
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.rules import EVERY_SCORED_RESOURCE

_WITH_DEFAULTS = {"cpu": CPU, "memory": MEMORY}


def _one_if_zero(value: object) -> object:
    return 1 if value == 0 and not isinstance(value, bool) else value


class ResourceWeight(Arguments):
    """A resource and how much it counts; a weight of 0 means 1."""

    name: str = Field(min_length=1)
    weight: Annotated[int, BeforeValidator(_one_if_zero), Field(ge=1, le=100)] = 1


CPU_AND_MEMORY = (
    ResourceWeight.model_construct(name="cpu", weight=1),
    ResourceWeight.model_construct(name="memory", weight=1),
)


Resources = Annotated[tuple[ResourceWeight, ...], AfterValidator(lambda given: given or CPU_AND_MEMORY)]


class ShapePoint(Arguments):
    """A point of a piecewise linear function: the score (0..10) at a utilization (0..100); absent is 0."""

    utilization: int = Field(default=0, ge=0, le=100)
    score: int = Field(default=0, ge=0, le=10)


class RequestedToCapacityRatio(Arguments):
    """The function from requested share to score."""

    shape: tuple[ShapePoint, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        for before, after in zip(self.shape, self.shape[1:], strict=False):
            if after.utilization <= before.utilization:
                raise ValueError(
                    f"utilization must increase from point to point, not go from {before.utilization} "
                    f"to {after.utilization}"
                )
        return self


_POINTS_A_SCORE = 10  # shapes are written in 0..10, scores run to 100


def on_shape(shape: Sequence[ShapePoint], used: IntArray) -> IntArray:
    """(values,) the piecewise linear function of a shape, 0..100, in truncating integers.

    ``used`` are percentages. Source: kubernetes v1.34.4
    pkg/scheduler/framework/plugins/helper/shape_score.go:40.
    """
    points = np.array([point.utilization for point in shape], np.int64)
    scores = np.array([point.score * _POINTS_A_SCORE for point in shape], np.int64)
    segment = np.searchsorted(points, used, side="left")
    right = np.clip(segment, 1, len(points) - 1) if len(points) > 1 else np.zeros_like(segment)
    left = np.maximum(right - 1, 0)
    width = np.maximum(points[right] - points[left], 1)
    between = scores[left] + divide_toward_zero((scores[right] - scores[left]) * (used - points[left]), width)
    return np.where(segment == 0, scores[0], np.where(segment >= len(points), scores[-1], between))


class ScoredResource(msgspec.Struct, frozen=True, eq=False):
    """One resource of a score, for the pods of one class."""

    name: str
    weight: int
    own: int  # what the pod requests
    column: int  # of what pods request, with defaults or without
    with_defaults: bool  # of containers that request nothing; without them pod-level requests count
    allocatable: IntArray  # (nodes,)
    offered: BoolArray | None  # (nodes,) whether there is any; None: on every node

    def requested(self, state: ClusterState, rows: IntArray) -> IntArray:
        """(rows,) what is requested with the pod."""
        there = state.scored if self.with_defaults else state.requested
        return take(there[:, self.column], rows) + self.own

    def capacity(self, rows: IntArray) -> IntArray:
        """(rows,) allocatable; 1 where there is none."""
        return take(self.allocatable, rows)


def scored_resource(
    state: ClusterState, requests: Mapping[str, int], resource: ResourceWeight, *, defaults: bool
) -> ScoredResource | None:
    """A resource as it counts for a pod that makes these requests; None when it does not count.

    A scalar the pod does not request is not counted, nor are pods (noderesources/resource_allocation.go).
    """
    classes = state.classes
    column = classes.column.get(resource.name)
    own = requests.get(resource.name, 0)
    unrequested = is_scalar(resource.name) and own == 0
    if column is None or column == PODS_COLUMN:
        return None
    if unrequested and not classes.release.has(EVERY_SCORED_RESOURCE):
        return None
    with_defaults = defaults and resource.name in _WITH_DEFAULTS
    allocatable = classes.allocatable[:, column]
    offered: BoolArray = allocatable > 0
    return ScoredResource(
        resource.name,
        resource.weight,
        own,
        _WITH_DEFAULTS[resource.name] if with_defaults else column,
        with_defaults,
        np.where(offered, allocatable, 1),
        None if offered.all() else offered,
    )


class ScoredTable(msgspec.Struct, frozen=True, eq=False):
    """Resources of a score that every node offers, all at once: arrays are (resources, nodes)."""

    own: IntArray  # (resources, 1)
    weights: IntArray  # (resources, 1)
    total_weight: int
    columns: slice  # of what pods request, with defaults or without
    with_defaults: bool
    allocatable: IntArray

    @classmethod
    def of(cls, resources: Sequence[ScoredResource]) -> ScoredTable | None:
        """The resources as one table; None where they are none, or not columns beside each other."""
        first = resources[0] if resources else None
        if first is None or any(
            resource.offered is not None
            or resource.column != first.column + at
            or resource.with_defaults != first.with_defaults
            for at, resource in enumerate(resources)
        ):
            return None
        weights = np.array([[resource.weight] for resource in resources], np.int64)
        return cls(
            np.array([[resource.own] for resource in resources], np.int64),
            weights,
            int(weights.sum()),
            slice(first.column, first.column + len(resources)),
            first.with_defaults,
            np.array([resource.allocatable for resource in resources], np.int64),
        )

    def requested(self, state: ClusterState, rows: IntArray) -> IntArray:
        """(resources, rows) what is requested with the pod."""
        there = (state.scored if self.with_defaults else state.requested).T[self.columns]
        if len(rows) < len(state.nodes):
            there = there.take(rows, axis=1)
        return there + self.own

    def capacity(self, rows: IntArray) -> IntArray:
        """(resources, rows) allocatable."""
        if len(rows) == self.allocatable.shape[1]:
            return self.allocatable
        return self.allocatable.take(rows, axis=1)
