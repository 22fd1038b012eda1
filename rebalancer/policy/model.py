"""What all policy models share: frozen, camelCase in text, unknown fields are errors; and label selectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, model_validator

from rebalancer.cluster.records import LabelSelector, Requirement
from rebalancer.cluster.selectors import matcher
from rebalancer.documents.models import WrittenModel, to_camel

Element = TypeVar("Element")


class PolicyModel(WrittenModel):
    """A piece of a policy."""


def setting(default: Any, meaning: str, **bounds: Any) -> Any:
    """A key that a policy may leave out: its default, what it means, and its bounds."""
    return Field(default=default, description=meaning, **bounds)


def _unique(values: tuple[Element, ...]) -> tuple[Element, ...]:
    repeated = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if repeated is not None:
        raise ValueError(f"{repeated!s} is listed twice")
    return values


def _mapping_to_json(value: object) -> object:
    return json.dumps(value, indent=2) if isinstance(value, Mapping) else value


def _whole_if_possible(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _percent(value: object) -> object:
    """A number, or text such as 80%."""
    if isinstance(value, str) and value.endswith("%"):
        try:
            return float(value[:-1])
        except ValueError:
            raise ValueError(f"{value[:40]!r} is not a percentage; write e.g. 80 or 80%") from None
    return value


def _no_fraction(value: float, info: ValidationInfo) -> float:
    if info.mode == "json" and 0 < value < 1:
        raise ValueError(f"{value:g} %? Write {value * 100:g} for {value * 100:g} percent")
    return value


def _count_of_pods(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        field = to_camel(info.field_name or "this")
        if value.endswith("%"):
            raise ValueError(f"{field} counts pods; only perWorkload and maxNotReadyNodes take a percentage")
        if value.isdecimal():
            raise ValueError(f"{field} is a number; write {value} without quotes")
    return value


Unique = AfterValidator(_unique)
"""No item of the tuple is listed twice."""

json_text = BeforeValidator(_mapping_to_json, json_schema_input_type=str | dict[str, object])
"""A mapping is accepted too, and kept as JSON text."""

ResourceName = Annotated[
    str,
    Field(
        pattern=r"^([a-z][a-zA-Z0-9]{0,62}|hugepages-[0-9]{1,9}[KMG]i|[a-z0-9][a-z0-9.-]{0,252}/[a-zA-Z0-9][a-zA-Z0-9._-]{0,62})$",
        examples=["cpu", "memory"],
    ),
]
"""cpu, memory, pods, networkReceive, networkTransmit, a signal of the policy, or an extended resource."""


def is_extended(resource: str) -> bool:
    """Whether pods get a resource by request alone, as nvidia.com/gpu and hugepages: nothing measures it."""
    return "/" in resource or resource.startswith("hugepages-")


Percent = Annotated[
    float,
    Field(gt=0, le=100),
    BeforeValidator(_percent, json_schema_input_type=float | str),
    AfterValidator(_no_fraction),
    PlainSerializer(_whole_if_possible, return_type=int | float, when_used="json"),
]
"""Points of allocatable, above 0 and at most 100; what looks like a fraction of 1 is refused."""

PercentOrZero = Annotated[
    float,
    Field(ge=0, le=100),
    BeforeValidator(_percent, json_schema_input_type=float | str),
    PlainSerializer(_whole_if_possible, return_type=int | float, when_used="json"),
]
"""Points of allocatable, from 0 to 100."""

CountOfPods = Annotated[int, BeforeValidator(_count_of_pods, json_schema_input_type=int)]
"""A number of pods, never a percentage."""


Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class Expression(PolicyModel):
    """One requirement of a selector."""

    key: Annotated[str, Field(min_length=1)] = Field(description="Key of the label.")
    operator: Operator = Field(description="How the value of the label is compared.")
    values: tuple[str, ...] = setting((), "Values for In and NotIn.")


class Selector(PolicyModel):
    """Objects whose labels meet every requirement; an empty one selects all."""

    match_labels: Mapping[str, str] = setting({}, "Labels with these values.")
    match_expressions: tuple[Expression, ...] = setting((), "Further requirements, all of which must be met.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        matcher(self._as_record())
        return self

    def _as_record(self) -> LabelSelector:
        expressions = [
            Requirement(key=expression.key, operator=expression.operator, values=list(expression.values))
            for expression in self.match_expressions
        ]
        return LabelSelector(match_labels=dict(self.match_labels), match_expressions=expressions)

    @property
    def matches(self) -> Callable[[Mapping[str, str]], bool]:
        """``selects``, for many objects."""
        return matcher(self._as_record())

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet every requirement."""
        return matcher(self._as_record())(labels)

    def __str__(self) -> str:
        """As kubectl writes selectors."""
        parts = [f"{key}={value}" for key, value in sorted(self.match_labels.items())]
        for expression in self.match_expressions:
            values = f" ({','.join(expression.values)})" if expression.values else ""
            parts.append(f"{expression.key} {expression.operator}{values}")
        return ",".join(parts) or "everything"
