"""What all policy models share: frozen, camelCase in text, unknown fields are errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

Item = TypeVar("Item")


class PolicyModel(BaseModel):
    """A frozen piece of a policy: snake_case in Python, camelCase in text."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        use_attribute_docstrings=False,
    )


def _unique(values: tuple[Item, ...]) -> tuple[Item, ...]:
    repeated = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if repeated is not None:
        raise ValueError(f"{repeated!s} is listed twice")
    return values


def _mapping_to_json(value: object) -> object:
    return json.dumps(value, indent=2) if isinstance(value, Mapping) else value


def _whole_if_possible(value: float) -> int | float:
    return int(value) if value.is_integer() else value


Unique = AfterValidator(_unique)
"""No item of the tuple is listed twice."""

json_text = BeforeValidator(_mapping_to_json, json_schema_input_type=str | dict[str, object])
"""A mapping is accepted too, and kept as JSON text."""

ResourceName = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9]{0,62}$")]
"""cpu, memory, pods, networkReceive, networkTransmit, or a signal of the policy."""
Percent = Annotated[
    float, Field(gt=0, le=100), PlainSerializer(_whole_if_possible, return_type=int | float, when_used="json")
]
"""Points of allocatable, above 0 and at most 100."""

PercentOrZero = Annotated[
    float, Field(ge=0, le=100), PlainSerializer(_whole_if_possible, return_type=int | float, when_used="json")
]
"""Points of allocatable, from 0 to 100."""
