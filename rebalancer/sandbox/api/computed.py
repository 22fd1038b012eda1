"""Objects that are computed when they are asked for and never stored: the Metrics API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalancer.sandbox.api.http_request import Request, Response, Target
from rebalancer.sandbox.api.list_pages import selection
from rebalancer.sandbox.objects.status import method_not_allowed, not_found

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
    items = [item for item in answer if match(item)]
    kinds = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
    return Response.json({**kinds, "metadata": {}, "items": items})
