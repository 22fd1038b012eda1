"""The documents by which a client learns what is served: /api, /apis, resource lists, /version, OpenAPI.

Of OpenAPI v3 there is the least with which kubectl creates. Before ``kubectl create -f`` and ``apply`` send
an object, they look whether a POST or a PATCH of its kind knows the parameter ``fieldValidation``; where it
does, the server checks the object.
"""

from __future__ import annotations

from rebalancer_demo.objects import Object
from rebalancer_demo.resources import MINOR, Resource, Surface

_AUTHORIZATION = "authorization.k8s.io"
VERSION = {
    "major": "1",
    "minor": str(MINOR),
    "gitVersion": "v1.35.4",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.25.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def version(surface: Surface) -> Object:
    """What GET /version answers."""
    if surface.minor == MINOR:
        return {**VERSION}
    return {**VERSION, "minor": str(surface.minor), "gitVersion": f"v1.{surface.minor}.15"}


def core_versions(address: str) -> Object:
    """What GET /api answers; ``address`` is host:port."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def _group_versions(surface: Surface) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {_AUTHORIZATION: ["v1"]}
    for resource in surface.resources:
        versions = groups.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    return {group: tuple(versions) for group, versions in groups.items() if group}


def group(surface: Surface, name: str) -> Object | None:
    """The APIGroup of that name, None when nothing is served there."""
    versions = _group_versions(surface).get(name)
    if versions is None:
        return None
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": entries,
        "preferredVersion": entries[0],
    }


def groups(surface: Surface) -> Object:
    """What GET /apis answers."""
    items = [group(surface, name) for name in _group_versions(surface)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": items}


def _rows(resource: Resource) -> list[Object]:
    row: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.plural in {"pods", "services"} and not resource.computed:
        row["categories"] = ["all"]
    rows = [row]
    if resource.has_status:
        rows.append(
            {
                **row,
                "name": f"{resource.plural}/status",
                "singularName": "",
                "verbs": ["get", "patch", "update"],
            }
        )
        rows[-1].pop("shortNames", None)
        rows[-1].pop("categories", None)
    for subresource in resource.subresources:
        entry: Object = {
            "name": f"{resource.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": subresource.kind,
            "verbs": list(subresource.verbs),
        }
        if subresource.group:
            entry["group"] = subresource.group
        if subresource.version:
            entry["version"] = subresource.version
        rows.append(entry)
    if resource.plural == "services":
        rows.append(
            {
                "name": "services/proxy",
                "singularName": "",
                "namespaced": True,
                "kind": "ServiceProxyOptions",
                "verbs": ["get"],
            }
        )
    return rows


def resource_list(surface: Surface, group_name: str, version: str) -> Object | None:
    """The APIResourceList of a group version, None when nothing is served there."""
    rows = [
        row
        for resource in surface.resources
        if (resource.group, resource.version) == (group_name, version)
        for row in _rows(resource)
    ]
    if (group_name, version) == (_AUTHORIZATION, "v1"):
        rows = [
            {
                "name": "selfsubjectaccessreviews",
                "singularName": "selfsubjectaccessreview",
                "namespaced": False,
                "kind": "SelfSubjectAccessReview",
                "verbs": ["create"],
            }
        ]
    if not rows:
        return None
    name = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": rows}


ROOT = "/openapi/v3"
_PARAMETERS = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}]


def openapi_document(surface: Surface, path: str) -> Object | None:
    """The index, or the document of a group version; None for any other path."""
    versions = sorted({_group_version(resource) for resource in surface.resources})
    if path == ROOT:
        return {"paths": {version: {"serverRelativeURL": f"{ROOT}/{version}"} for version in versions}}
    version = path.removeprefix(f"{ROOT}/")
    if version not in versions:
        return None
    served = [resource for resource in surface.resources if _group_version(resource) == version]
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
