"""Selectors as people write them after ``-l`` and ``--field-selector``, and clients in queries.

app=web,tier in (front,back),!canary       →  three requirements on labels, all of which must hold
spec.nodeName=node-1,metadata.name!=web-0  →  two on fields
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rebalancer.cluster.records import LabelSelector, Requirement

_SET = re.compile(r"([^=!\s,()]+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUALITY = re.compile(r"([^=!\s,()]+)\s*(==|=|!=)\s*([^=!\s,()]*)")
_EXISTS = re.compile(r"(!?)\s*([^=!\s(),]+)")


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One field that must have a value, or must not."""

    path: str
    value: str
    equal: bool = True


def parse_labels(text: str) -> LabelSelector:
    """The selector, equality-based or set-based; ValueError names the part that is none."""
    return LabelSelector(match_expressions=[_requirement(part) for part in _split(text)])


def parse_fields(text: str) -> tuple[FieldRequirement, ...]:
    """The requirements on fields, all of which must hold; ValueError names the part that is none."""
    found = []
    for part in _split(text):
        match = _EQUALITY.fullmatch(part)
        if match is None:
            raise ValueError(f"invalid selector: {part[:60]!a} is not FIELD=VALUE")
        found.append(FieldRequirement(match[1], match[3], match[2] != "!="))
    return tuple(found)


def fields_match(requirements: tuple[FieldRequirement, ...], fields: Mapping[str, str]) -> bool:
    """Whether an object with these fields fulfils all requirements."""
    return all((fields.get(item.path, "") == item.value) == item.equal for item in requirements)


def _split(text: str) -> list[str]:
    """Cut at the commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = [value.strip() for value in match[3].split(",")]
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(part):
        return Requirement(match[1], "NotIn" if match[2] == "!=" else "In", [match[3]])
    if match := _EXISTS.fullmatch(part):
        return Requirement(match[2], "DoesNotExist" if match[1] else "Exists")
    raise ValueError(f"unable to parse requirement: found {part[:60]!a}, expected: a label selector")
