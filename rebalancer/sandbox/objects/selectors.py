"""Label and field selectors, as queries write them and as objects carry them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rebalancer.sandbox.objects.objects import Object
from rebalancer.sandbox.objects.status import bad_request

Match = Callable[[Object], bool]

_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUALITY = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*(\S*)")
_EXISTS = re.compile(r"(!?)\s*([^=!\s(),]+)")
_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
_FIELDS: dict[str, frozenset[str]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.schedulerName",
            "spec.restartPolicy",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase"}),
    "events": frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "type",
            "reportingController",
        }
    ),
}


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


def _requirement(part: str) -> tuple[str, str, frozenset[str]]:
    if match := _SET.fullmatch(part):
        return match[1], match[2], frozenset(value.strip() for value in match[3].split(","))
    if match := _EQUALITY.fullmatch(part):
        return match[1], "notin" if match[2] == "!=" else "in", frozenset({match[3]})
    if match := _EXISTS.fullmatch(part):
        return match[2], "absent" if match[1] else "exists", frozenset()
    raise bad_request(f"unable to parse requirement: found {part!r}, expected: a label selector")


def _holds(labels: Mapping[str, str], key: str, operator: str, values: frozenset[str]) -> bool:
    if operator == "in":
        return key in labels and labels[key] in values
    if operator == "notin":
        return key not in labels or labels[key] not in values
    return (key in labels) == (operator == "exists")


def label_query(text: str) -> Match:
    """The match of a ``labelSelector`` parameter, equality-based or set-based."""
    requirements = [_requirement(part) for part in _split(text)]

    def matches(item: Object) -> bool:
        labels = item["metadata"].get("labels") or {}
        return all(_holds(labels, *requirement) for requirement in requirements)

    return matches


def _field(item: Object, path: str) -> str:
    value: Any = item
    for key in path.split("."):
        value = (value or {}).get(key)
    if path == "spec.unschedulable":
        return "true" if value else "false"
    return "" if value is None else str(value)


def field_query(text: str, resource: str) -> Match:
    """The match of a ``fieldSelector`` parameter; fields the real server does not index are a 400."""
    requirements: list[tuple[str, bool, str]] = []
    for part in _split(text):
        match = _EQUALITY.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        path = match[1]
        if path not in _METADATA_FIELDS and path not in _FIELDS.get(resource, ()):
            raise bad_request(
                f'Unable to find "{resource}" that match label selector "", field selector "{text}": '
                f"field label not supported: {path}"
            )
        requirements.append((path, match[2] != "!=", match[3]))

    def matches(item: Object) -> bool:
        return all((_field(item, path) == value) == equal for path, equal, value in requirements)

    return matches


def selector_matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object selects these labels: none selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    return all(
        _holds(
            labels,
            expression["key"],
            operators[expression["operator"]],
            frozenset(expression.get("values") or ()),
        )
        for expression in selector.get("matchExpressions") or ()
    )
