"""What one run leaves for the next: streaks of hot nodes, past moves; and where that is kept.

The stores are imported when they are first used: planning needs the state, not the API client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rebalancer.state.results import BAD_RESULTS, LoadAfter, Result
from rebalancer.state.run_state import (
    MoveHistory,
    PastMove,
    RunState,
    after_moves,
    after_plan,
    after_reading,
    memory_seconds,
)
from rebalancer.state.samples import LoadSamples

if TYPE_CHECKING:
    from rebalancer.state.stores import ConfigMapStore, FileStore, StateStore

__all__ = [
    "BAD_RESULTS",
    "ConfigMapStore",
    "FileStore",
    "LoadAfter",
    "LoadSamples",
    "MoveHistory",
    "PastMove",
    "Result",
    "RunState",
    "StateStore",
    "after_moves",
    "after_plan",
    "after_reading",
    "memory_seconds",
]


def __getattr__(name: str) -> Any:
    """A store, imported now."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.stores"), name)
