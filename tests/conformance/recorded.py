"""The decisions of real schedulers that were recorded, by family."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"
FAMILIES = (
    "resources",
    "taints",
    "nodeaffinity",
    "ports",
    "images",
    "config",
    "spread",
    "interpod",
    "mixed",
    "volumes",
    "trimaran",
)
