"""The service proxy, by which clients reach add-ons such as load-watcher through the API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalancer.sandbox.api.http_request import Request, Response, Target
from rebalancer.sandbox.objects.status import StatusError, not_found

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
        name, port = parts[0], parts[1] if len(parts) > 1 else ""
        served = list(self._served.items())
        for (namespace, service, served_port, path), serve in served:
            if (namespace, service) != (target.namespace, name) or port not in {"", served_port}:
                continue
            if path == target.rest.strip("/"):
                document = serve(request.query)
                return document if isinstance(document, Response) else Response.json(document)
        if not any(key[:2] == (target.namespace, name) for key, _ in served):
            raise not_found("services", name)
        raise StatusError(404, "NotFound", "404 page not found")
