"""The object that a question is about, among those that a file for kubectl holds.

A file of a repository, and what ``helm template`` prints, hold several objects. Those that make no pods are
passed over, and so are hooks of Helm where something else makes pods:

    Service web, Deployment web                    Deployment web
    Deployment web, CronJob backup                 refused, unless one of them is named: cronjob/backup
    Deployment web, Pod web-test (helm.sh/hook)    Deployment web
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rebalancer.documents import Document, Path
from rebalancer.documents.manifests import parse_manifests
from rebalancer.documents.reading import Place
from rebalancer.errors import InputError

_HOOK = "helm.sh/hook"
_SHORT_NAMES = {
    "po": "Pod",
    "deploy": "Deployment",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "rc": "ReplicationController",
    "cj": "CronJob",
    "ro": "Rollout",
}
_MAX_SHOWN_LENGTH = 60
_MAX_LISTED = 8


class PodMaker(msgspec.Struct, frozen=True):
    """Where a kind keeps the template of its pods, and who makes pods of it."""

    path: Path
    api_version: str = ""  # of the controller that makes the pods; empty where none does
    controller: str = ""  # its kind
    message: str = ""  # the type of the object in the API's own list of fields; empty for one it lacks
    hash_label: str = ""  # the label that tells the pods of a new ReplicaSet apart


_TEMPLATE: Path = ("spec", "template")
POD_MAKERS: Mapping[str, PodMaker] = {
    "Pod": PodMaker((), message="core/v1.Pod"),
    "PodTemplate": PodMaker(("template",), message="core/v1.PodTemplate"),
    "Deployment": PodMaker(
        _TEMPLATE, "apps/v1", "ReplicaSet", "apps/v1.Deployment", hash_label="pod-template-hash"
    ),
    "Rollout": PodMaker(_TEMPLATE, "apps/v1", "ReplicaSet", hash_label="rollouts-pod-template-hash"),
    "ReplicaSet": PodMaker(_TEMPLATE, "apps/v1", "ReplicaSet", "apps/v1.ReplicaSet"),
    "StatefulSet": PodMaker(_TEMPLATE, "apps/v1", "StatefulSet", "apps/v1.StatefulSet"),
    "DaemonSet": PodMaker(_TEMPLATE, "apps/v1", "DaemonSet", "apps/v1.DaemonSet"),
    "ReplicationController": PodMaker(
        _TEMPLATE, "v1", "ReplicationController", "core/v1.ReplicationController"
    ),
    "Job": PodMaker(_TEMPLATE, "batch/v1", "Job", "batch/v1.Job"),
    "CronJob": PodMaker(("spec", "jobTemplate", "spec", "template"), "batch/v1", "Job", "batch/v1.CronJob"),
}
"""By the kind of an object that makes pods. Rollout is that of Argo Rollouts."""


def object_with_pods(text: str, source: str, named: str = "") -> Document:
    """The object of a file that makes pods; the one that ``named`` (KIND/NAME) means where several do.

    InputError where there is none, or where it is not clear which one is meant.
    """
    objects = [member for document in parse_manifests(text, source) for member in _items_of(document)]
    makers = [candidate for candidate in objects if _kind_of(candidate) in POD_MAKERS]
    if named:
        return _named(makers, named, source)
    if len(makers) > 1:
        makers = [maker for maker in makers if not _is_hook(maker)] or makers
    if len(makers) == 1:
        return makers[0]
    if makers:
        raise InputError(
            f"{len(makers)} objects make pods: {_listed(makers)}",
            where=source,
            hint=f"choose one, e.g. --object {_name_of(makers[0])}",
        )
    kinds = ", ".join(POD_MAKERS)
    if not objects:
        raise InputError("holds no Kubernetes object", where=source, hint=f"write one of {kinds}")
    if len(objects) > 1:
        counts = Counter(_kind_of(member)[:_MAX_SHOWN_LENGTH] for member in objects)
        listed = ", ".join(f"{count} {kind!a}" for kind, count in counts.most_common(_MAX_LISTED))
        raise InputError(
            f"none of its {len(objects)} objects makes pods: {listed}",
            where=source,
            hint=f"write one of {kinds}",
        )
    only = objects[0]
    if not isinstance(only.value, dict):
        raise only.error((), "is not a Kubernetes object", hint=f"write one of {kinds}")
    shown = _kind_of(only)[:_MAX_SHOWN_LENGTH]
    raise only.error(("kind",), f"{shown!a} makes no pods", hint=f"write one of {kinds}")


def _items_of(document: Document) -> Iterator[Document]:
    """The objects of a list, such as ``kubectl get -o yaml`` prints; else the document itself."""
    value = document.value
    kind = _kind_of(document)
    items = value.get("items") if isinstance(value, dict) else None
    if not kind.endswith("List") or not isinstance(items, list):
        yield document
        return
    kind_of_items = kind.removesuffix("List")
    values = _by_item(document.values)
    keys = _by_item(document.keys)
    for index, member in enumerate(items):
        if isinstance(member, dict) and kind_of_items:
            member = {"kind": kind_of_items, **member}  # noqa: PLW2901 - a typed list names the kind once
        yield Document(member, document.source, values[index], keys[index])


def _by_item(places: Mapping[Path, Place]) -> Mapping[int | str, dict[Path, Place]]:
    """By index of the items of a list: the places of each, by their paths in that item."""
    by_item: defaultdict[int | str, dict[Path, Place]] = defaultdict(dict)
    for path, place in places.items():
        if len(path) > 1 and path[0] == "items":
            by_item[path[1]][path[2:]] = place
    return by_item


def _kind_of(document: Document) -> str:
    """What the object says its kind is; empty where it says nothing that could be one."""
    kind = document.value.get("kind") if isinstance(document.value, dict) else None
    return kind if isinstance(kind, str) else ""


def _metadata_of(document: Document) -> Mapping[str, Any]:
    metadata = document.value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _is_hook(document: Document) -> bool:
    annotations = _metadata_of(document).get("annotations")
    return isinstance(annotations, dict) and _HOOK in annotations


def _name_of(document: Document) -> str:
    name = str(_metadata_of(document).get("name") or "unnamed")
    return f"{_kind_of(document).lower()}/{name[:_MAX_SHOWN_LENGTH]}"


def _listed(documents: Sequence[Document]) -> str:
    names = [_name_of(document) for document in documents[:_MAX_LISTED]]
    if len(documents) > _MAX_LISTED:
        names.append(f"{len(documents) - _MAX_LISTED} more")
    return ", ".join(names)


def _named(makers: Sequence[Document], named: str, source: str) -> Document:
    """The object that KIND/NAME or KIND/NAMESPACE/NAME means."""
    alias, _, path = named.partition("/")
    namespace, _, name = path.rpartition("/")
    kind = _SHORT_NAMES.get(alias.lower(), alias).lower()
    chosen = [
        maker
        for maker in makers
        if _kind_of(maker).lower() in (kind, kind.removesuffix("s"))
        and str(_metadata_of(maker).get("name")) == name
        and namespace in ("", str(_metadata_of(maker).get("namespace")))
    ]
    if len(chosen) == 1:
        return chosen[0]
    shown = named[:_MAX_SHOWN_LENGTH]
    if chosen:
        raise InputError(
            f"{len(chosen)} objects are named {shown!a}",
            where=source,
            hint="write it as KIND/NAMESPACE/NAME, or keep one of them in the file",
        )
    hint = f"it holds {_listed(makers)}" if makers else "it holds nothing that makes pods"
    raise InputError(f"no object that makes pods is named {shown!a}", where=source, hint=hint)
