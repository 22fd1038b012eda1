"""What is moved besides pods of hot nodes: the settings of the strategies, each under its name.

A strategy declares its settings beside its algorithm, in ``planning.strategies``, which is above a policy. So
this module imports none of them: it looks their registry up when the first policy is read, as plugins are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, PlainSerializer, create_model
from pydantic.alias_generators import to_snake
from pydantic_core.core_schema import CoreSchema

from rebalancer.policy.model import PolicyModel

REGISTRY = "rebalancer.planning.strategies"
ALWAYS_ON = ("hotNodes",)
"""Strategies whose settings have a place of their own in a policy."""


class Strategies(PolicyModel):
    """What else is moved, besides pods of hot nodes."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema with a field for each strategy."""
        return handler.generate_schema(every_strategy()) if cls is Strategies else handler(source)


@cache
def every_strategy() -> type[Strategies]:
    """The model with a field for each strategy: true, false, or its settings."""
    fields: dict[str, Any] = {
        to_snake(strategy.name): _field(strategy.settings_type, strategy.description)
        for strategy in import_module(REGISTRY).STRATEGIES
        if strategy.name not in ALWAYS_ON
    }
    return create_model(Strategies.__name__, __base__=Strategies, __doc__=Strategies.__doc__, **fields)


def no_strategies() -> Strategies:
    """What a policy has that names none; their settings are not checked, so nothing is built for that."""
    return every_strategy().model_construct()


def _field(settings: type[PolicyModel], description: str) -> tuple[Any, Any]:
    kind: Any = Annotated[
        settings | None,
        BeforeValidator(partial(_from_boolean, settings), json_schema_input_type=bool | settings),
        PlainSerializer(_written, when_used="json"),
    ]
    return kind, Field(default=None, json_schema_extra={"default": False}, description=description)


def _from_boolean(settings: type[PolicyModel], value: object) -> object:
    """True is the strategy with its defaults, False is not a strategy."""
    if isinstance(value, bool):
        return settings() if value else None
    if isinstance(value, Mapping):  # from here on lists are read as Python's own, which must be tuples
        return _with_tuples(value)
    if value is None or isinstance(value, settings):
        return value
    first = next((field.alias for field in settings.model_fields.values()), None)
    other = f", false, or settings such as {{{first}: ...}}" if first else " or false"
    raise ValueError(f"should be true{other}")


def _with_tuples(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _with_tuples(field_value) for key, field_value in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _written(value: PolicyModel | None) -> bool | dict[str, object]:
    if value is None or value == type(value)():
        return value is not None
    return value.model_dump(mode="json", by_alias=True)
