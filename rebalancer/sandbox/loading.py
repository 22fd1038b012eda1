"""Reading dumps: what ``kubectl get -o json`` prints, lists and mixed lists, plain, gzip or zstandard."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import zstandard

from rebalancer.errors import InputError
from rebalancer.sandbox.objects.objects import Object
from rebalancer.sandbox.objects.resources import BY_KIND, STORED

_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"
_NAMES = (".json", ".json.gz", ".json.zst")


def read_documents(path: Path) -> Iterator[Object]:
    """The JSON documents of a file, or of every .json, .json.gz and .json.zst of a folder."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_NAMES))
        if not files:
            raise InputError("no .json, .json.gz or .json.zst in this folder", where=str(path))
    else:
        files = [path]
    for file in files:
        yield _read(file)


def _read(file: Path) -> Object:
    try:
        raw = file.read_bytes()
        if raw.startswith(_GZIP):
            raw = gzip.decompress(raw)
        elif raw.startswith(_ZSTANDARD):
            with zstandard.ZstdDecompressor().stream_reader(raw) as reader:
                raw = reader.read()
        document = msgspec.json.decode(raw)
    except (OSError, EOFError, zstandard.ZstdError, msgspec.DecodeError) as error:
        raise InputError(f"cannot read this dump: {error}", where=str(file)) from error
    if not isinstance(document, dict):
        raise InputError("a dump is one JSON object: a list of objects or one of them", where=str(file))
    return document


def flatten(documents: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """(kind, object) of every object, the items of lists one by one; kinds that are not served are left out.

    Metrics come as ``NodeMetrics`` and ``PodMetrics``, load-watcher's document as ``watcher``.
    """
    for document in documents:
        kind, version = str(document.get("kind", "")), str(document.get("apiVersion", ""))
        if not kind and "NodeMetricsMap" in (document.get("data") or {}):
            yield "watcher", document
        elif "items" in document:
            item_kind = kind.removesuffix("List")
            for item in document["items"] or ():
                yield from _one(
                    item, str(item.get("kind") or item_kind), str(item.get("apiVersion") or version)
                )
        else:
            yield from _one(document, kind, version)


def _one(item: Object, kind: str, api_version: str) -> Iterator[tuple[str, Object]]:
    group = api_version.rpartition("/")[0]
    row = BY_KIND.get((group, kind))
    if row is None or not isinstance(item.get("metadata"), dict) or not item["metadata"].get("name"):
        return
    # a copy of what the store completes, so that the caller can load the same objects again
    yield (row.kind if row.computed else row.plural), {**item, "metadata": dict(item["metadata"])}


def add_namespaces(by_plural: dict[str, list[Object]], present: set[str]) -> None:
    """Add the namespaces that a dump uses but does not list, and those every cluster has, unless present."""
    named = set(_SYSTEM_NAMESPACES)
    for plural, items in by_plural.items():
        if STORED[plural].namespaced:
            for item in items:
                named.add(item["metadata"].setdefault("namespace", "default"))
    known = present | {item["metadata"]["name"] for item in by_plural.get("namespaces", ())}
    for name in sorted(named - known):
        labels = {"kubernetes.io/metadata.name": name}
        namespace = {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
        by_plural.setdefault("namespaces", []).append(namespace)
