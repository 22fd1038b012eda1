"""The settings of the strategy that empties nodes, apart from it: what counts nodes is given them too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from rebalancer.policy.model import Percent, PolicyModel, Selector
from rebalancer.policy.units import Amount, AmountField, Duration


class ConsolidationSettings(PolicyModel):
    """Which nodes may be emptied, and how full others become."""

    node_selector: Selector = Field(
        default=Selector(), description="Labels of the nodes that may be emptied."
    )
    max_nodes: int = Field(default=2, ge=1, description="Maximum number of nodes emptied in one run.")
    keep: AmountField = Field(
        default=Amount(1), description="Least nodes that stay in use: a number, or a percentage of all nodes."
    )
    max_requested: Percent = Field(
        default=100.0,
        description="Percent of a node's cpu, and of its memory, up to which requests may fill it.",
    )
    min_node_age: Duration = Field(default=3600.0, description="A younger node is not emptied.")
    settle: Duration = Field(
        default=3600.0, description="A node that pods left or came to by a run is not emptied for so long."
    )
    taint_for: Duration = Field(
        default=0.0,
        description="With more than 0s, nodes have a NoSchedule taint while they are emptied, and so long "
        "afterwards if nobody removes them. It needs the right to patch nodes.",
    )
    prices: Mapping[str, Annotated[float, Field(ge=0)]] = Field(
        default={},
        description="Price of a node by its label node.kubernetes.io/instance-type; its annotation "
        "rebalancer/price comes first. Without any price every node saves the same.",
    )
    allow_karpenter: bool = Field(
        default=False, description="Empty nodes of Karpenter as well, which consolidates them itself."
    )
