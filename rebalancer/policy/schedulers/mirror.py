"""Plugins of the scheduler's configuration that a policy describes, so that nobody has to write code."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rebalancer.policy.load_sources.prometheus import MAX_QUERY_LENGTH
from rebalancer.policy.model import PolicyModel, ResourceName


class PrometheusScore(PolicyModel):
    """A score that is a PromQL result; its weight is the one that the configuration gives the plugin."""

    address: str = Field(
        pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?$",
        max_length=2000,
        description="The Prometheus that the plugin asks.",
    )
    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_LENGTH,
        description="The PromQL expression, with one value per node.",
    )
    node_label: str = Field(
        default="node",
        pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}$",
        description="Label of the series that holds the node's name or address.",
    )
    direction: Literal["higher", "lower"] = Field(
        default="lower", description="Whether the plugin prefers higher or lower values."
    )
    normalization: Literal["range", "maximum", "none"] = Field(
        default="range",
        description="What the scores 0 and 100 stand for: the smallest and the largest value of the nodes "
        "(range), zero "
        "and the largest value (maximum), or the values 0 and 100 themselves (none).",
    )
    scale: float = Field(
        default=1.0,
        gt=0,
        le=1e9,
        description="Factor for the value, before it is truncated to an integer score.",
    )
    resource: ResourceName | None = Field(
        default=None,
        description="The resource that the value follows: cpu, memory, pods, networkReceive, networkTransmit "
        "or a signal. A score rule of hotNodes cools it, and needs it to be measured.",
    )
    missing_score: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Score of a node without a value; by default such nodes make placements unpredictable.",
    )


class Mirror(PolicyModel):
    """What a plugin of the configuration computes."""

    plugin: str = Field(min_length=1, max_length=253, description="Its name in the configuration.")
    prometheus_score: PrometheusScore = Field(
        description="The plugin scores nodes by the result of a PromQL query."
    )


def check_mirrors(mirrors: tuple[Mirror, ...]) -> tuple[Mirror, ...]:
    """Each plugin once, and one label a query: ValueError otherwise."""
    labels: dict[tuple[str, str], str] = {}
    for index, mirror in enumerate(mirrors):
        if any(mirror.plugin == other.plugin for other in mirrors[:index]):
            raise ValueError(f"{mirror.plugin} is listed twice")
        score = mirror.prometheus_score
        if labels.setdefault((score.address, score.query), score.node_label) != score.node_label:
            raise ValueError(
                f"{mirror.plugin} has the same query as another plugin, but a different nodeLabel"
            )
    return mirrors
