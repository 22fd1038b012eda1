"""What an API server answers when it refuses: Status objects, and the error that carries one."""

from __future__ import annotations

from typing import Any, ClassVar

from rebalancer.errors import ExitCode, RebalancerError


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
