"""The recorded cluster of examples/, with the names that a managed cluster gives nodes and pods."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_WORKLOADS = {"web": "checkout-web-frontend", "api": "checkout-api-gateway"}


def node_name(number: int) -> str:
    """What ``node-1`` is called on EKS."""
    return f"ip-10-123-{200 + 7 * number}-{11 + 13 * number}.eu-central-1.compute.internal"


def with_long_names(folder: Path) -> Path:
    """A copy of the recorded cluster in a folder: nodes as on EKS, pods with the hash of a ReplicaSet."""
    folder.mkdir()
    for path in (ROOT / "examples" / "hot-cluster").iterdir():
        text = re.sub(r"\bnode-(\d)\b", lambda found: node_name(int(found[1])), path.read_text())
        text = re.sub(r"\b(web|api)-7d9f(-\d\d)?\b", _pod_name, text)
        (folder / path.name).write_text(text)
    return folder


def _pod_name(found: re.Match[str]) -> str:
    end = f"-x2k{found[2].removeprefix('-')}" if found[2] else ""
    return f"{_WORKLOADS[found[1]]}-7d9f8b6c5d{end}"
