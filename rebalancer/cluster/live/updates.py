"""Read, change, write: how an object that others write too is changed without overwriting what they wrote.

A write names the version that was read, and the API server refuses one that comes too late. Then, and when
the answer to a write is lost, the object is read again and the change made to what is there now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from rebalancer.cluster.live.client import RawApi
from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.errors import InputError, UnreachableError
from rebalancer.retries import Retry

MAX_ATTEMPTS = 4
APPLY = "apply k8s/base, which makes the namespace"
_FIRST_WAIT_SECONDS = 0.5
_PROXY = "is this an API server, or a proxy before one?"
_CONFLICTS = frozenset({404, 409})  # it was deleted, or changed, since it was read

_Result = TypeVar("_Result")


class NotWrittenError(Exception):
    """Somebody else was faster, or, where ``unanswered`` is set, the answer was lost."""

    def __init__(self, unanswered: UnreachableError | None = None) -> None:
        super().__init__(str(unanswered) if unanswered is not None else "it was changed meanwhile")
        self.unanswered = unanswered


def replace_version(api: RawApi, what: str, path: str, body: Mapping[str, Any]) -> bytes:
    """Replace an object that was read before. Raises NotWrittenError where reading it again may help.

    Raises UnreachableError for one that was read without a version: what others wrote would be overwritten.
    """
    metadata = body.get("metadata")
    if not (isinstance(metadata, dict) and metadata.get("resourceVersion")):
        raise UnreachableError(f"{what}: it was read without a resourceVersion", where=api.host, hint=_PROXY)
    return _write_version(api, what, "PUT", path, body)


def _write_version(api: RawApi, what: str, method: str, path: str, body: Mapping[str, Any]) -> bytes:
    try:
        return api.write(what, method, path, body)
    except RequestRejectedError as error:
        if error.status in _CONFLICTS:
            raise NotWrittenError from error
        raise
    except UnreachableError as error:
        raise NotWrittenError(error) from error


def create_version(
    api: RawApi, what: str, path: str, body: Mapping[str, Any], *, namespace: str, hint: str
) -> bytes:
    """Create an object that was absent when it was read. Raises NotWrittenError as ``replace_version`` does.

    Raises InputError when the namespace does not exist: nothing else is answered with 404 to a POST.
    """
    try:
        return _write_version(api, what, "POST", path, body)
    except NotWrittenError as error:
        cause = error.__cause__
        if isinstance(cause, RequestRejectedError) and cause.status == 404:
            raise InputError(f"namespace {namespace!a} does not exist", where=what, hint=hint) from cause
        raise


def update(
    api: RawApi, what: str, attempt: Callable[[], _Result], *, deadline_seconds: float | None = None
) -> _Result:
    """Repeat ``attempt``, which reads and calls ``replace_version``, until it succeeds.

    Raises NotWrittenError after the last attempt, StopRequestedError, and whatever else ``attempt`` raises.
    """
    retries = replace(api.retries, attempts=MAX_ATTEMPTS, first_wait_seconds=_FIRST_WAIT_SECONDS)
    if deadline_seconds is not None:
        retries = replace(retries, deadline_seconds=deadline_seconds)
    return retries.call(what, attempt, _again)


def _again(error: Exception) -> Retry | None:
    return Retry(str(error)) if isinstance(error, NotWrittenError) else None
