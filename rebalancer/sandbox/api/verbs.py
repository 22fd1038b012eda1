"""The verbs on objects: from a request to a change in the registry, and from there to an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalancer.sandbox.api.bodies import check_kind, delete_options, patcher, shown
from rebalancer.sandbox.api.http_request import Request, Response, Target
from rebalancer.sandbox.api.list_pages import Lister, selection, whole
from rebalancer.sandbox.api.watch_events import watch
from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.change_log import Record
from rebalancer.sandbox.objects.event_shapes import to_core, to_new
from rebalancer.sandbox.objects.status import invalid, method_not_allowed, not_found, success
from rebalancer.sandbox.rules.defaults import Registry

# Kinds whose PUT must name the version it replaces; for the others a PUT without one replaces the newest.
_NEVER_UNCONDITIONAL = frozenset({"leases", "poddisruptionbudgets"})


class Verbs:
    """GET, LIST, WATCH, POST, PUT, PATCH and DELETE of stored objects.

    A continue token is good for ``continue_seconds``; a watch has a bookmark every ``bookmark_seconds``.
    """

    def __init__(self, registry: Registry, *, bookmark_seconds: float, continue_seconds: float) -> None:
        self._lister = Lister(registry.store, keep_seconds=continue_seconds)
        self._registry = registry
        self._store = registry.store
        self._bookmark_seconds = bookmark_seconds

    def answer(self, request: Request, target: Target, goes_on: Callable[[], bool]) -> Response:
        """The answer to a request for an object or a collection; a watch streams while ``goes_on()``."""
        if request.flag("watch") and request.method == "GET":
            return self._watch(request, target, goes_on)
        verbs = {
            (False, "GET"): self._lister.list,
            (False, "HEAD"): self._lister.list,
            (True, "GET"): self.get,
            (True, "HEAD"): self.get,
            (False, "POST"): self._create,
            (True, "PUT"): self.update,
            (True, "PATCH"): self._patch,
            (True, "DELETE"): self._delete,
            (False, "DELETE"): self._delete_collection,
        }
        verb = verbs.get((bool(target.name), request.method))
        if verb is None:
            raise method_not_allowed()
        return verb(request, target)

    def _watch(self, request: Request, target: Target, goes_on: Callable[[], bool]) -> Response:
        selection(request, target)  # so that a bad selector is a 400 and not a broken stream
        stream = watch(self._store, request, target, goes_on=goes_on, bookmark_seconds=self._bookmark_seconds)
        return Response(200, stream=stream)

    def _record(self, target: Target) -> Record:
        record = self._store.record(target.resource.storage, target.namespace, target.name)
        if record is None:
            raise not_found(target.resource.plural, target.name, target.resource.group)
        return record

    def get(self, _request: Request, target: Target) -> Response:
        """One object."""
        return Response(200, whole(target.resource, self._record(target)))

    def _create(self, request: Request, target: Target) -> Response:
        item = request.object()
        check_kind(item, target.resource)
        if target.resource.stored_as:
            item = to_core(item)
        stored = self._registry.create(
            target.resource.storage, item, namespace=target.namespace, dry_run=request.dry_run
        )
        return Response.json(shown(target.resource, stored), 201)

    def update(self, request: Request, target: Target) -> Response:
        """Replace an object, or its status, by the one in the body."""
        item = request.object()
        check_kind(item, target.resource)
        metadata = item.get("metadata") or {}
        if target.resource.plural in _NEVER_UNCONDITIONAL and not metadata.get("resourceVersion"):
            why = "Invalid value: 0x0: must be specified for an update"
            raise invalid(target.resource.kind, target.name, "metadata.resourceVersion", why)
        return self.replace(request, target, lambda _: item)

    def replace(self, request: Request, target: Target, make: Callable[[Object], Any]) -> Response:
        """Replace an object, or its status, by what ``make`` makes of the present one."""

        def shaped(current: Object) -> Any:
            return to_core(make(to_new(current))) if target.resource.stored_as else make(current)

        stored = self._registry.replace(
            target.resource.storage,
            target.namespace,
            target.name,
            shaped,
            subresource=target.subresource,
            dry_run=request.dry_run,
        )
        return Response.json(shown(target.resource, stored))

    def _patch(self, request: Request, target: Target) -> Response:
        if request.media_type == "application/apply-patch+yaml" and not self._store.record(
            target.resource.storage, target.namespace, target.name
        ):
            return self._create(request, target)
        return self.replace(request, target, patcher(request))

    def _delete(self, request: Request, target: Target) -> Response:
        options = delete_options(request)
        item = self._registry.delete(target.resource.storage, target.namespace, target.name, options)
        if target.resource.plural == "pods" or item["metadata"].get("deletionTimestamp"):
            return Response.json(shown(target.resource, item))
        details = {"name": target.name, "kind": target.resource.plural, "uid": item["metadata"]["uid"]}
        if target.resource.group:
            details["group"] = target.resource.group
        return Response.json(success(details))

    def _delete_collection(self, request: Request, target: Target) -> Response:
        match, options = selection(request, target), delete_options(request)
        resource = target.resource
        gone = []
        for item in self._store.all(resource.storage, target.namespace):
            if match(item):
                metadata = item["metadata"]
                gone.append(
                    self._registry.delete(
                        resource.storage, metadata.get("namespace", ""), metadata["name"], options
                    )
                )
        metadata = {"resourceVersion": str(self._store.version)}
        kinds = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return Response.json({**kinds, "metadata": metadata, "items": gone})
