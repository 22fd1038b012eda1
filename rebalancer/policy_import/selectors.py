"""Selectors of labels: those that are written as text, the opposite of one, and several as one.

pool=web,zone in (a, b),!spot        the text, which all of its requirements must meet
pool NotIn web | zone NotIn a, b | spot Exists      its opposites: a node of any of them is not selected
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rebalancer.cluster.selectors import parse_labels

Requirement = Mapping[str, Any]  # an entry of matchExpressions

_OPPOSITE = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}


def parse_selector(text: str) -> list[Requirement] | None:
    """The requirements of a selector as kubectl writes it; None for one that asks for something else."""
    try:
        return [msgspec.to_builtins(item) for item in parse_labels(text).match_expressions or ()]
    except ValueError:
        return None


def opposite(requirement: Requirement) -> Requirement:
    """What selects exactly the objects that do not meet a requirement."""
    values = {"values": [*requirement["values"]]} if "values" in requirement else {}
    return {**requirement, "operator": _OPPOSITE[requirement["operator"]], **values}


def as_selector(requirements: Sequence[Requirement]) -> dict[str, Any]:
    """A selector of all the requirements, as short as it can be written."""
    unlike = [item for at, item in enumerate(requirements) if item not in requirements[:at]]
    plain = all(item["operator"] == "In" and len(item["values"]) == 1 for item in unlike)
    if plain and len({item["key"] for item in unlike}) == len(unlike):
        return {"matchLabels": {item["key"]: item["values"][0] for item in unlike}}
    return {"matchExpressions": unlike}


def together(selectors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One that selects what all of them select; one that is not well-formed stays as it is, to be refused."""
    first = dict(selectors[0])
    if all(item == selectors[0] for item in selectors):
        return first
    requirements: list[Requirement] = []
    for item in selectors:
        labels, expressions = item.get("matchLabels") or {}, item.get("matchExpressions") or []
        sound = isinstance(labels, Mapping) and isinstance(expressions, list)
        if not sound or not all(isinstance(one, Mapping) for one in expressions):
            return dict(item)
        requirements += [{"key": key, "operator": "In", "values": [labels[key]]} for key in labels]
        requirements += expressions
    if any(one.get("operator") not in _OPPOSITE for one in requirements):
        return first | {"matchExpressions": requirements}
    return as_selector(requirements)
