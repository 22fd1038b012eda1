"""When a node is hot, and how far it has to cool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from rebalancer.policy.load_sources import one_key_of
from rebalancer.policy.model import (
    Percent,
    PercentOrZero,
    PolicyModel,
    ResourceName,
    Selector,
    Unique,
    setting,
)
from rebalancer.policy.units import Duration

COOLING_POINTS = 10
"""The default of coolTo is this many percentage points below its threshold."""


def _complete_cool_to(
    thresholds: Mapping[ResourceName, float], cool_to: Mapping[ResourceName, float]
) -> dict[ResourceName, float]:
    """``cool_to`` with its defaults; ValueError where it lies above the threshold of its resource."""
    for resource, level in cool_to.items():
        if resource not in thresholds:
            raise ValueError(f"coolTo names {resource}, which has no threshold in this rule")
        if level > thresholds[resource]:
            raise ValueError(
                f"coolTo {resource} {level:g} must not be above the threshold {thresholds[resource]:g}"
            )
    return {name: cool_to.get(name, max(0.0, level - COOLING_POINTS)) for name, level in thresholds.items()}


class UtilizationRule(PolicyModel):
    """Hot when the usage of a resource is above a threshold and, if pressure is given, pods wait as well."""

    utilization: Mapping[ResourceName, Percent] = Field(
        min_length=1, description="Hot above these percentages of allocatable."
    )
    cool_to: Mapping[ResourceName, PercentOrZero] = setting(
        {}, "Evict nothing more at or below these; default: 10 points below the threshold."
    )

    pressure: Mapping[Literal["cpu", "memory", "io"], Percent] = setting(
        {},
        "Hot only if something also waits for one of these for more than this percentage of 5 minutes.",
    )

    @model_validator(mode="after")
    def _with_cool_to(self) -> Self:
        object.__setattr__(self, "cool_to", _complete_cool_to(self.utilization, self.cool_to))
        return self


class DeviationRule(PolicyModel):
    """Hot when the usage of a resource is well above the mean of the nodes."""

    deviation: Mapping[ResourceName, Percent] = Field(
        min_length=1,
        description="Hot above the mean plus these percentage points.",
    )
    cool_to: Mapping[ResourceName, PercentOrZero] = setting(
        {}, "Evict nothing more at or below the mean plus these points."
    )
    floor: Mapping[ResourceName, PercentOrZero] = setting(
        {}, "Never hot below these percentages of allocatable."
    )

    @model_validator(mode="after")
    def _with_cool_to(self) -> Self:
        object.__setattr__(self, "cool_to", _complete_cool_to(self.deviation, self.cool_to))
        stray = next((name for name in self.floor if name not in self.deviation), None)
        if stray is not None:
            raise ValueError(f"floor names {stray}, which has no deviation in this rule")
        return self


class ScoreThreshold(PolicyModel):
    """How low the scheduler has to score a node for it to be hot."""

    plugins: Annotated[tuple[str, ...], Field(min_length=1), Unique] | None = setting(
        None,
        "Score plugins that count; by default those that score load or the number of pods.",
    )
    below: Percent = Field(description="Hot below this score, of 0 to 100.")


class ScoreRule(PolicyModel):
    """Hot when the scheduler itself scores the node low."""

    score: ScoreThreshold = Field(
        description="Hot where the scheduler scores a node low and its load is above the mean."
    )
    floor: Mapping[ResourceName, PercentOrZero] = setting(
        {}, "Never hot below these percentages of allocatable."
    )


_PRESSURE_ALONE = (
    "; pressure needs utilization in the same rule: a pod throttled by its own CPU limit shows pressure even "
    "on an idle node, and how far pressure falls when a pod leaves cannot be predicted"
)
HotRule = Annotated[
    Annotated[UtilizationRule, Tag("<utilization>")]
    | Annotated[DeviationRule, Tag("<deviation>")]
    | Annotated[ScoreRule, Tag("<score>")],
    one_key_of("utilization", "deviation", "score", note=_PRESSURE_ALONE),
]
"""One rule; its key names its kind."""


class Pool(PolicyModel):
    """Nodes with thresholds of their own."""

    name: str = Field(min_length=1, max_length=63, description="Name of the pool in reports.")
    node_selector: Selector = Field(
        description="Labels of its nodes; a node belongs to the first pool that selects it."
    )
    any: tuple[HotRule, ...] = setting((), "Rules that replace all others; without rules, never hot.")


class HotNodes(PolicyModel):
    """When a node is hot: if any rule matches. It is cool when no resource is above its coolTo."""

    for_runs: int = setting(2, "Evict only from nodes hot in so many runs in a row.", ge=1)
    run_interval: Duration = setting(
        900.0,
        "How often runs are scheduled; runs less than half of it apart count once.",
        le=86400,
    )
    any: tuple[HotRule, ...] = setting(
        (
            UtilizationRule.model_construct(
                utilization={"cpu": 80.0, "memory": 85.0}, cool_to={"cpu": 65.0, "memory": 75.0}
            ),
        ),
        "A node is hot if any of these rules matches.",
    )
    node_selector: Selector | None = setting(None, "Only nodes with these labels can be hot.")
    pools: tuple[Pool, ...] = setting((), "Nodes with thresholds of their own.")

    @property
    def run_spacing_seconds(self) -> float:
        """How far apart two runs must be to count as two."""
        return self.run_interval / 2

    @property
    def every_rule(self) -> tuple[HotRule, ...]:
        """The rules of all nodes and of all pools."""
        return (*self.any, *(rule for pool in self.pools for rule in pool.any))
