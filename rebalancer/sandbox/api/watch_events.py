"""WATCH: the log of the store as a stream of events, with selectors, bookmarks and an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from rebalancer.sandbox.api.http_request import Request, Target
from rebalancer.sandbox.api.list_pages import number, selection, whole
from rebalancer.sandbox.objects.change_log import Change, Record
from rebalancer.sandbox.objects.query_selectors import Match
from rebalancer.sandbox.objects.status import StatusError
from rebalancer.sandbox.objects.store import Store

_DEFAULT_TIMEOUT_SECONDS = 1800
_POLL_SECONDS = 0.5
_BOOKMARK_BEFORE_END_SECONDS = 2.0


def watch(
    store: Store,
    request: Request,
    target: Target,
    *,
    goes_on: Callable[[], bool],
    bookmark_seconds: float,
) -> Iterator[bytes]:
    """Events as lines of JSON; ends after ``timeoutSeconds``, with an ERROR, or once ``goes_on()`` is false.

    Without a resourceVersion, or with 0, it begins with an ADDED for every object there is.
    """
    match = selection(request, target)
    version = number(request, "resourceVersion")
    if request.flag("sendInitialEvents") or version == 0:
        records, version = store.records(target.resource.storage, target.namespace)
        for record in records:
            if match(record.object):
                yield _line("ADDED", target, record)
        if request.flag("sendInitialEvents") and request.flag("allowWatchBookmarks"):
            yield _bookmark(target, version, {"k8s.io/initial-events-end": "true"})
    yield b""  # the answer begins now, even when nothing has happened yet
    bookmarks = request.flag("allowWatchBookmarks")
    end = time.monotonic() + (number(request, "timeoutSeconds") or _DEFAULT_TIMEOUT_SECONDS)
    next_bookmark = _next_bookmark(time.monotonic(), bookmark_seconds, end)
    while goes_on():
        now = time.monotonic()
        if bookmarks and (now >= next_bookmark or now >= end):
            yield _bookmark(target, version, {})
            next_bookmark = _next_bookmark(now, bookmark_seconds, end)
        if now >= end:
            return
        wait = min(_POLL_SECONDS, end - now, max(next_bookmark - now, 0.0) if bookmarks else _POLL_SECONDS)
        try:
            changes = store.changes(version, wait_seconds=wait)
        except StatusError as error:
            yield msgspec.json.encode({"type": "ERROR", "object": error.body()}) + b"\n"
            return
        for change in changes:
            version = change.version
            line = _event(change, target, match)
            if line:
                yield line


def _next_bookmark(now: float, bookmark_seconds: float, end: float) -> float:
    """At the latest some time before the watch ends, as the real server does."""
    last = end - _BOOKMARK_BEFORE_END_SECONDS
    return min(now + bookmark_seconds, last) if last > now else now + bookmark_seconds


def _event(change: Change, target: Target, match: Match) -> bytes:
    """The line of a change for this selection; an object that leaves the selection is DELETED for it."""
    if change.resource != target.resource.storage:
        return b""
    item = change.record.object
    if target.namespace and item["metadata"].get("namespace") != target.namespace:
        return b""
    is_in = change.kind != "DELETED" and match(item)
    was_in = change.previous is not None and match(change.previous.object)
    if is_in:
        return _line("MODIFIED" if was_in else "ADDED", target, change.record)
    return _line("DELETED", target, change.record) if was_in else b""


def _line(kind: str, target: Target, record: Record) -> bytes:
    return b"".join((f'{{"type":"{kind}","object":'.encode(), whole(target.resource, record), b"}\n"))


def _bookmark(target: Target, version: int, annotations: dict[str, str]) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    item = {"kind": target.resource.kind, "apiVersion": target.resource.api_version, "metadata": metadata}
    return msgspec.json.encode({"type": "BOOKMARK", "object": item}) + b"\n"
