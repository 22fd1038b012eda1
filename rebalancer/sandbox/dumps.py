"""Fills the store from a dump: what ``kubectl get -o json`` prints, lists and mixed lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rebalancer.cluster.dumps.streams import MAX_DUMP_BYTES, read_bytes
from rebalancer.errors import InputError
from rebalancer.sandbox.nodes.usage import UsageModel
from rebalancer.sandbox.objects.accessors import Object, name_of
from rebalancer.sandbox.objects.resources import BY_KIND, INITIAL_STATUS, STORED
from rebalancer.sandbox.objects.store import Store

_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAMES = (".json", ".json.gz", ".json.zst")


def read_documents(path: Path) -> Iterator[Object]:
    """The JSON documents of a file, or of every .json, .json.gz and .json.zst of a folder.

    Raises InputError for a file that cannot be read, holds no JSON object, or is larger than a dump may be.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_NAMES))
        if not files:
            raise InputError("no .json, .json.gz or .json.zst in this folder", where=str(path))
    for file in files:
        try:
            document = msgspec.json.decode(read_bytes(file, MAX_DUMP_BYTES))
        except msgspec.DecodeError as error:
            raise InputError(f"this dump is not JSON: {error}", where=str(file)) from error
        if not isinstance(document, dict):
            raise InputError(
                "a dump is one JSON object: a Kubernetes object or a list of them", where=str(file)
            )
        yield document


class DumpLoader:
    """Puts the objects of dumps into a store, and their metrics into the usage model."""

    def __init__(self, store: Store, usage: UsageModel) -> None:
        self._store = store
        self._usage = usage
        self.watcher_document: Object | None = None  # load-watcher's answer, where a dump holds one

    def load(self, objects: Iterable[Object]) -> int:
        """Store the objects as they are, lists item by item; returns how many were loaded."""
        by_plural: dict[str, list[Object]] = {}
        for plural, item in self._flatten(objects):
            by_plural.setdefault(plural, []).append(item)
        node_metrics, pod_metrics = by_plural.pop("NodeMetrics", []), by_plural.pop("PodMetrics", [])
        for plural, status in INITIAL_STATUS.items():
            for item in by_plural.get(plural, ()):
                item["status"] = {**status, **(item.get("status") or {})}
        _add_namespaces(by_plural, {name_of(item) for item in self._store.all("namespaces")})
        count = sum(self._store.load(plural, items) for plural, items in by_plural.items())
        self._usage.load(node_metrics, pod_metrics)
        return count + len(node_metrics) + len(pod_metrics)

    def _flatten(self, documents: Iterable[Object]) -> Iterator[tuple[str, Object]]:
        """(plural, object) of every object of a served kind; metrics come under their kind, not a plural."""
        for document in documents:
            kind, version = str(document.get("kind", "")), str(document.get("apiVersion", ""))
            if not kind and "NodeMetricsMap" in (document.get("data") or {}):
                self.watcher_document = document
            elif "items" in document:
                item_kind = kind.removesuffix("List")
                for item in document["items"] or ():
                    yield from _served(
                        item, str(item.get("kind") or item_kind), str(item.get("apiVersion") or version)
                    )
            else:
                yield from _served(document, kind, version)


def _served(item: Object, kind: str, api_version: str) -> Iterator[tuple[str, Object]]:
    group = api_version.rpartition("/")[0]
    resource = BY_KIND.get((group, kind))
    if resource is None or not isinstance(item.get("metadata"), dict) or not item["metadata"].get("name"):
        return
    # a copy of what the store completes, so that the caller can load the same objects again
    copied = {**item, "metadata": dict(item["metadata"])}
    yield (resource.kind if resource.computed else resource.plural), copied


def _add_namespaces(by_plural: dict[str, list[Object]], present: set[str]) -> None:
    """Add the namespaces that a dump uses but does not list, and those every cluster has, unless present."""
    used = set(_SYSTEM_NAMESPACES)
    for plural, items in by_plural.items():
        if STORED[plural].namespaced:
            for item in items:
                used.add(item["metadata"].setdefault("namespace", "default"))
    known = present | {name_of(item) for item in by_plural.get("namespaces", ())}
    for name in sorted(used - known):
        labels = {"kubernetes.io/metadata.name": name}
        namespace = {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
        by_plural.setdefault("namespaces", []).append(namespace)
