"""Label selectors in a policy, written as Kubernetes writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rebalancer.cluster.records import LabelSelector, Requirement
from rebalancer.cluster.selectors import matcher
from rebalancer.policy.model import PolicyModel

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class Expression(PolicyModel):
    """One requirement of a selector."""

    key: Annotated[str, Field(min_length=1)] = Field(description="Key of the label.")
    operator: Operator = Field(description="How the value of the label is compared.")
    values: tuple[str, ...] = Field(default=(), description="Values for In and NotIn.")


class Selector(PolicyModel):
    """Objects whose labels meet every requirement; an empty one selects all."""

    match_labels: Mapping[str, str] = Field(default={}, description="Labels with these values.")
    match_expressions: tuple[Expression, ...] = Field(
        default=(), description="Further requirements, all of which must be met."
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        matcher(self._as_record())
        return self

    def _as_record(self) -> LabelSelector:
        expressions = [
            Requirement(key=item.key, operator=item.operator, values=list(item.values))
            for item in self.match_expressions
        ]
        return LabelSelector(match_labels=dict(self.match_labels), match_expressions=expressions)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet every requirement."""
        return matcher(self._as_record())(labels)

    def __str__(self) -> str:
        """As kubectl writes selectors."""
        parts = [f"{key}={value}" for key, value in sorted(self.match_labels.items())]
        for item in self.match_expressions:
            values = f" ({','.join(item.values)})" if item.values else ""
            parts.append(f"{item.key} {item.operator}{values}")
        return ",".join(parts) or "everything"
