"""Label and field selectors of a query, and the label selectors that objects carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalancer.cluster.selectors import (
    Matcher,
    fields_match,
    matcher,
    matcher_of,
    parse_fields,
    parse_labels,
)
from rebalancer.sandbox.objects.accessors import Object, labels_of
from rebalancer.sandbox.objects.status import bad_request

Match = Callable[[Object], bool]

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


def label_query(text: str) -> Match:
    """The match of a ``labelSelector`` parameter, equality-based or set-based."""
    try:
        selects = matcher(parse_labels(text))
    except ValueError as error:
        raise bad_request(str(error)) from error
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
    try:
        requirements = parse_fields(text)
    except ValueError as error:
        raise bad_request(str(error)) from error
    known = _METADATA_FIELDS | _FIELDS.get(resource, frozenset())
    for requirement in requirements:
        if requirement.path not in known:
            raise bad_request(
                f'Unable to find "{resource}" that match label selector "", field selector "{text}": '
                f"field label not supported: {requirement.path}"
            )
    paths = [requirement.path for requirement in requirements]
    return lambda item: fields_match(requirements, {path: _field(item, path) for path in paths})


def label_selector(selector: Object | None) -> Matcher:
    """The match of an object's LabelSelector: none selects nothing, an empty one everything.

    A malformed one selects nothing, as in GetPodPodDisruptionBudgets of client-go's listers.
    """
    try:
        return matcher_of(selector)
    except ValueError:
        return matcher(None)
