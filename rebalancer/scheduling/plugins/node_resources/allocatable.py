"""NodeResourcesAllocatable: the smaller the node, or the larger, the higher the score.

Source: scheduler-plugins v0.34.7 pkg/noderesources/allocatable.go, apis/config/v1/defaults.go:34.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import Arguments, extension_points
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Normalization, Plugin
from rebalancer.scheduling.resources import divide_toward_zero, is_scalar
from rebalancer.scheduling.state.cluster_state import ClusterState


class AllocatableResource(Arguments):
    """A resource and how much a unit of it counts: a thousandth of a core, a byte, one of anything else."""

    name: str = ""
    weight: int = Field(ge=1, le=1 << 40)  # the scheduler takes more, and its sums overflow then


_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_DEFAULTS = (
    AllocatableResource.model_construct(name="cpu", weight=1 << 20),
    AllocatableResource.model_construct(name="memory", weight=1),
)


class AllocatableArguments(Arguments):
    """Arguments of NodeResourcesAllocatable."""

    mode: Annotated[Literal["Least", "Most"], BeforeValidator(lambda given: given or "Least")] = "Least"
    resources: Annotated[
        tuple[AllocatableResource, ...], AfterValidator(lambda given: given or _DEFAULTS)
    ] = _DEFAULTS


class NodeResourcesAllocatable(Plugin):
    """Scores what nodes have allocatable, weighted; whatever runs there."""

    name = "NodeResourcesAllocatable"
    points = extension_points("score")
    Arguments = AllocatableArguments
    static = True
    normalization = Normalization.RANGE

    def __init__(self, arguments: AllocatableArguments) -> None:
        self._sign = -1 if arguments.mode == "Least" else 1
        self._weights = {resource.name: resource.weight for resource in arguments.resources}

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """The mean of what is allocatable by weight, negative where the least is preferred."""
        score = np.zeros(len(feasible), np.int64)
        for resource, weight in self._weights.items():
            column = state.classes.column.get(resource)
            if column is not None and (resource in _NATIVE or is_scalar(resource)):
                score += self._sign * state.classes.allocatable[feasible, column] * weight
        return divide_toward_zero(score, sum(self._weights.values()))

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """From 0 for the lowest to 100 for the highest; all 0 when equal."""
        if smallest == largest:
            return np.zeros_like(raw)
        return divide_toward_zero((raw - smallest) * MAX_SCORE, largest - smallest)
