"""The verbs on objects: from a request to a change in the registry, and from there to an answer.

Stored objects have the subresources status, scale, eviction and binding. Objects of the Metrics API are
computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalancer_demo.admission import Registry
from rebalancer_demo.api.bodies import check_kind, delete_options, patcher, shown
from rebalancer_demo.api.lists import Lister, selection, watch, whole
from rebalancer_demo.api.requests import Request, Response, Target
from rebalancer_demo.eviction import evict
from rebalancer_demo.objects import (
    Object,
    bad_request,
    invalid,
    method_not_allowed,
    no_such_path,
    not_found,
    success,
    to_core,
    to_new,
)
from rebalancer_demo.resources import Surface
from rebalancer_demo.store import Record

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
        manifest = request.object()
        check_kind(manifest, target.resource)
        if target.resource.stored_as:
            manifest = to_core(manifest)
        stored = self._registry.create(
            target.resource.storage, manifest, namespace=target.namespace, dry_run=request.dry_run
        )
        return Response.json(shown(target.resource, stored), 201)

    def update(self, request: Request, target: Target) -> Response:
        """Replace an object, or its status, by the one in the body."""
        manifest = request.object()
        check_kind(manifest, target.resource)
        metadata = manifest.get("metadata") or {}
        if target.resource.plural in _NEVER_UNCONDITIONAL and not metadata.get("resourceVersion"):
            why = "Invalid value: 0x0: must be specified for an update"
            raise invalid(target.resource.kind, target.name, "metadata.resourceVersion", why)
        return self.replace(request, target, lambda _: manifest)

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
        deleted = self._registry.delete(target.resource.storage, target.namespace, target.name, options)
        if target.resource.plural == "pods" or deleted["metadata"].get("deletionTimestamp"):
            return Response.json(shown(target.resource, deleted))
        details = {"name": target.name, "kind": target.resource.plural, "uid": deleted["metadata"]["uid"]}
        if target.resource.group:
            details["group"] = target.resource.group
        return Response.json(success(details))

    def _delete_collection(self, request: Request, target: Target) -> Response:
        match = selection(request, target)
        options = delete_options(request)
        resource = target.resource
        gone = []
        for manifest in self._store.all(resource.storage, target.namespace):
            if match(manifest):
                metadata = manifest["metadata"]
                gone.append(
                    self._registry.delete(
                        resource.storage, metadata.get("namespace", ""), metadata["name"], options
                    )
                )
        metadata = {"resourceVersion": str(self._store.version)}
        kinds = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return Response.json({**kinds, "metadata": metadata, "items": gone})


_SIMULATED = "pods of the embedded cluster are simulated and run no containers"


class Subresources:
    """Answers requests for a path below an object, such as ``pods/NAME/eviction``."""

    def __init__(self, registry: Registry, verbs: Verbs, surface: Surface) -> None:
        self._registry = registry
        self._verbs = verbs
        self._surface = surface

    def answer(self, request: Request, target: Target) -> Response:
        """The answer to a request; 404 for a subresource that the kind does not have."""
        resource = target.resource
        subresource = target.subresource
        if subresource == "status" and resource.has_status:
            return self._on_status(request, target)
        if not any(row.name == subresource for row in resource.subresources):
            why = _SIMULATED if resource.plural == "pods" else f"{resource.plural} have no {subresource} here"
            raise no_such_path(why)
        if subresource == "scale":
            return self._on_scale(request, target)
        if request.method != "POST":
            raise method_not_allowed()
        change = self._registry.bind if subresource == "binding" else self._evict
        answer = change(target.namespace, target.name, request.object(), dry_run=request.dry_run)
        return Response.json({**answer, "code": 201}, 201)

    def _evict(self, namespace: str, name: str, eviction: Object, *, dry_run: bool) -> Object:
        version = eviction.get("apiVersion") or self._surface.eviction_versions[0]
        if version not in self._surface.eviction_versions:
            raise bad_request(
                f'Eviction in version "{version}" cannot be handled as a Eviction: no kind "Eviction" is '
                f'registered for version "{version}"'
            )
        return evict(self._registry, namespace, name, eviction, dry_run=dry_run)

    def _on_status(self, request: Request, target: Target) -> Response:
        if request.method == "GET":
            return self._verbs.get(request, target)
        if request.method == "PUT":
            return self._verbs.update(request, target)
        if request.method == "PATCH":
            return self._verbs.replace(request, target, patcher(request))
        raise method_not_allowed()

    def _on_scale(self, request: Request, target: Target) -> Response:
        plural = target.resource.plural
        namespace = target.namespace
        name = target.name
        if request.method == "GET":
            return Response.json(self._registry.scale(plural, namespace, name))
        if request.method == "PUT":
            scale = request.object()
            make: Callable[[Object], Any] = lambda _: scale  # noqa: E731 - one of two
        elif request.method == "PATCH":
            make = patcher(request)
        else:
            raise method_not_allowed()
        return Response.json(self._registry.set_scale(plural, namespace, name, make, dry_run=request.dry_run))


Computed = Callable[[str, str, str], Any]  # plural, namespace, name -> object, list of objects or None


def computed_answer(request: Request, target: Target, compute: Computed) -> Response:
    """The answer to a GET or LIST of objects that ``compute`` makes."""
    if request.method not in {"GET", "HEAD"} or request.flag("watch"):
        raise method_not_allowed()
    resource = target.resource
    answer = compute(resource.plural, target.namespace, target.name)
    if target.name:
        if answer is None:
            raise not_found(resource.plural, target.name, resource.group)
        return Response.json({"kind": resource.kind, "apiVersion": resource.api_version, **answer})
    match = selection(request, target)
    items = [manifest for manifest in answer if match(manifest)]
    kinds = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
    return Response.json({**kinds, "metadata": {}, "items": items})
