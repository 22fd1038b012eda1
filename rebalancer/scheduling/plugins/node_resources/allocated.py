"""NodeResourcesFit's three ways of scoring, as the plugins of their own they were in v1beta1.

Source: kubernetes v1.22 pkg/scheduler/apis/config/v1beta1
"""

from __future__ import annotations

from typing import ClassVar

from rebalancer.profiles.types import Arguments, extension_points
from rebalancer.scheduling.framework.plugin import Evidence
from rebalancer.scheduling.plugins.node_resources.fit import (
    NodeResourcesFit,
    NodeResourcesFitArguments,
    ScoringStrategy,
    ScoringStrategyType,
)
from rebalancer.scheduling.plugins.node_resources.scored_resources import (
    CPU_AND_MEMORY,
    RequestedToCapacityRatio,
    Resources,
)


class AllocatedArguments(Arguments):
    """Arguments of NodeResourcesLeastAllocated and NodeResourcesMostAllocated."""

    resources: Resources = CPU_AND_MEMORY


class RequestedToCapacityRatioArguments(RequestedToCapacityRatio):
    """Arguments of RequestedToCapacityRatio."""

    resources: Resources = CPU_AND_MEMORY


class _ScoreOfItsOwn(NodeResourcesFit):
    """One way of scoring, which v1beta1 lists as a plugin of its own."""

    points = extension_points("score")
    versions = frozenset({"v1beta1"})
    evidence = Evidence.SOURCE
    leaves_out_overhead = False
    strategy: ClassVar[ScoringStrategyType]

    def __init__(self, arguments: AllocatedArguments | RequestedToCapacityRatioArguments) -> None:
        strategy = ScoringStrategy(
            type=self.strategy,
            resources=arguments.resources,
            requested_to_capacity_ratio=arguments
            if isinstance(arguments, RequestedToCapacityRatio)
            else None,
        )
        super().__init__(NodeResourcesFitArguments(scoring_strategy=strategy))


class NodeResourcesLeastAllocated(_ScoreOfItsOwn):
    """Scores the free share."""

    name = "NodeResourcesLeastAllocated"
    Arguments = AllocatedArguments
    strategy = ScoringStrategyType.LEAST_ALLOCATED


class NodeResourcesMostAllocated(_ScoreOfItsOwn):
    """Scores the requested share."""

    name = "NodeResourcesMostAllocated"
    Arguments = AllocatedArguments
    strategy = ScoringStrategyType.MOST_ALLOCATED


class RequestedToCapacityRatioScore(_ScoreOfItsOwn):
    """Scores the requested share on a shape."""

    name = "RequestedToCapacityRatio"
    Arguments = RequestedToCapacityRatioArguments
    strategy = ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO
