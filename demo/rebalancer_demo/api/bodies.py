"""What requests carry and answers show: kinds, patches, delete options, access reviews.

An object is patched in one of three ways: JSON merge patch, strategic merge patch, JSON patch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from rebalancer_demo.api.requests import Request, User
from rebalancer_demo.objects import Object, StatusError, bad_request, to_new
from rebalancer_demo.resources import Resource

# The lists that a strategic merge patch merges by key; every other list is replaced.
_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ownerReferences": ("uid",),
    "taints": ("key",),
    "ports": ("containerPort", "port"),
    "addresses": ("type",),
    "topologySpreadConstraints": ("topologyKey",),
}


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396: the patched copy of ``target``."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic_merge(target: Any, patch: Any) -> Any:
    """A merge patch that merges the lists of ``_MERGE_KEYS`` by key and knows ``$patch`` directives."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if not key.startswith("$")}
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            merged[field] = [element for element in merged.get(field) or () if element not in value]
        elif key.startswith("$"):
            continue  # ordering and retention advice, which only matters to lists we replace
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, list) and key in _MERGE_KEYS:
            merged[key] = _merge_list(merged.get(key) or [], value, _MERGE_KEYS[key])
        else:
            merged[key] = strategic_merge(merged.get(key), value)
    return merged


def _merge_list(current: list[Any], patch: list[Any], keys: tuple[str, ...]) -> list[Any]:
    if any(not isinstance(element, dict) for element in patch):
        return patch
    if any(element.get("$patch") == "replace" for element in patch):
        return [element for element in patch if element.get("$patch") != "replace"]
    merged = list(current)
    for element in patch:
        key = next((key for key in keys if key in element), keys[0])
        index = next((at for at, old in enumerate(merged) if old.get(key) == element.get(key)), None)
        if element.get("$patch") == "delete":
            merged = [old for old in merged if old.get(key) != element.get(key)]
        elif index is None:
            merged.append(element)
        else:
            merged[index] = strategic_merge(merged[index], element)
    return merged


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise bad_request(f"invalid JSON pointer {pointer!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _step(parent: Any, key: str) -> Any:
    try:
        return parent[int(key)] if isinstance(parent, list) else parent[key]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise StatusError(422, "Invalid", f"the server rejected our request: no such path {key!r}") from error


def _walk(document: Any, pointer: str) -> Any:
    for key in _steps(pointer):
        document = _step(document, key)
    return document


def _holds(document: Any, pointer: str, value: Any) -> bool:
    """Whether a ``test`` holds: null is also what a field that is not there is, as to the API server."""
    parent, _, key = pointer.rpartition("/")
    if value is None:
        fields = _walk(document, parent)
        if isinstance(fields, dict):
            return fields.get(_steps(f"/{key}")[0]) is None
    return bool(_walk(document, pointer) == value)


def _add(document: Any, pointer: str, value: Any) -> Any:
    steps = _steps(pointer)
    if not steps:
        return value
    parent = document
    for key in steps[:-1]:
        parent = _step(parent, key)
    if isinstance(parent, list):
        parent.insert(len(parent) if steps[-1] == "-" else int(steps[-1]), value)
    else:
        parent[steps[-1]] = value
    return document


def _remove(document: Any, pointer: str) -> Any:
    parent = document
    steps = _steps(pointer)
    for key in steps[:-1]:
        parent = _step(parent, key)
    _step(parent, steps[-1])
    if isinstance(parent, list):
        parent.pop(int(steps[-1]))
    else:
        del parent[steps[-1]]
    return document


def json_patch(target: Object, operations: list[Object]) -> Any:
    """RFC 6902: the patched copy of ``target``; a failing ``test`` or path is a 422."""
    document: Any = copy.deepcopy(target)
    for operation in operations:
        name = operation.get("op")
        path = str(operation.get("path", ""))
        if name == "test":
            if not _holds(document, path, operation.get("value")):
                raise StatusError(422, "Invalid", f"the server rejected our request: testing {path} failed")
        elif name == "remove":
            document = _remove(document, path)
        elif name == "add":
            document = _add(document, path, copy.deepcopy(operation.get("value")))
        elif name == "replace":
            document = _remove(document, path)
            document = _add(document, path, copy.deepcopy(operation.get("value")))
        elif name in {"move", "copy"}:
            source = str(operation.get("from", ""))
            value = copy.deepcopy(_walk(document, source))
            document = _remove(document, source) if name == "move" else document
            document = _add(document, path, value)
        else:
            raise bad_request(f"unknown JSON patch operation {name!r}")
    return document


def shown(resource: Resource, manifest: Object) -> Object:
    """An object as an answer shows it: with its kind, in the shape of the resource."""
    shaped = to_new(manifest) if resource.stored_as else manifest
    return {"kind": resource.kind, "apiVersion": resource.api_version, **shaped}


def check_kind(manifest: Object, resource: Resource) -> None:
    """Refuse an object whose kind or apiVersion is another's; one without them is accepted."""
    kind = manifest.pop("kind", None)
    version = manifest.pop("apiVersion", None)
    if kind not in {None, "", resource.kind} or version not in {None, "", resource.api_version}:
        raise bad_request(
            f"the API version in the data ({version}, {kind}) does not match the expected "
            f"({resource.api_version}, {resource.kind})"
        )


def patcher(request: Request) -> Callable[[Object], Any]:
    """What a PATCH makes of an object, by its media type."""
    document = request.document()
    if request.media_type == "application/json-patch+json":
        if not isinstance(document, list):
            raise bad_request("a JSON patch is a list of operations")
        return lambda manifest: json_patch(manifest, document)
    if not isinstance(document, dict):
        raise bad_request("a merge patch is an object")
    if request.media_type == "application/merge-patch+json":
        return lambda manifest: merge(manifest, document)
    if request.media_type in {"application/strategic-merge-patch+json", "application/apply-patch+yaml"}:
        return lambda manifest: strategic_merge(manifest, document)
    raise StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: "
        f"application/json-patch+json, application/merge-patch+json, "
        f"application/strategic-merge-patch+json, not {request.media_type}",
    )


def delete_options(request: Request) -> Object:
    """The DeleteOptions of a request, from its body and its query."""
    document = request.document()
    options: Object = dict(document) if isinstance(document, dict) else {}
    if "gracePeriodSeconds" in request.query:
        options["gracePeriodSeconds"] = int(request.query["gracePeriodSeconds"])
    if "propagationPolicy" in request.query:
        options["propagationPolicy"] = request.query["propagationPolicy"]
    if request.dry_run:
        options["dryRun"] = ["All"]
    return options


def access_review(user: User, review: Object) -> Object:
    """The answer to a SelfSubjectAccessReview, as ``kubectl auth can-i`` asks it."""
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    resource = attributes.get("resource", "*")
    if attributes.get("subresource"):
        resource = f"{resource}/{attributes['subresource']}"
    allowed = user.may(attributes.get("verb", "*"), resource, attributes.get("namespace", ""))
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": review.get("spec"),
        "status": {"allowed": allowed},
    }
