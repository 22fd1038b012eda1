"""A recorded cluster of a hot and a cool node, for commands that plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rebalancer.cluster.kinds import BY_PLURAL
from tests.builders import a_node
from tests.unit.planning.builders import a_workload

MOMENT = "2026-06-01T12:00:00Z"


NODES_OF_PODS = ("hot", "hot", "cool")
ALSO_READ = ("poddisruptionbudgets",)


def a_hot_dump(
    folder: Path, *, nodes: Sequence[str] = NODES_OF_PODS, also_read: Sequence[str] = ALSO_READ
) -> Path:
    """A file a kind: the pods of ``web`` on these nodes, and empty lists of the kinds ``also_read``."""
    web = a_workload("web", nodes, cpu="1")
    kinds: dict[str, list[Any]] = {plural: [] for plural in also_read}
    kinds |= {
        "nodes": [a_node("hot"), a_node("cool")],
        "pods": web.pods,
        "replicasets": [web.item],
        "nodemetrics": [
            {"metadata": {"name": name}, "timestamp": MOMENT, "usage": {"cpu": cpu, "memory": "1Gi"}}
            for name, cpu in (("hot", "3800m"), ("cool", "300m"))
        ],
    }
    folder.mkdir(exist_ok=True)
    for plural, items in kinds.items():
        kind = BY_PLURAL[plural]
        listing = {"apiVersion": kind.api_version, "kind": f"{kind.name}List", "items": items}
        (folder / f"{plural}.json").write_bytes(msgspec.json.encode(listing))
    return folder
