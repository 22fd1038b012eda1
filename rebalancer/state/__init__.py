"""What one run leaves for the next: streaks of hot nodes, past moves; and where that is kept."""

from rebalancer.state.run_state import (
    PastMove,
    RunState,
    after_moves,
    after_plan,
    after_reading,
    in_cooldown,
    memory_seconds,
)
from rebalancer.state.samples import LoadSamples
from rebalancer.state.stores import ConfigMapStore, FileStore, StateStore

__all__ = [
    "ConfigMapStore",
    "FileStore",
    "LoadSamples",
    "PastMove",
    "RunState",
    "StateStore",
    "after_moves",
    "after_plan",
    "after_reading",
    "in_cooldown",
    "memory_seconds",
]
