"""What resource scores compare: resources with weights and shapes, requested with the pod, and allocatable.

Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/defaults.go:177.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.nodes import CPU, MEMORY, PODS_COLUMN
from rebalancer.profiles.types import Arguments
from rebalancer.scheduling.resources import divide_toward_zero, is_scalar
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.rules import EVERY_SCORED_RESOURCE

_WITH_DEFAULTS = {"cpu": CPU, "memory": MEMORY}


def _one_if_zero(value: object) -> object:
    return 1 if value == 0 and not isinstance(value, bool) else value


class ResourceWeight(Arguments):
    """A resource and how much it counts; a weight of 0 means 1."""

    name: str = Field(min_length=1)
    weight: Annotated[int, BeforeValidator(_one_if_zero), Field(ge=1, le=100)] = 1


CPU_AND_MEMORY = (ResourceWeight(name="cpu", weight=1), ResourceWeight(name="memory", weight=1))


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


def amounts(
    state: ClusterState, requests: Mapping[str, int], rows: IntArray, resource: str, *, defaults: bool
) -> tuple[IntArray, IntArray] | None:
    """(rows,) requested with a pod that makes these requests, and allocatable; None when it does not count.

    ``defaults``: of containers that request nothing; without them pod-level requests are honoured.
    A scalar the pod does not request is not counted, nor are pods (noderesources/resource_allocation.go).
    """
    column = state.classes.column.get(resource)
    own = requests.get(resource, 0)
    unrequested = is_scalar(resource) and own == 0
    if column in (None, PODS_COLUMN) or (
        unrequested and not state.classes.release.has(EVERY_SCORED_RESOURCE)
    ):
        return None
    counted = defaults and resource in _WITH_DEFAULTS
    there = state.scored[rows, _WITH_DEFAULTS[resource]] if counted else state.requested[rows, column]
    return there + own, state.classes.allocatable[rows, column]
