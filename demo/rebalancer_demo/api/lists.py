"""LIST and WATCH, with selectors: pages that all show one version of the cluster, and events after it.

A watch is the log of the store as a stream of events, with bookmarks and an end.
"""

from __future__ import annotations

import base64
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock

import msgspec

from rebalancer_demo.api.requests import Request, Response, Target
from rebalancer_demo.objects import Match, StatusError, bad_request, expired, field_query, label_query, to_new
from rebalancer_demo.resources import Resource
from rebalancer_demo.store import Change, Record, Store

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a "
    "new list without the continue parameter, or use the continue token in this response to retrieve "
    "the remainder of the results. Continuing with the provided token results in an inconsistent "
    "list - objects that were created, modified, or deleted between the time the first chunk was "
    "returned and now may show up in the list."
)


def selection(request: Request, target: Target) -> Match:
    """The match of a request's selectors and, for a name in the path of a watch, of that name."""
    matches: list[Match] = []
    if request.query.get("labelSelector"):
        matches.append(label_query(request.query["labelSelector"]))
    if request.query.get("fieldSelector"):
        matches.append(field_query(request.query["fieldSelector"], target.resource.plural))
    if target.name:
        matches.append(lambda manifest: manifest["metadata"]["name"] == target.name)
    return lambda manifest: all(match(manifest) for match in matches)


def number(request: Request, name: str) -> int:
    """A query parameter that counts something; 0 when absent, 400 when it is not a number."""
    text = request.query.get(name) or "0"
    if not text.isascii() or not text.isdigit():
        raise bad_request(f"invalid value for {name}: {text!r}")
    return int(text)


def encode(resource: Resource, record: Record) -> bytes:
    """An object as an item of a list of ``resource``."""
    if resource.stored_as:
        return msgspec.json.encode(to_new(record.object))
    return record.encoded


def whole(resource: Resource, record: Record) -> bytes:
    """An object on its own, with its kind and apiVersion."""
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    return head.encode() + encode(resource, record)[1:]


@dataclass(frozen=True)
class _Snapshot:
    records: list[Record]
    version: int
    taken: float
    path: str


class Lister:
    """Answers LISTs and keeps the snapshots that continue tokens name.

    A snapshot is kept for ``keep_seconds``, and at most ``most`` are kept.
    """

    def __init__(self, store: Store, *, keep_seconds: float = 300.0, max_snapshots: int = 32) -> None:
        self._store = store
        self._keep_seconds = keep_seconds
        self._max_snapshots = max_snapshots
        self._snapshots: OrderedDict[str, _Snapshot] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = Lock()

    def list(self, request: Request, target: Target) -> Response:
        """The answer to a LIST: a page of it where the query has a ``limit``, else all of it."""
        limit = number(request, "limit")
        token = request.query.get("continue", "")
        if token:
            name, start, snapshot = self._continued(token, request.path)
        else:
            self._check_version(request)
            limit = 0 if request.query.get("resourceVersion") == "0" else limit
            records, version = self._store.records(target.resource.storage, target.namespace)
            if request.query.get("labelSelector") or request.query.get("fieldSelector"):
                match = selection(request, target)
                records = [record for record in records if match(record.object)]
            name = ""
            start = 0
            snapshot = _Snapshot(records, version, self._store.clock(), request.path)
        stop = start + limit if limit else len(snapshot.records)
        page = snapshot.records[start:stop]
        metadata: dict[str, object] = {"resourceVersion": str(snapshot.version)}
        if stop < len(snapshot.records):
            metadata["continue"] = self._token(name or self._keep(snapshot), stop)
            if not (request.query.get("labelSelector") or request.query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(snapshot.records) - stop
        return Response(200, list_body(target.resource, metadata, page))

    def _check_version(self, request: Request) -> None:
        version = number(request, "resourceVersion")
        newest = self._store.version
        if version > newest:
            message = f"Too large resource version: {version}, current: {newest}"
            raise StatusError(504, "Timeout", message, retry_after=1)
        if request.query.get("resourceVersionMatch") == "Exact" and version < newest:
            raise expired(f"The resourceVersion for the provided list is too old: {version}")

    def _keep(self, snapshot: _Snapshot) -> str:
        with self._lock:
            name = str(next(self._numbers))
            self._snapshots[name] = snapshot
            while len(self._snapshots) > self._max_snapshots:
                self._snapshots.popitem(last=False)
            return name

    def _token(self, name: str, start: int) -> str:
        return base64.urlsafe_b64encode(f"{name}:{start}".encode()).decode().rstrip("=")

    def _continued(self, token: str, path: str) -> tuple[str, int, _Snapshot]:
        try:
            padded = token + "=" * (-len(token) % 4)
            name, start = base64.urlsafe_b64decode(padded.encode("ascii")).decode("ascii").split(":")
            position = int(start)
        except ValueError as error:
            raise bad_request("continue key is not valid: illegal base64 data") from error
        with self._lock:
            snapshot = self._snapshots.get(name)
            if snapshot is None or self._store.clock() - snapshot.taken > self._keep_seconds:
                self._snapshots.pop(name, None)
                raise expired(_EXPIRED)
        if snapshot.path != path:
            raise bad_request("continue key is not valid: it belongs to another list")
        return name, position, snapshot


def list_body(resource: Resource, metadata: dict[str, object], page: list[Record]) -> bytes:
    """The JSON of a list, joined from the JSON its items already have."""
    head = (
        f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}",'
        f'"metadata":{msgspec.json.encode(metadata).decode()},"items":['
    )
    return b"".join((head.encode(), b",".join([encode(resource, record) for record in page]), b"]}"))


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
    manifest = change.record.object
    if target.namespace and manifest["metadata"].get("namespace") != target.namespace:
        return b""
    is_in = change.kind != "DELETED" and match(manifest)
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
    bookmark = {"kind": target.resource.kind, "apiVersion": target.resource.api_version, "metadata": metadata}
    return msgspec.json.encode({"type": "BOOKMARK", "object": bookmark}) + b"\n"
