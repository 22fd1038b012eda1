"""LIST: selectors, and pages that all show one version of the cluster."""

from __future__ import annotations

import base64
import itertools
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import msgspec

from rebalancer.sandbox.api.http_request import Request, Response, Target
from rebalancer.sandbox.objects.change_log import Record
from rebalancer.sandbox.objects.event_shapes import to_new
from rebalancer.sandbox.objects.query_selectors import Match, field_query, label_query
from rebalancer.sandbox.objects.resources import Resource
from rebalancer.sandbox.objects.status import StatusError, bad_request, expired
from rebalancer.sandbox.objects.store import Store

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
        matches.append(lambda item: item["metadata"]["name"] == target.name)
    return lambda item: all(match(item) for match in matches)


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

    def __init__(self, store: Store, *, keep_seconds: float = 300.0, most: int = 32) -> None:
        self._store = store
        self._keep_seconds = keep_seconds
        self._most = most
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
            name, start = "", 0
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
        wanted, newest = number(request, "resourceVersion"), self._store.version
        if wanted > newest:
            message = f"Too large resource version: {wanted}, current: {newest}"
            raise StatusError(504, "Timeout", message, retry_after=1)
        if request.query.get("resourceVersionMatch") == "Exact" and wanted < newest:
            raise expired(f"The resourceVersion for the provided list is too old: {wanted}")

    def _keep(self, snapshot: _Snapshot) -> str:
        with self._lock:
            name = str(next(self._numbers))
            self._snapshots[name] = snapshot
            while len(self._snapshots) > self._most:
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
