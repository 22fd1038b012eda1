"""The least of OpenAPI v3 with which kubectl creates: that the server checks fields itself.

Before ``kubectl create -f`` and ``apply`` send an object, they look in these documents whether a POST or a
PATCH of its kind knows the parameter ``fieldValidation``; where it does, the server checks the object.
"""

from __future__ import annotations

from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.resources import RESOURCES, Resource

ROOT = "/openapi/v3"
_PARAMETERS = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}]


def openapi_document(path: str) -> Object | None:
    """The index, or the document of a group version; None for any other path."""
    versions = sorted({_group_version(resource) for resource in RESOURCES})
    if path == ROOT:
        return {"paths": {version: {"serverRelativeURL": f"{ROOT}/{version}"} for version in versions}}
    version = path.removeprefix(f"{ROOT}/")
    if version not in versions:
        return None
    served = [resource for resource in RESOURCES if _group_version(resource) == version]
    return {
        "openapi": "3.0.0",
        "info": {"title": "rebalancer's embedded cluster", "version": "v1"},
        "paths": {f"/{version}/{resource.plural}": _operations(resource) for resource in served},
    }


def _group_version(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _operations(resource: Resource) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operation = {
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": kind,
    }
    return {
        verb: {**operation, "x-kubernetes-action": action}
        for verb, action in (("post", "post"), ("patch", "patch"))
    }
