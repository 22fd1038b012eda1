"""What one run leaves for the next: streaks of hot nodes, past moves; and where that is kept."""

from rebalancer.state.run_state import (
    PastMove,
    RunState,
    after_moves,
    after_plan,
    in_cooldown,
)
from rebalancer.state.stores import ConfigMapStore, FileStore, StateStore

__all__ = [
    "ConfigMapStore",
    "FileStore",
    "PastMove",
    "RunState",
    "StateStore",
    "after_moves",
    "after_plan",
    "in_cooldown",
]
