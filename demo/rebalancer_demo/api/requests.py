"""A request as the handlers see it: the resource that its path names, and who may ask for it.

Users have bearer tokens and rules, and are refused as the real server refuses. The service proxy lets clients
reach add-ons such as load-watcher through the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import yaml

from rebalancer_demo.objects import Object, StatusError, bad_request, not_found, unauthorized
from rebalancer_demo.resources import Resource, Surface

JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """One HTTP request; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @classmethod
    def of(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """A request from its request line, headers and body."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        return cls(method, parts.path, query, headers, body)

    def flag(self, name: str) -> bool:
        """A boolean query parameter; present without a value means true."""
        return self.query.get(name, "false").lower() in {"true", "1", ""}

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored."""
        return "All" in self.query.get("dryRun", "")

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("content-type", JSON).partition(";")[0].strip().lower()

    def document(self) -> Any:
        """The body, JSON or YAML by its content type; None when empty, 400 when malformed."""
        if not self.body:
            return None
        if "protobuf" in self.media_type:
            return self._from_protobuf()
        try:
            if "yaml" in self.media_type:
                return yaml.safe_load(self.body)
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, yaml.YAMLError) as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from error

    def _from_protobuf(self) -> Object:
        from rebalancer_demo.api.protobuf_bodies import read_object  # noqa: PLC0415 - for kubectl

        manifest = read_object(self.body)
        if manifest is None:
            raise bad_request("the embedded cluster does not serve objects of this kind")
        return manifest

    def object(self) -> Object:
        """The body as an object; 400 when it is none."""
        document = self.document()
        if not isinstance(document, dict):
            raise bad_request("the request body must be one object")
        return document


@dataclass(frozen=True)
class Response:
    """One answer: ``body``, or ``stream`` whose pieces are sent as they come."""

    code: int
    body: bytes = b""
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Iterator[bytes] | None = None

    @classmethod
    def json(cls, document: Any, code: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
        """An answer that carries a document."""
        return cls(code, msgspec.json.encode(document), headers=headers or {})


@dataclass(frozen=True)
class Target:
    """What a path names: a resource, perhaps one object of it, and perhaps a subresource of that.

    ``proxied_path`` is what follows the subresource, which only the service proxy has.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    proxied_path: str = ""


def target_of(surface: Surface, path: str) -> Target | None:
    """The target of ``/api/v1/...`` or ``/apis/GROUP/VERSION/...``; None when it names no served resource."""
    steps = [unquote(step) for step in path.strip("/").split("/")]
    if steps[0] == "api":
        group = ""
        steps = steps[1:]
    elif steps[0] == "apis" and len(steps) > 1:
        group = steps[1]
        steps = steps[2:]
    else:
        return None
    if len(steps) < 2:
        return None
    version, *steps = steps
    namespace = ""
    if steps[0] == "namespaces" and len(steps) >= 3 and steps[2] != "status":
        namespace = steps[1]
        steps = steps[2:]
    resource = surface.by_path.get((group, version, steps[0]))
    if resource is None or (namespace and not resource.namespaced):
        return None
    name = steps[1] if len(steps) > 1 else ""
    subresource = steps[2] if len(steps) > 2 else ""
    if (name and resource.namespaced and not namespace) or (len(steps) > 3 and subresource != "proxy"):
        return None
    return Target(resource, namespace, name, subresource, "/".join(steps[3:]))


EVERYTHING = frozenset({"*"})


@dataclass(frozen=True)
class Rule:
    """Verbs allowed on resources (``pods``, ``pods/eviction``, ``*``) of namespaces; ``*`` is all of them."""

    verbs: frozenset[str]
    resources: frozenset[str]
    namespaces: frozenset[str] = EVERYTHING

    def allows(self, verb: str, resource: str, namespace: str) -> bool:
        """Whether this rule covers a request; ``namespace`` is empty for a cluster-wide one."""
        return (
            not self.verbs.isdisjoint({verb, "*"})
            and not self.resources.isdisjoint({resource, "*"})
            and not self.namespaces.isdisjoint({namespace, "*"})
        )


@dataclass(frozen=True)
class User:
    """A name and what it may do."""

    name: str
    rules: tuple[Rule, ...] = field(default=())

    def may(self, verb: str, resource: str, namespace: str = "") -> bool:
        """Whether any rule allows the request."""
        return any(rule.allows(verb, resource, namespace) for rule in self.rules)


ADMINISTRATOR = User("sandbox-admin", (Rule(EVERYTHING, EVERYTHING),))


def allow(verbs: str, resources: str, namespaces: str = "*") -> Rule:
    """A rule from space-separated words: ``allow("get list", "pods nodes")``."""
    return Rule(frozenset(verbs.split()), frozenset(resources.split()), frozenset(namespaces.split()))


def who(users: Mapping[str, User], authorization: str | None) -> User:
    """The user of an Authorization header; without any users configured everyone is the administrator."""
    if not users:
        return ADMINISTRATOR
    scheme, _, token = (authorization or "").partition(" ")
    user = users.get(token.strip()) if scheme.lower() == "bearer" else None
    if user is None:
        raise unauthorized()
    return user


def forbidden(user: User, verb: str, resource: str, *, group: str, namespace: str, name: str) -> StatusError:
    """403 in the words of the real server; ``resource`` includes the subresource."""
    plural = resource.partition("/")[0]
    qualified = f"{plural}.{group}" if group else plural
    title = f'{qualified} "{name}"' if name else qualified
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = (
        f'{title} is forbidden: User "{user.name}" cannot {verb} resource "{resource}" '
        f'in API group "{group}" {scope}'
    )
    details = {key: value for key, value in (("name", name), ("group", group), ("kind", plural)) if value}
    return StatusError(403, "Forbidden", message, details=details)


Served = Callable[[Mapping[str, str]], Any]


class ServiceProxy:
    """Answers requests to services by callables instead of pods."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str, str, str], Served] = {}

    def serve(self, namespace: str, service: str, port: str, path: str, answer: Served) -> None:
        """Answer this path of a service with ``answer(query)``: a JSON-ready document or a Response."""
        self._served[namespace, service, port, path.strip("/")] = answer

    def answer(self, request: Request, target: Target) -> Response:
        """The answer to a request; ``target.name`` is ``[SCHEME:]NAME[:PORT]``."""
        parts = target.name.split(":")
        if len(parts) == 3:
            parts = parts[1:]
        name = parts[0]
        port = parts[1] if len(parts) > 1 else ""
        served = list(self._served.items())
        for (namespace, service, served_port, path), serve in served:
            if (namespace, service) != (target.namespace, name) or port not in {"", served_port}:
                continue
            if path == target.proxied_path.strip("/"):
                document = serve(request.query)
                return document if isinstance(document, Response) else Response.json(document)
        if not any(key[:2] == (target.namespace, name) for key, _ in served):
            raise not_found("services", name)
        raise StatusError(404, "NotFound", "404 page not found")
