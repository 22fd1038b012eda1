"""Label and field selectors of a query, and the label selectors that objects carry."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rebalancer.cluster.records import LabelSelector, Requirement
from rebalancer.cluster.selectors import Matcher, matcher, matcher_of
from rebalancer.sandbox.objects.accessors import Object, labels_of
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


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = [value.strip() for value in match[3].split(",")]
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(part):
        return Requirement(match[1], "NotIn" if match[2] == "!=" else "In", [match[3]])
    if match := _EXISTS.fullmatch(part):
        return Requirement(match[2], "DoesNotExist" if match[1] else "Exists")
    raise bad_request(f"unable to parse requirement: found {part!r}, expected: a label selector")


def label_query(text: str) -> Match:
    """The match of a ``labelSelector`` parameter, equality-based or set-based."""
    selects = matcher(LabelSelector(match_expressions=[_requirement(part) for part in _split(text)]))
    return lambda item: selects(labels_of(item))


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


def label_selector(selector: Object | None) -> Matcher:
    """The match of an object's LabelSelector: none selects nothing, an empty one everything.

    A malformed one selects nothing, as in GetPodPodDisruptionBudgets of client-go's listers.
    """
    try:
        return matcher_of(selector)
    except ValueError:
        return matcher(None)
