"""What requests carry and answers show: kinds, patches, delete options, access reviews."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalancer.sandbox.api.authorization import User
from rebalancer.sandbox.api.http_request import Request
from rebalancer.sandbox.objects.accessors import Object
from rebalancer.sandbox.objects.event_shapes import to_new
from rebalancer.sandbox.objects.resources import Resource
from rebalancer.sandbox.objects.status import StatusError, bad_request
from rebalancer.sandbox.rules.patches import json_patch, merge, strategic_merge


def shown(resource: Resource, item: Object) -> Object:
    """An object as an answer shows it: with its kind, in the shape of the resource."""
    shaped = to_new(item) if resource.stored_as else item
    return {"kind": resource.kind, "apiVersion": resource.api_version, **shaped}


def check_kind(item: Object, resource: Resource) -> None:
    """Refuse an object whose kind or apiVersion is another's; one without them is accepted."""
    kind, version = item.pop("kind", None), item.pop("apiVersion", None)
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
        return lambda item: json_patch(item, document)
    if not isinstance(document, dict):
        raise bad_request("a merge patch is an object")
    if request.media_type == "application/merge-patch+json":
        return lambda item: merge(item, document)
    if request.media_type in {"application/strategic-merge-patch+json", "application/apply-patch+yaml"}:
        return lambda item: strategic_merge(item, document)
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
    wanted = (review.get("spec") or {}).get("resourceAttributes") or {}
    resource = wanted.get("resource", "*")
    if wanted.get("subresource"):
        resource = f"{resource}/{wanted['subresource']}"
    allowed = user.may(wanted.get("verb", "*"), resource, wanted.get("namespace", ""))
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": review.get("spec"),
        "status": {"allowed": allowed},
    }
