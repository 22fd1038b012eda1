"""Resources with weights and shapes, as the arguments of the resource plugins state them.

Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/defaults.go:177.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rebalancer.profiles.arguments import Arguments


def _one_if_zero(value: object) -> object:
    return 1 if value == 0 and not isinstance(value, bool) else value


class ResourceWeight(Arguments):
    """A resource and how much it counts; a weight of 0 means 1."""

    name: str = Field(min_length=1)
    weight: Annotated[int, BeforeValidator(_one_if_zero), Field(ge=1, le=100)] = 1


CPU_AND_MEMORY = (ResourceWeight(name="cpu", weight=1), ResourceWeight(name="memory", weight=1))


def _default_if_empty(value: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
    return value or CPU_AND_MEMORY


Resources = Annotated[tuple[ResourceWeight, ...], AfterValidator(_default_if_empty)]


class ShapePoint(Arguments):
    """A point of a piecewise linear function: the score (0..10) at a utilization (0..100)."""

    utilization: int = Field(ge=0, le=100)
    score: int = Field(ge=0, le=10)


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
