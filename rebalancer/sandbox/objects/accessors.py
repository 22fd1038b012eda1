"""Reads an API object, which is a JSON-ready dict as clients send it, and writes its conditions.

The sandbox keeps whole objects, since clients may store any field; the typed records of
``rebalancer.cluster`` know only the fields that a plan needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rebalancer.cluster import times

Object = dict[str, Any]
Clock = Callable[[], float]

FINISHED_PHASES = ("Succeeded", "Failed")
_CONDITION_FIELDS = ("status", "reason", "message", "observedGeneration")


def name_of(item: Object) -> str:
    """metadata.name."""
    return str(item["metadata"]["name"])


def namespace_of(item: Object) -> str:
    """metadata.namespace, empty for cluster-wide objects."""
    return str(item["metadata"].get("namespace") or "")


def key_of(item: Object) -> tuple[str, str]:
    """Namespace and name."""
    return namespace_of(item), name_of(item)


def labels_of(item: Object) -> dict[str, str]:
    """metadata.labels, never None."""
    return item["metadata"].get("labels") or {}


def annotations_of(item: Object) -> dict[str, str]:
    """metadata.annotations, never None."""
    return item["metadata"].get("annotations") or {}


def spec_of(item: Object) -> Object:
    """The spec, never None."""
    return item.get("spec") or {}


def status_of(item: Object) -> Object:
    """The status, never None."""
    return item.get("status") or {}


def requests_of(pod: Object) -> Iterator[dict[str, str]]:
    """The resource requests of each container, as quantities."""
    for container in spec_of(pod).get("containers") or ():
        requests = (container.get("resources") or {}).get("requests") or {}
        yield {resource: str(quantity) for resource, quantity in requests.items()}


def node_of(pod: Object) -> str:
    """The node a pod is bound to, or an empty string."""
    return str(spec_of(pod).get("nodeName") or "")


def phase_of(pod: Object) -> str:
    """The phase of a pod."""
    return str(status_of(pod).get("phase") or "")


def is_terminating(item: Object) -> bool:
    """Whether somebody asked for its deletion."""
    return bool(item["metadata"].get("deletionTimestamp"))


def is_finished(pod: Object) -> bool:
    """Whether a pod has ended for good."""
    return phase_of(pod) in FINISHED_PHASES


def is_active(pod: Object) -> bool:
    """Whether a controller counts the pod among its replicas."""
    return not is_terminating(pod) and not is_finished(pod)


def condition_of(item: Object, kind: str) -> Object | None:
    """The condition of that type, if there is one."""
    for condition in status_of(item).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return None


def is_ready(item: Object) -> bool:
    """Whether the Ready condition of a pod or node is True."""
    condition = condition_of(item, "Ready")
    return condition is not None and condition.get("status") == "True"


def controller_of(item: Object) -> Object | None:
    """The owner reference of the managing controller, if there is one."""
    for reference in item["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def set_condition(
    item: Object,
    kind: str,
    status: str,
    now: float,
    *,
    reason: str = "",
    message: str = "",
    standard: bool = False,
) -> bool:
    """Put a condition into ``status.conditions``; returns whether anything but its times changed.

    A ``standard`` one (meta/v1 Condition) has a message even when that is empty, and the generation it is
    about.
    """
    conditions = item.setdefault("status", {}).setdefault("conditions", [])
    wanted: Object = {"type": kind, "status": status}
    if reason:
        wanted["reason"] = reason
    if message or standard:
        wanted["message"] = message
    if standard:
        wanted["observedGeneration"] = item["metadata"].get("generation", 0)
    for condition in conditions:
        if condition.get("type") != kind:
            continue
        if all(condition.get(key, "") == wanted.get(key, "") for key in _CONDITION_FIELDS):
            return False
        if condition.get("status") == status and condition.get("lastTransitionTime"):
            wanted["lastTransitionTime"] = condition["lastTransitionTime"]
        else:
            wanted["lastTransitionTime"] = times.render(now)
        condition.clear()
        condition.update(wanted)
        return True
    conditions.append({**wanted, "lastTransitionTime": times.render(now)})
    return True
