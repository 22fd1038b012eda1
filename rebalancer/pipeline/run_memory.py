"""What a run knows of earlier runs, and what it leaves for later ones.

The state is written before the first eviction and after each one, so that a run that is killed leaves no
eviction behind that later runs do not know.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rebalancer.execution import Outcome, after_outcomes, past_moves
from rebalancer.state import PastMove, RunState, StateStore


class RunMemory:
    """Keeps the state of a run in its store; nothing where there is none."""

    def __init__(
        self, store: StateStore | None, before: RunState | None, state: RunState | None, keeps_seconds: float
    ) -> None:
        """``before`` is what earlier runs left, ``state`` the same with what this run knows already."""
        self.before = before
        self.moved: tuple[PastMove, ...] = ()  # by this run, so far
        self._store = store
        self._state = state
        self._keeps_seconds = keeps_seconds

    def keep(self) -> None:
        """Write the state as it is."""
        if self._store is not None and self._state is not None:
            self._state = self._store.save(self._state)

    def overtaken(self) -> bool:
        """Whether another run has moved pods since this one read the state."""
        latest = self._store.load() if self._store is not None else None
        known = {move.uid for move in self.before.moves} if self.before else set()
        return latest is not None and any(move.uid not in known for move in latest.moves)

    def checkpoint(self, outcomes: Sequence[Outcome]) -> None:
        """Add what is known about the moves so far, and write."""
        self.moved = past_moves(outcomes)
        if self._store is not None:
            self._state = after_outcomes(self._state, outcomes, time.time(), self._keeps_seconds)
            self.keep()
