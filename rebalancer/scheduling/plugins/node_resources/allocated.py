"""NodeResourcesFit's three ways of scoring, as the plugins of their own they were in v1beta1.

Source: kubernetes v1.22 pkg/scheduler/apis/config/v1beta1
"""

from __future__ import annotations

from rebalancer.profiles.types import Arguments, ExtensionPoint
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


class NodeResourcesLeastAllocatedArguments(Arguments):
    """Arguments of NodeResourcesLeastAllocated, a score of its own in v1beta1."""

    resources: Resources = CPU_AND_MEMORY


class NodeResourcesMostAllocatedArguments(Arguments):
    """Arguments of NodeResourcesMostAllocated, a score of its own in v1beta1."""

    resources: Resources = CPU_AND_MEMORY


class RequestedToCapacityRatioArguments(RequestedToCapacityRatio):
    """Arguments of RequestedToCapacityRatio, a score of its own in v1beta1."""

    resources: Resources = CPU_AND_MEMORY


class _ScoreOfItsOwn(NodeResourcesFit):
    """One way of scoring, which v1beta1 lists as a plugin of its own."""

    points = frozenset({ExtensionPoint.SCORE})
    versions = frozenset({"v1beta1"})
    evidence = Evidence.SOURCE


class NodeResourcesLeastAllocated(_ScoreOfItsOwn):
    """Scores the free share."""

    name = "NodeResourcesLeastAllocated"
    Arguments = NodeResourcesLeastAllocatedArguments

    def __init__(self, arguments: NodeResourcesLeastAllocatedArguments) -> None:
        strategy = ScoringStrategy(type=ScoringStrategyType.LEAST_ALLOCATED, resources=arguments.resources)
        super().__init__(NodeResourcesFitArguments(scoring_strategy=strategy))


class NodeResourcesMostAllocated(_ScoreOfItsOwn):
    """Scores the requested share."""

    name = "NodeResourcesMostAllocated"
    Arguments = NodeResourcesMostAllocatedArguments

    def __init__(self, arguments: NodeResourcesMostAllocatedArguments) -> None:
        strategy = ScoringStrategy(type=ScoringStrategyType.MOST_ALLOCATED, resources=arguments.resources)
        super().__init__(NodeResourcesFitArguments(scoring_strategy=strategy))


class RequestedToCapacityRatioScore(_ScoreOfItsOwn):
    """Scores the requested share on a shape."""

    name = "RequestedToCapacityRatio"
    Arguments = RequestedToCapacityRatioArguments

    def __init__(self, arguments: RequestedToCapacityRatioArguments) -> None:
        strategy = ScoringStrategy(
            type=ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO,
            resources=arguments.resources,
            requested_to_capacity_ratio=RequestedToCapacityRatio(shape=arguments.shape),
        )
        super().__init__(NodeResourcesFitArguments(scoring_strategy=strategy))
