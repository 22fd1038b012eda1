"""NodeResourcesFit's three ways of scoring, as the plugins of their own they were in v1beta1.

Source: kubernetes v1.22 pkg/scheduler/apis/config/v1beta1
"""

from __future__ import annotations

from rebalancer.profiles.arguments import Arguments
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import Evidence
from rebalancer.scheduling.plugins.node_resources.fit import (
    NodeResourcesFit,
    NodeResourcesFitArguments,
    ScoringStrategy,
    ScoringStrategyType,
)
from rebalancer.scheduling.plugins.node_resources.weights import (
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


class NodeResourcesLeastAllocated(NodeResourcesFit):
    """Scores the free share."""

    name = "NodeResourcesLeastAllocated"
    points = frozenset({ExtensionPoint.SCORE})
    Arguments = NodeResourcesLeastAllocatedArguments
    versions = frozenset({"v1beta1"})
    evidence = Evidence.SOURCE

    def __init__(self, arguments: NodeResourcesLeastAllocatedArguments) -> None:
        strategy = ScoringStrategy(type=ScoringStrategyType.LEAST_ALLOCATED, resources=arguments.resources)
        super().__init__(NodeResourcesFitArguments(scoring_strategy=strategy))


class NodeResourcesMostAllocated(NodeResourcesFit):
    """Scores the requested share."""

    name = "NodeResourcesMostAllocated"
    points = frozenset({ExtensionPoint.SCORE})
    Arguments = NodeResourcesMostAllocatedArguments
    versions = frozenset({"v1beta1"})
    evidence = Evidence.SOURCE

    def __init__(self, arguments: NodeResourcesMostAllocatedArguments) -> None:
        strategy = ScoringStrategy(type=ScoringStrategyType.MOST_ALLOCATED, resources=arguments.resources)
        super().__init__(NodeResourcesFitArguments(scoring_strategy=strategy))


class RequestedToCapacityRatioScore(NodeResourcesFit):
    """Scores the requested share on a shape."""

    name = "RequestedToCapacityRatio"
    points = frozenset({ExtensionPoint.SCORE})
    Arguments = RequestedToCapacityRatioArguments
    versions = frozenset({"v1beta1"})
    evidence = Evidence.SOURCE

    def __init__(self, arguments: RequestedToCapacityRatioArguments) -> None:
        strategy = ScoringStrategy(
            type=ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO,
            resources=arguments.resources,
            requested_to_capacity_ratio=RequestedToCapacityRatio(shape=arguments.shape),
        )
        super().__init__(NodeResourcesFitArguments(scoring_strategy=strategy))
