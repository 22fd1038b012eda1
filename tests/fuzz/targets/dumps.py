"""Dumps in each layout: kubectl's, that of ``snapshot save``, any other JSON, and packed files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping

import zstandard

from rebalancer.cluster.dumps.reader import DumpReader
from tests.fuzz.clusters import as_kubectl_prints, folder, joined, mixed_items, saved
from tests.fuzz.structure import json_structure, line_structure
from tests.fuzz.target import Target
from tests.integration.cli.dumps import a_rich_cluster, list_of

MAX_UNPACKED_BYTES = 1 << 20  # packed inputs are bounded by what they hold, as --max-dump-size does


def reading(name: str) -> Callable[[bytes], None]:
    """Reads a file of this name."""

    def decode(content: bytes) -> None:
        path = folder() / name
        path.write_bytes(content)
        joined(DumpReader(path, MAX_UNPACKED_BYTES).read())

    return decode


def _kubectl() -> Mapping[str, bytes]:
    items = mixed_items()
    return {"list.json": as_kubectl_prints(items), "pods.json": as_kubectl_prints(items[:1])}


def _lines() -> Mapping[str, bytes]:
    names = ("pods", "nodes", "poddisruptionbudgets", "persistentvolumes")
    packed = {name: saved() / f"{name}.json.zst" for name in names}
    unpacker = zstandard.ZstdDecompressor()
    return {
        f"{name}.json": unpacker.decompressobj().decompress(path.read_bytes())
        for name, path in packed.items()
    }


def _whole() -> Mapping[str, bytes]:
    body = {"apiVersion": "v1", "kind": "List", "items": mixed_items()}
    return {"list.json": json.dumps(body).encode(), "pods.json": list_of("pods", a_rich_cluster()["pods"])}


def _packed() -> Mapping[str, bytes]:
    content = list_of("pods", a_rich_cluster()["pods"])
    return {
        "pods.json.gz": gzip.compress(content, mtime=0),
        "pods.json.zst": zstandard.compress(content),
    }


TARGETS = (
    Target("dump-kubectl", reading("list.json"), _kubectl, json_structure(indent=4), largest=64 << 20),
    Target("dump-lines", reading("pods.json"), _lines, line_structure, largest=64 << 20),
    Target("dump-whole", reading("any.json"), _whole, json_structure(), largest=64 << 20),
    Target("dump-packed", reading("pods.json.gz"), _packed, largest=64 << 20),
)
