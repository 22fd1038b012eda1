"""When an eviction is worthwhile, what it costs, and how far the planner searches.

The aggressiveness level says how readily pods are moved; what it sets only makes sense together. A careful
policy asks for much gain, for near certainty and for much excess removed by every restart, and leaves a node
alone that would stay hot; an eager one asks for less of each. A key that the policy names itself keeps the
policy's value at every level.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import msgspec
from pydantic import Field, model_validator

from rebalancer.policy.model import Percent, PolicyModel, ResourceName, setting
from rebalancer.policy.units import Duration

DEFAULT = 3


class Level(msgspec.Struct, frozen=True):
    """What one aggressiveness level stands for; the fields are those of ``Planning``."""

    min_gain: float  # points
    confidence: float
    partial_relief: bool
    least_relief: float  # points above coolTo for each unit of cost


LEVELS: Mapping[int, Level] = {
    1: Level(min_gain=15.0, confidence=0.99, partial_relief=False, least_relief=4.0),
    2: Level(min_gain=10.0, confidence=0.97, partial_relief=True, least_relief=1.5),
    3: Level(min_gain=5.0, confidence=0.95, partial_relief=True, least_relief=1.0),
    4: Level(min_gain=3.0, confidence=0.90, partial_relief=True, least_relief=0.2),
    5: Level(min_gain=1.0, confidence=0.80, partial_relief=True, least_relief=0.0),
}


Weight = Annotated[float, Field(ge=0, le=1000)]
"""How much one aspect of disruption counts, compared with the others."""


class Weights(PolicyModel):
    """The cost of moving a pod, each aspect from 0 to 1; fewer pods always come before cheaper ones."""

    fit: Weight = setting(1.0, "Load moved beyond what has to leave the node, per 100 percentage points.")
    fragmentation: Weight = setting(
        0.5,
        "How little its leaving narrows the gap between cpu and memory of a node that is hot in one of them.",
    )
    priority: Weight = setting(1.0, "Priority, compared with the other pods of the node.")
    pod_deletion_cost: Weight = setting(
        1.0, "Its pod-deletion-cost annotation, compared with the other pods of the node."
    )
    age: Weight = setting(0.1, "Age: from 0 for a new pod to 1 after a week.")
    replicas: Weight = setting(0.5, "1 divided by the desired replicas of its controller.")
    readiness: Weight = setting(
        0.5, "Share of its controller's replicas that are not ready; 0 for an unready pod."
    )
    eviction_cost: Weight = setting(
        1.0,
        "Its annotation scheduling.koordinator.sh/eviction-cost, compared with the other pods of the node.",
    )
    time_to_ready: Weight = setting(
        0.5,
        "How long replacements of its workload took to be ready in earlier runs; 1 from 5 minutes on.",
    )
    volumes: Weight = setting(
        0.5, "Persistent volumes, which must be attached anew: 0.5 for one, 1 for more."
    )
    spread: Weight = setting(
        1.0,
        "Availability: the replacement joins another replica on its node, or leaves a zone without any; it "
        "must gain minGain once more for each unit.",
    )


DEFAULT_MAX_AFTER: Mapping[ResourceName, float] = {"cpu": 95.0, "memory": 90.0}
"""Percent of allocatable; memory has less room, because a node without memory kills pods."""


class Planning(PolicyModel):
    """When an eviction is worthwhile, and how far the planner searches."""

    aggressiveness: int = setting(
        DEFAULT,
        "How readily pods are moved, from 1 (few, for large gains) to 5 (every improvement). Where the "
        "policy does not name them, it sets minGain (15, 10, 5, 3, 1), confidence (0.99, 0.97, 0.95, 0.9, "
        "0.8), partialRelief (false at 1) and leastRelief (4, 1.5, 1, 0.2, 0).",
        ge=1,
        le=5,
    )
    min_gain: float = setting(
        LEVELS[DEFAULT].min_gain,
        "Minimum gain of a move, in percentage points of allocatable for each hot resource.",
        ge=0,
        le=100,
    )
    partial_relief: bool = setting(
        LEVELS[DEFAULT].partial_relief,
        "Move pods off a hot node even if it stays hot.",
    )
    least_relief: float = setting(
        LEVELS[DEFAULT].least_relief,
        "Minimum relief of a move, in percentage points above coolTo for each unit of its cost. Many small "
        "pods that cool their node together need less.",
        ge=0,
        le=100,
    )
    overload: float = setting(
        1.0,
        "How much more a point of excess counts above the threshold than below it; above 100 percent "
        "three times that. With 0 all count alike.",
        ge=0,
        le=100,
    )
    confidence: float = setting(
        LEVELS[DEFAULT].confidence,
        "Minimum probability that every landing of the plan is acceptable.",
        gt=0,
        le=1,
    )
    cooldown: Duration = setting(
        3600.0,
        "How long a workload is left alone after a run moved it; doubled with each further one within "
        "cooldownWindow.",
    )
    cooldown_max: Duration = setting(86_400.0, "Maximum of a cooldown that was doubled.")
    cooldown_window: Duration = setting(
        172_800.0, "How far back the runs are counted that double a cooldown."
    )
    bad_landing_cooldown: Duration = setting(
        86_400.0, "The cooldown after one of its pods landed badly or was not replaced."
    )
    max_after: Mapping[ResourceName, Percent] = setting(
        DEFAULT_MAX_AFTER,
        "No landing fills a node above these percentages of allocatable. Resources that are not named keep "
        "their defaults.",
    )
    termination_race: Literal["strict", "likely"] = setting(
        "strict",
        "Which landings must be acceptable: with the old pod still there and without it (strict), or only "
        "the first (likely); for pods without a grace period always both.",
    )
    max_placements: int = setting(20000, "Most placements that are computed in a run.", ge=1)
    weights: Weights = setting(
        Weights.model_construct(), "Which of several equally small sets of pods is moved."
    )

    @model_validator(mode="after")
    def _by_aggressiveness(self) -> Self:
        """What the policy does not name is as the aggressiveness level says."""
        level, named = LEVELS[self.aggressiveness], self.model_fields_set
        for key in Level.__struct_fields__:
            if key not in named:
                object.__setattr__(self, key, getattr(level, key))
        return self

    @model_validator(mode="after")
    def _with_default_max_after(self) -> Self:
        object.__setattr__(self, "max_after", {**DEFAULT_MAX_AFTER, **self.max_after})
        return self
