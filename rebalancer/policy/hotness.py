"""What makes a node hot, and cool again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, Tag, model_validator

from rebalancer.policy.base import Percent, PercentOrZero, PolicyModel, Unique
from rebalancer.policy.selection import Selector
from rebalancer.policy.sources import one_key_of

ResourceName = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9]{0,62}$")]
"""cpu, memory, pods, networkReceive, networkTransmit, or a signal of the policy."""
COOLING_POINTS = 10
"""coolTo lies this far below its threshold when the policy does not say."""


def _complete_cool_to(
    thresholds: Mapping[ResourceName, float], cool_to: Mapping[ResourceName, float]
) -> dict[ResourceName, float]:
    """``cool_to`` with its defaults; ValueError where it lies above the threshold of its resource."""
    for resource, level in cool_to.items():
        if resource not in thresholds:
            raise ValueError(f"coolTo names {resource}, which has no threshold in this rule")
        if level > thresholds[resource]:
            raise ValueError(
                f"coolTo {resource} {level:g} must not be above its threshold {thresholds[resource]:g}"
            )
    return {name: cool_to.get(name, max(0.0, level - COOLING_POINTS)) for name, level in thresholds.items()}


class UtilizationRule(PolicyModel):
    """Hot when a resource is used above a level."""

    utilization: Mapping[ResourceName, Percent] = Field(
        min_length=1, description="Hot above these percentages of allocatable."
    )
    cool_to: Mapping[ResourceName, PercentOrZero] = Field(
        default={},
        description="Not worth an eviction at or below these percentages; default: 10 points less.",
    )

    @model_validator(mode="after")
    def _with_cool_to(self) -> Self:
        object.__setattr__(self, "cool_to", _complete_cool_to(self.utilization, self.cool_to))
        return self


class DeviationRule(PolicyModel):
    """Hot when a resource is used well above the mean of the nodes."""

    deviation: Mapping[ResourceName, Percent] = Field(
        min_length=1,
        description="Hot this many points above the mean of the ready, known, schedulable nodes.",
    )
    cool_to: Mapping[ResourceName, PercentOrZero] = Field(
        default={}, description="Not worth an eviction at or below this many points above the mean."
    )
    floor: Mapping[ResourceName, PercentOrZero] = Field(
        default={}, description="Never hot below these percentages of allocatable, whatever the mean."
    )

    @model_validator(mode="after")
    def _with_cool_to(self) -> Self:
        object.__setattr__(self, "cool_to", _complete_cool_to(self.deviation, self.cool_to))
        stray = next((name for name in self.floor if name not in self.deviation), None)
        if stray is not None:
            raise ValueError(f"floor names {stray}, which has no deviation in this rule")
        return self


class ScoreThreshold(PolicyModel):
    """The scheduler's own view of a node."""

    plugins: Annotated[tuple[str, ...], Field(min_length=1), Unique] | None = Field(
        default=None,
        description="Score plugins whose weighted mean, for a plain pod, is taken; when absent, those of the "
        "profile that look at load or pod counts.",
    )
    below: Percent = Field(description="Hot below this score, of 100.")


class ScoreRule(PolicyModel):
    """Hot when the scheduler itself scores the node low."""

    score: ScoreThreshold = Field(
        description="The score that makes a node hot; only with fresh data and load above the mean."
    )


HotRule = Annotated[
    Annotated[UtilizationRule, Tag("<utilization>")]
    | Annotated[DeviationRule, Tag("<deviation>")]
    | Annotated[ScoreRule, Tag("<score>")],
    one_key_of("utilization", "deviation", "score"),
]
"""One way of being hot, told apart by its key."""


class Pool(PolicyModel):
    """Nodes with thresholds of their own."""

    name: str = Field(min_length=1, max_length=63, description="What the pool is called in reports.")
    node_selector: Selector = Field(
        description="Labels of its nodes; the first pool that selects a node counts."
    )
    any: tuple[HotRule, ...] = Field(
        default=(),
        description="Its rules, instead of all others; means are over its nodes. Never hot when empty.",
    )


class HotNodes(PolicyModel):
    """When a node is hot: if any rule says so; cool when none is above its coolTo."""

    for_runs: int = Field(
        default=2, ge=1, description="Hot in this many consecutive runs before anything is evicted."
    )
    any: tuple[HotRule, ...] = Field(
        default=(UtilizationRule(utilization={"cpu": 80, "memory": 85}, cool_to={"cpu": 65, "memory": 75}),),
        min_length=1,
        description="Rules; a node is hot if any of them says so.",
    )
    node_selector: Selector | None = Field(
        default=None, description="Only nodes with these labels are ever hot; all when absent."
    )
    pools: tuple[Pool, ...] = Field(default=(), description="Nodes with thresholds of their own.")

    @property
    def every_rule(self) -> tuple[HotRule, ...]:
        """The rules of all nodes and of all pools."""
        return (*self.any, *(rule for pool in self.pools for rule in pool.any))
