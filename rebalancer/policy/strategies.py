"""What is moved besides pods of hot nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from rebalancer.cluster.leaving_nodes import CONDITION_TAINTS, LEAVING_TAINTS
from rebalancer.policy.model import PolicyModel, Unique

_TaintPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]+(/\*)?(=[A-Za-z0-9._-]*)?$", max_length=400)]


class Misplaced(PolicyModel):
    """Which pods count as misplaced."""

    excluded_taints: Annotated[tuple[_TaintPattern, ...], Unique] = Field(
        default=(*LEAVING_TAINTS, *CONDITION_TAINTS),
        description="Taints that make no pod misplaced: key, key=value or prefix/*. By default the taints of "
        "nodes that are about to be removed, and those that Kubernetes sets for the condition of a node.",
    )


def _from_boolean(value: object) -> object:
    """True is the strategy with its defaults, False is not a strategy."""
    if isinstance(value, bool):
        return Misplaced() if value else None
    if isinstance(value, Mapping):  # from here on lists are read as Python's own, which must be tuples
        return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    if value is None or isinstance(value, Misplaced):
        return value
    raise ValueError("should be true, false, or settings such as {excludedTaints: [...]}")


def _written(value: Misplaced | None) -> bool | dict[str, object]:
    if value is None or value == Misplaced():
        return value is not None
    return value.model_dump(mode="json", by_alias=True)


class Strategies(PolicyModel):
    """What else is moved, besides pods of hot nodes."""

    misplaced: Annotated[
        Misplaced | None,
        BeforeValidator(_from_boolean, json_schema_input_type=bool | Misplaced),
        PlainSerializer(_written, when_used="json"),
    ] = Field(
        default=None,
        json_schema_extra={"default": False},
        description="Move pods that the scheduler would no longer place on their node because of labels, "
        "taints, affinity, spread or ports: true, false, or its settings. Cordons are ignored. Pods of nodes "
        "that are about to be removed are left to whoever removes them.",
    )
