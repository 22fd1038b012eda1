"""What the workload controllers share: whose key a change concerns, and pods made from a template."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from rebalancer.sandbox.objects.accessors import Object, controller_of, is_ready, name_of, namespace_of
from rebalancer.sandbox.objects.change_log import Change, Key
from rebalancer.sandbox.objects.resources import STORED
from rebalancer.sandbox.objects.store import Store


def owner_keys(change: Change, plural: str, child_plural: str = "pods") -> Iterable[Key]:
    """The keys of ``plural`` that a change of one of them, or of a child of theirs, concerns."""
    item = change.record.object
    if change.resource == plural:
        return ((namespace_of(item), name_of(item)),)
    if change.resource != child_plural:
        return ()
    owner = controller_of(item)
    if owner is None or owner.get("kind") != STORED[plural].kind:
        return ()
    return ((namespace_of(item), owner["name"]),)


def every_key(store: Store, plural: str) -> list[Key]:
    """The keys of all objects of a kind."""
    return [(namespace_of(item), name_of(item)) for item in store.all(plural)]


def pod_of_template(owner: Object, plural: str) -> Object | None:
    """A new pod of the owner's template, without a name; None when the owner (of a dump) has no template."""
    template = (owner.get("spec") or {}).get("template")
    if not template or not template.get("spec"):
        return None
    metadata = copy.deepcopy(template.get("metadata") or {})
    row = STORED[plural]
    pod: Object = {
        "metadata": {
            "generateName": f"{name_of(owner)}-",
            "namespace": namespace_of(owner),
            "ownerReferences": [
                {
                    "apiVersion": row.api_version,
                    "kind": row.kind,
                    "name": name_of(owner),
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": copy.deepcopy(template["spec"]),
    }
    for field in ("labels", "annotations"):
        if metadata.get(field):
            pod["metadata"][field] = metadata[field]
    return pod


def set_status(
    store: Store, plural: str, item: Object, counts: dict[str, Any], *, observed: bool = True
) -> None:
    """Write the counts into an owner's status, with the generation they were taken of when ``observed``."""

    def write(changed: Object) -> None:
        status = changed.get("status") or {}
        generation = changed["metadata"].get("generation")
        changed["status"] = {**status, **counts}
        if observed and generation is not None:
            changed["status"]["observedGeneration"] = generation

    store.mutate(plural, namespace_of(item), name_of(item), write)


def ready_count(pods: Iterable[Object]) -> int:
    """How many pods are ready."""
    return sum(1 for pod in pods if is_ready(pod))
