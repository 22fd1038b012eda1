"""API objects as JSON-ready dicts: what is read from them, their two shapes of events, refusals, selectors.

The sandbox keeps whole objects, since clients may store any field; the typed records of
``rebalancer.cluster`` know only the fields that a plan needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from rebalancer.cluster import times
from rebalancer.cluster.selectors import (
    Matcher,
    fields_match,
    matcher,
    matcher_of,
    parse_fields,
    parse_labels,
)
from rebalancer.errors import ExitCode, RebalancerError

Object = dict[str, Any]
Clock = Callable[[], float]

FINISHED_PHASES = ("Succeeded", "Failed")
_CONDITION_FIELDS = ("status", "reason", "message", "observedGeneration")


def name_of(manifest: Object) -> str:
    """metadata.name."""
    return str(manifest["metadata"]["name"])


def namespace_of(manifest: Object) -> str:
    """metadata.namespace, empty for cluster-wide objects."""
    return str(manifest["metadata"].get("namespace") or "")


def key_of(manifest: Object) -> tuple[str, str]:
    """Namespace and name."""
    return namespace_of(manifest), name_of(manifest)


def labels_of(manifest: Object) -> dict[str, str]:
    """metadata.labels, never None."""
    return manifest["metadata"].get("labels") or {}


def annotations_of(manifest: Object) -> dict[str, str]:
    """metadata.annotations, never None."""
    return manifest["metadata"].get("annotations") or {}


def spec_of(manifest: Object) -> Object:
    """The spec, never None."""
    return manifest.get("spec") or {}


def status_of(manifest: Object) -> Object:
    """The status, never None."""
    return manifest.get("status") or {}


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


def is_terminating(manifest: Object) -> bool:
    """Whether somebody asked for its deletion."""
    return bool(manifest["metadata"].get("deletionTimestamp"))


def is_finished(pod: Object) -> bool:
    """Whether a pod has ended for good."""
    return phase_of(pod) in FINISHED_PHASES


def is_active(pod: Object) -> bool:
    """Whether a controller counts the pod among its replicas."""
    return not is_terminating(pod) and not is_finished(pod)


def condition_of(manifest: Object, kind: str) -> Object | None:
    """The condition of that type, if there is one."""
    for condition in status_of(manifest).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return None


def is_ready(manifest: Object) -> bool:
    """Whether the Ready condition of a pod or node is True."""
    condition = condition_of(manifest, "Ready")
    return condition is not None and condition.get("status") == "True"


def controller_of(manifest: Object) -> Object | None:
    """The owner reference of the managing controller, if there is one."""
    for reference in manifest["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def set_condition(
    manifest: Object,
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
    conditions = manifest.setdefault("status", {}).setdefault("conditions", [])
    condition: Object = {"type": kind, "status": status}
    if reason:
        condition["reason"] = reason
    if message or standard:
        condition["message"] = message
    if standard:
        condition["observedGeneration"] = manifest["metadata"].get("generation", 0)
    for present in conditions:
        if present.get("type") != kind:
            continue
        if all(present.get(key, "") == condition.get(key, "") for key in _CONDITION_FIELDS):
            return False
        if present.get("status") == status and present.get("lastTransitionTime"):
            condition["lastTransitionTime"] = present["lastTransitionTime"]
        else:
            condition["lastTransitionTime"] = times.render(now)
        present.clear()
        present.update(condition)
        return True
    conditions.append({**condition, "lastTransitionTime": times.render(now)})
    return True


_PAIRS = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("source", "deprecatedSource"),
    ("reportingComponent", "reportingController"),
)


def to_new(event: Object) -> Object:
    """A core/v1 event as events.k8s.io/v1 shows it."""
    renames = dict(_PAIRS)
    return {renames.get(key, key): value for key, value in event.items()}


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 event as it is kept."""
    renames = {new: core for core, new in _PAIRS}
    return {renames.get(key, key): value for key, value in event.items()}


class StatusError(RebalancerError):
    """A refusal of the embedded API server; ``code`` is the HTTP status, ``retry_after`` is in seconds."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = dict(details or {})
        self.retry_after = retry_after
        if retry_after:
            self.details["retryAfterSeconds"] = retry_after

    def body(self) -> dict[str, Any]:
        """The Status object a client reads."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(details: dict[str, Any] | None = None, *, code: int = 0) -> dict[str, Any]:
    """A Status of success, as evictions, bindings and most deletions answer."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def _about(resource: str, name: str, group: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": resource}
    return {key: value for key, value in details.items() if value}


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, name: str, group: str = "") -> StatusError:
    """404: no such object."""
    message = f'{_qualified(resource, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_about(resource, name, group))


def no_such_path(why: str) -> StatusError:
    """404: no such resource is served."""
    message = f"the server could not find the requested resource: {why}"
    return StatusError(404, "NotFound", message, details={})


def already_exists(resource: str, name: str, group: str = "") -> StatusError:
    """409: an object of this name is there already."""
    message = f'{_qualified(resource, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_about(resource, name, group))


def conflict(resource: str, name: str, why: str, group: str = "") -> StatusError:
    """409: the object changed, or a precondition does not hold."""
    message = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_about(resource, name, group))


def stale(resource: str, name: str, group: str = "") -> StatusError:
    """409: the resourceVersion sent is not the newest."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why, group)


def bad_request(message: str) -> StatusError:
    """400: the request cannot be understood."""
    return StatusError(400, "BadRequest", message)


def invalid(kind: str, name: str, field: str, why: str, group: str = "") -> StatusError:
    """422: the object breaks a rule of its kind."""
    details = _about(kind, name, group)
    details["causes"] = [{"reason": "FieldValueInvalid", "message": why, "field": field}]
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {field}: {why}', details=details)


def expired(message: str) -> StatusError:
    """410: the resourceVersion or continue token is older than what is kept."""
    return StatusError(410, "Expired", message)


def unauthorized() -> StatusError:
    """401: nobody we know."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def too_many_requests(message: str, causes: list[dict[str, str]], retry_after: int = 0) -> StatusError:
    """429: try again later; ``retry_after`` in seconds, 0 for no advice."""
    return StatusError(429, "TooManyRequests", message, details={"causes": causes}, retry_after=retry_after)


def method_not_allowed() -> StatusError:
    """405: the resource does not support this verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message)


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
    return lambda manifest: selects(labels_of(manifest))


def _field(manifest: Object, path: str) -> str:
    value: Any = manifest
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
    indexed = _METADATA_FIELDS | _FIELDS.get(resource, frozenset())
    for requirement in requirements:
        if requirement.path not in indexed:
            raise bad_request(
                f'Unable to find "{resource}" that match label selector "", field selector "{text}": '
                f"field label not supported: {requirement.path}"
            )
    paths = [requirement.path for requirement in requirements]
    return lambda manifest: fields_match(requirements, {path: _field(manifest, path) for path in paths})


def label_selector(selector: Object | None) -> Matcher:
    """The match of an object's LabelSelector: none selects nothing, an empty one everything.

    A malformed one selects nothing, as in GetPodPodDisruptionBudgets of client-go's listers.
    """
    try:
        return matcher_of(selector)
    except ValueError:
        return matcher(None)
