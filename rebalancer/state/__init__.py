"""What one run leaves for the next: streaks of hot nodes, past moves; and where that is kept."""

from __future__ import annotations

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

__all__ = [
    "BAD_RESULTS",
    "LoadAfter",
    "LoadSamples",
    "MoveHistory",
    "PastMove",
    "Result",
    "RunState",
    "after_moves",
    "after_plan",
    "after_reading",
    "memory_seconds",
]
