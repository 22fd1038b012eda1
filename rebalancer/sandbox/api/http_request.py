"""A request as the handlers see it, what they answer, and how a path names a resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import yaml

from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.resources import BY_PATH, Resource
from rebalancer.sandbox.objects.status import bad_request

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
        from rebalancer.sandbox.api.kubectl.protobuf_bodies import read_object  # noqa: PLC0415 - for kubectl

        found = read_object(self.body)
        if found is None:
            raise bad_request("the embedded cluster does not serve objects of this kind")
        return found

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

    ``rest`` is the path below the subresource, which only the service proxy has.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""


def target_of(path: str) -> Target | None:
    """The target of ``/api/v1/...`` or ``/apis/GROUP/VERSION/...``; None when it names no served resource."""
    steps = [unquote(step) for step in path.strip("/").split("/")]
    if steps[0] == "api":
        group, steps = "", steps[1:]
    elif steps[0] == "apis" and len(steps) > 1:
        group, steps = steps[1], steps[2:]
    else:
        return None
    if len(steps) < 2:
        return None
    version, *steps = steps
    namespace = ""
    if steps[0] == "namespaces" and len(steps) >= 3 and steps[2] != "status":
        namespace, steps = steps[1], steps[2:]
    resource = BY_PATH.get((group, version, steps[0]))
    if resource is None or (namespace and not resource.namespaced):
        return None
    name = steps[1] if len(steps) > 1 else ""
    subresource = steps[2] if len(steps) > 2 else ""
    if (name and resource.namespaced and not namespace) or (len(steps) > 3 and subresource != "proxy"):
        return None
    return Target(resource, namespace, name, subresource, "/".join(steps[3:]))
