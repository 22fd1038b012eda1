"""From a request to an answer: the verbs of the API, one method each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rebalancer.sandbox.api import discovery
from rebalancer.sandbox.api.authorization import User, forbidden, who
from rebalancer.sandbox.api.bodies import access_review, check_kind, delete_options, patcher, shown
from rebalancer.sandbox.api.eviction import evict
from rebalancer.sandbox.api.listing import Lister, selection, whole
from rebalancer.sandbox.api.requests import Request, Response, Target, target_of
from rebalancer.sandbox.api.watching import watch
from rebalancer.sandbox.objects.event_shapes import to_core, to_new
from rebalancer.sandbox.objects.objects import Object
from rebalancer.sandbox.objects.registry import Registry
from rebalancer.sandbox.objects.status import (
    StatusError,
    invalid,
    method_not_allowed,
    no_such_path,
    not_found,
    success,
)
from rebalancer.sandbox.objects.store import Record

Served = Callable[[Mapping[str, str]], Any]
Computed = Callable[[str, str, str], Any]  # plural, namespace, name -> object, list of objects or None

# Kinds whose PUT must name the version it replaces; the others take one without as the newest.
_NEVER_UNCONDITIONAL = frozenset({"leases", "poddisruptionbudgets"})
_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class Api:
    """The API of the embedded cluster, without its transport.

    ``users`` by bearer token (none: everyone may do everything); ``computed`` makes the metrics objects;
    ``served`` are the callables behind the service proxy by (namespace, service, port, path).
    """

    def __init__(
        self,
        registry: Registry,
        *,
        computed: Computed,
        users: Mapping[str, User] | None = None,
        bookmark_seconds: float = 60.0,
        continue_seconds: float = 300.0,
    ) -> None:
        self.registry = registry
        self.store = registry.store
        self.lister = Lister(self.store, keep_seconds=continue_seconds)
        self.users: dict[str, User] = dict(users or {})
        self.served: dict[tuple[str, str, str, str], Served] = {}
        self.address = "127.0.0.1"
        self._computed = computed
        self._bookmark_seconds = bookmark_seconds

    def answer(self, request: Request, goes_on: Callable[[], bool] = lambda: True) -> Response:
        """The answer to a request; refusals are answers too. A watch streams while ``goes_on`` says yes."""
        try:
            if request.path in {"/healthz", "/readyz", "/livez"}:
                return Response(200, b"ok", "text/plain; charset=utf-8")
            user = who(self.users, request.headers.get("authorization"))
            return self._route(request, user, goes_on)
        except StatusError as error:
            headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
            return Response.json(error.body(), error.code, headers=headers)

    def _route(self, request: Request, user: User, goes_on: Callable[[], bool]) -> Response:
        path = request.path.rstrip("/")
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" and request.method == "POST":
            return Response.json(access_review(user, request.object()), 201)
        target = target_of(path)
        if target is None:
            return self._describe(path)
        self._authorize(request, user, target)
        if target.subresource:
            return self._on_subresource(request, target)
        if target.resource.computed:
            return self._compute(request, target)
        if not target.name and request.method in {"GET", "HEAD"}:
            if request.flag("watch"):
                return self._watch(request, target, goes_on)
            return self.lister.list(request, target)
        if request.flag("watch") and request.method == "GET":
            return self._watch(request, target, goes_on)
        verbs = {
            (True, "GET"): self._get,
            (True, "HEAD"): self._get,
            (False, "POST"): self._create,
            (True, "PUT"): self._update,
            (True, "PATCH"): self._patch,
            (True, "DELETE"): self._delete,
            (False, "DELETE"): self._delete_collection,
        }
        verb = verbs.get((bool(target.name), request.method))
        if verb is None:
            raise method_not_allowed()
        return verb(request, target)

    def _authorize(self, request: Request, user: User, target: Target) -> None:
        verb = _VERBS.get(request.method, request.method.lower())
        if verb == "get" and request.flag("watch"):
            verb = "watch"
        elif verb == "get" and not target.name:
            verb = "list"
        elif verb == "delete" and not target.name:
            verb = "deletecollection"
        resource = target.resource.plural + (f"/{target.subresource}" if target.subresource else "")
        if not user.may(verb, resource, target.namespace):
            raise forbidden(
                user,
                verb,
                resource,
                group=target.resource.group,
                namespace=target.namespace,
                name=target.name,
            )

    def _describe(self, path: str) -> Response:
        """The documents of discovery, which anyone who is known may read."""
        steps = path.strip("/").split("/")
        document: Object | None = None
        if path == "/version":
            document = discovery.VERSION
        elif path == "/api":
            document = discovery.core_versions(self.address)
        elif path == "/apis":
            document = discovery.groups()
        elif steps[0] == "api" and len(steps) == 2:
            document = discovery.resource_list("", steps[1])
        elif steps[0] == "apis" and len(steps) == 2:
            document = discovery.group(steps[1])
        elif steps[0] == "apis" and len(steps) == 3:
            document = discovery.resource_list(steps[1], steps[2])
        if document is None:
            raise no_such_path()
        return Response.json(document)

    # Verbs

    def _watch(self, request: Request, target: Target, goes_on: Callable[[], bool]) -> Response:
        selection(request, target)  # so that a bad selector is a 400 and not a broken stream
        stream: Iterator[bytes] = watch(
            self.store, request, target, goes_on=goes_on, bookmark_seconds=self._bookmark_seconds
        )
        return Response(200, stream=stream)

    def _record(self, target: Target) -> Record:
        record = self.store.record(target.resource.storage, target.namespace, target.name)
        if record is None:
            raise not_found(target.resource.plural, target.name, target.resource.group)
        return record

    def _get(self, _request: Request, target: Target) -> Response:
        return Response(200, whole(target.resource, self._record(target)))

    def _create(self, request: Request, target: Target) -> Response:
        item = request.object()
        check_kind(item, target.resource)
        if target.resource.stored_as:
            item = to_core(item)
        stored = self.registry.create(
            target.resource.storage, item, namespace=target.namespace, dry_run=request.dry_run
        )
        return Response.json(shown(target.resource, stored), 201)

    def _update(self, request: Request, target: Target) -> Response:
        item = request.object()
        check_kind(item, target.resource)
        metadata = item.get("metadata") or {}
        if target.resource.plural in _NEVER_UNCONDITIONAL and not metadata.get("resourceVersion"):
            why = "Invalid value: 0x0: must be specified for an update"
            raise invalid(target.resource.kind, target.name, "metadata.resourceVersion", why)
        return self._replace(request, target, lambda _: item)

    def _replace(self, request: Request, target: Target, make: Callable[[Object], Any]) -> Response:
        def shaped(current: Object) -> Any:
            return to_core(make(to_new(current))) if target.resource.stored_as else make(current)

        stored = self.registry.replace(
            target.resource.storage,
            target.namespace,
            target.name,
            shaped,
            subresource=target.subresource,
            dry_run=request.dry_run,
        )
        return Response.json(shown(target.resource, stored))

    def _patch(self, request: Request, target: Target) -> Response:
        if request.media_type == "application/apply-patch+yaml" and not self.store.record(
            target.resource.storage, target.namespace, target.name
        ):
            return self._create(request, target)
        return self._replace(request, target, patcher(request))

    def _delete(self, request: Request, target: Target) -> Response:
        options = delete_options(request)
        item = self.registry.delete(target.resource.storage, target.namespace, target.name, options)
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
        for item in self.store.all(resource.storage, target.namespace):
            if match(item):
                metadata = item["metadata"]
                gone.append(
                    self.registry.delete(
                        resource.storage, metadata.get("namespace", ""), metadata["name"], options
                    )
                )
        metadata = {"resourceVersion": str(self.store.version)}
        kinds = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return Response.json({**kinds, "metadata": metadata, "items": gone})

    # Subresources

    def _on_subresource(self, request: Request, target: Target) -> Response:
        resource, subresource = target.resource, target.subresource
        if resource.plural == "services" and subresource == "proxy":
            return self._proxy(request, target)
        if subresource == "status" and resource.has_status:
            return self._on_status(request, target)
        if not any(row.name == subresource for row in resource.subresources):
            raise no_such_path()
        if subresource == "scale":
            return self._on_scale(request, target)
        if request.method != "POST":
            raise method_not_allowed()
        if subresource == "eviction":
            answer = evict(
                self.registry, target.namespace, target.name, request.object(), dry_run=request.dry_run
            )
        else:
            answer = self.registry.bind(
                target.namespace, target.name, request.object(), dry_run=request.dry_run
            )
        return Response.json({**answer, "code": 201}, 201)

    def _on_status(self, request: Request, target: Target) -> Response:
        if request.method == "GET":
            return self._get(request, target)
        if request.method == "PUT":
            return self._update(request, target)
        if request.method == "PATCH":
            return self._replace(request, target, patcher(request))
        raise method_not_allowed()

    def _on_scale(self, request: Request, target: Target) -> Response:
        plural, namespace, name = target.resource.plural, target.namespace, target.name
        if request.method == "GET":
            return Response.json(self.registry.scale(plural, namespace, name))
        if request.method == "PUT":
            wanted = request.object()
            make: Callable[[Object], Any] = lambda _: wanted  # noqa: E731
        elif request.method == "PATCH":
            make = patcher(request)
        else:
            raise method_not_allowed()
        return Response.json(self.registry.set_scale(plural, namespace, name, make, dry_run=request.dry_run))

    def _compute(self, request: Request, target: Target) -> Response:
        if request.method not in {"GET", "HEAD"} or request.flag("watch"):
            raise method_not_allowed()
        resource = target.resource
        answer = self._computed(resource.plural, target.namespace, target.name)
        if target.name:
            if answer is None:
                raise not_found(resource.plural, target.name, resource.group)
            return Response.json({"kind": resource.kind, "apiVersion": resource.api_version, **answer})
        match = selection(request, target)
        items = [item for item in answer if match(item)]
        kinds = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return Response.json({**kinds, "metadata": {}, "items": items})

    def _proxy(self, request: Request, target: Target) -> Response:
        """The service proxy; ``target.name`` is ``[SCHEME:]NAME[:PORT]``."""
        parts = target.name.split(":")
        if len(parts) == 3:
            parts = parts[1:]
        name, port = parts[0], parts[1] if len(parts) > 1 else ""
        for (namespace, service, served_port, path), serve in list(self.served.items()):
            if (namespace, service) != (target.namespace, name) or port not in {"", served_port}:
                continue
            if path.strip("/") == target.rest.strip("/"):
                document = serve(request.query)
                if isinstance(document, Response):
                    return document
                return Response.json(document)
        if not any(key[:2] == (target.namespace, name) for key in list(self.served)):
            raise not_found("services", name)
        raise StatusError(404, "NotFound", "404 page not found")
