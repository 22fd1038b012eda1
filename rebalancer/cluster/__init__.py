"""The cluster as it is read: objects from an API server or a recording, as records and as columns.

The names that other stages build on are exported here, and imported when they are first used: checking a
policy, which needs only ``selectors`` and ``quantities``, does without numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalancer.cluster.columns.nodes import NodeTable
    from rebalancer.cluster.columns.pod_classes import PodClass
    from rebalancer.cluster.columns.pods import PodTable
    from rebalancer.cluster.recordings.listing import Recording
    from rebalancer.cluster.recordings.reader import DumpReader
    from rebalancer.cluster.snapshot import Snapshot, build_snapshot

__all__ = ["DumpReader", "NodeTable", "PodClass", "PodTable", "Recording", "Snapshot", "build_snapshot"]

_MODULES = {
    "DumpReader": "recordings.reader",
    "NodeTable": "columns.nodes",
    "PodClass": "columns.pod_classes",
    "PodTable": "columns.pods",
    "Recording": "recordings.listing",
    "Snapshot": "snapshot",
    "build_snapshot": "snapshot",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
