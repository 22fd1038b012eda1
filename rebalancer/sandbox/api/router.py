"""From a path to the part of the API server that answers it, once the user may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalancer.sandbox.api import discovery
from rebalancer.sandbox.api.authorization import User, forbidden, who
from rebalancer.sandbox.api.bodies import access_review
from rebalancer.sandbox.api.computed import Computed, computed_answer
from rebalancer.sandbox.api.http_request import Request, Response, Target, target_of
from rebalancer.sandbox.api.kubectl.openapi import openapi_document
from rebalancer.sandbox.api.kubectl.tables import as_table, wants_table
from rebalancer.sandbox.api.service_proxy import ServiceProxy
from rebalancer.sandbox.api.subresources import Subresources
from rebalancer.sandbox.api.verbs import Verbs
from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.status import StatusError, no_such_path
from rebalancer.sandbox.rules.defaults import Registry

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
    ``address`` is the host and port that discovery names.
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
        self.store = registry.store
        self.users: dict[str, User] = dict(users or {})
        self.address = "127.0.0.1"
        self.proxy = ServiceProxy()
        self.verbs = Verbs(registry, bookmark_seconds=bookmark_seconds, continue_seconds=continue_seconds)
        self._subresources = Subresources(registry, self.verbs)
        self._computed = computed

    def answer(self, request: Request, goes_on: Callable[[], bool] = lambda: True) -> Response:
        """The answer to a request; refusals are answers too. A watch streams while ``goes_on()``."""
        try:
            if request.path in {"/healthz", "/readyz", "/livez"}:
                return Response(200, b"ok", "text/plain; charset=utf-8")
            user = who(self.users, request.headers.get("authorization"))
            answer = self._route(request, user, goes_on)
            if wants_table(request) and (target := target_of(request.path.rstrip("/"))) is not None:
                return answer if target.subresource else as_table(answer, request, target)
            return answer
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
        if target.subresource == "proxy" and target.resource.plural == "services":
            return self.proxy.answer(request, target)
        if target.subresource:
            return self._subresources.answer(request, target)
        if target.resource.computed:
            return computed_answer(request, target, self._computed)
        return self.verbs.answer(request, target, goes_on)

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
        elif steps[0] == "openapi":
            document = openapi_document(path)
        if document is None:
            raise no_such_path(
                f"the embedded cluster does not serve {path or '/'}; see kubectl api-resources"
            )
        return Response.json(document)
