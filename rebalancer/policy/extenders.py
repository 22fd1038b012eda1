"""The file of an extender's scores: what ``rebalancer extender`` answers, and by which the model knows it.

apiVersion: rebalancer/v1alpha1
kind: ExtenderScores
maxScore: 100
scores:
- plugin: PodCapacityOfNode
- name: QuietDisks
  prometheusScore: {address: http://prometheus:9090, query: "avg by (node) (disk_busy)"}
  rejectAbove: 90
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from rebalancer.documents import Document, parse, validate
from rebalancer.policy.model import PolicyModel, setting
from rebalancer.policy.schedulers import PrometheusScore
from rebalancer.policy.units import Duration

MAX_SCORES = 20
KIND = "ExtenderScores"


class ExtenderScore(PolicyModel):
    """One score of an extender: a plugin of the model or one that is installed, or the result of a query."""

    name: str | None = setting(
        None, "What reports call it; by default as the plugin.", min_length=1, max_length=100
    )
    plugin: str | None = setting(None, "A plugin that is modelled, such as TargetLoadPacking, or installed.")
    prometheus_score: PrometheusScore | None = setting(None, "The result of a PromQL query.")
    args: Mapping[str, Any] = setting({}, "Arguments of the plugin.")
    weight: int = setting(1, "Factor for what it adds to the answer.", ge=1, le=100)
    reject_above: float | None = setting(
        None, "Nodes whose value is larger are rejected, where the scheduler asks the extender to filter."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.plugin is None) == (self.prometheus_score is None):
            raise ValueError("one of plugin and prometheusScore says what is computed")
        if self.prometheus_score is None and self.reject_above is not None:
            raise ValueError("rejectAbove goes by the value of a prometheusScore")
        if self.prometheus_score is not None and (self.name is None or self.args):
            raise ValueError("a prometheusScore needs a name, and takes no args")
        return self


class ExtenderScores(PolicyModel):
    """What an extender computes."""

    api_version: Literal["rebalancer/v1alpha1"]
    kind: Literal["ExtenderScores"]
    max_score: Literal[10, 100] = setting(
        10,
        "The highest score of a node: 10 as extenders are meant to answer, 100 for as many steps as plugins "
        "have, which the scheduler counts tenfold.",
    )
    refresh: Duration = setting(15.0, "How often figures are read.", ge=1.0, le=3600.0)
    stale_after: Duration = setting(
        120.0, "Figures that are older do not count: the score is the same for all nodes.", ge=1.0, le=86400.0
    )
    await_binding: Duration = setting(
        0.1,
        "How long an answer waits until the pod asked about before is seen on its node, where scores count "
        "pods.",
        ge=0.0,
        le=5.0,
    )
    scores: tuple[ExtenderScore, ...] = Field(
        min_length=1, max_length=MAX_SCORES, description="What is computed; the answer is the sum."
    )


def parse_scores(text: str, source: str) -> tuple[ExtenderScores, Document]:
    """The scores in a text, and the text with its positions; InputError with file and line.

    A policy may name any file of the machine, so nothing is quoted of a text that is another document.
    """
    document = parse(text, source)
    value = document.value
    if not isinstance(value, dict) or value.get("kind") != KIND:
        hint = f"it begins with apiVersion: rebalancer/v1alpha1 and kind: {KIND}"
        raise document.error((), f"is not an {KIND}", hint=hint)
    return validate(ExtenderScores, document), document
