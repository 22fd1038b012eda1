"""The subresources of stored objects: status, scale, eviction and binding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalancer.sandbox.api.bodies import patcher
from rebalancer.sandbox.api.http_request import Request, Response, Target
from rebalancer.sandbox.api.verbs import Verbs
from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.status import method_not_allowed, no_such_path
from rebalancer.sandbox.rules.defaults import Registry
from rebalancer.sandbox.rules.eviction import evict

_SIMULATED = "pods of the embedded cluster are simulated and run no containers"


class Subresources:
    """Answers requests for a path below an object, such as ``pods/NAME/eviction``."""

    def __init__(self, registry: Registry, verbs: Verbs) -> None:
        self._registry = registry
        self._verbs = verbs

    def answer(self, request: Request, target: Target) -> Response:
        """The answer to a request; 404 for a subresource that the kind does not have."""
        resource, subresource = target.resource, target.subresource
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
        plural, namespace, name = target.resource.plural, target.namespace, target.name
        if request.method == "GET":
            return Response.json(self._registry.scale(plural, namespace, name))
        if request.method == "PUT":
            wanted = request.object()
            make: Callable[[Object], Any] = lambda _: wanted  # noqa: E731 - one of two
        elif request.method == "PATCH":
            make = patcher(request)
        else:
            raise method_not_allowed()
        return Response.json(self._registry.set_scale(plural, namespace, name, make, dry_run=request.dry_run))
