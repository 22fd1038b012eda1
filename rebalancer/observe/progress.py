"""Reports how far a plan is to somebody who waits for it: its moves, and the landings that were computed.

    planning: 12 of at most 40 moves, 1,350 landings computed

The planner tells of each placement and of each move. It tries many plans, of which each begins without a
move, so the report holds the most moves of any: it only grows.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalancer.counting import counted

_PLACEMENTS_A_REPORT = 50  # some tenths of a second on a cluster of a thousand nodes


class PlanProgress:
    """Counts placements and moves of one set of inputs, and reports them."""

    def __init__(
        self, report: Callable[[str], object], most_moves: int, ensure_wanted: Callable[[], object]
    ) -> None:
        """``most_moves`` is what the policy allows in a run; ``ensure_wanted`` is asked at each placement."""
        self._report = report
        self._most_moves = most_moves
        self._ensure_wanted = ensure_wanted
        self._placements = 0
        self._moves = 0

    def on_placement(self) -> None:
        """One replacement is about to be placed."""
        self._ensure_wanted()
        if self._placements % _PLACEMENTS_A_REPORT == 0:
            self._say()
        self._placements += 1

    def on_move(self, moves: int) -> None:
        """A plan has got so many moves."""
        moves = min(moves, self._most_moves)  # how limits would do if they were higher is tried as well
        if moves > self._moves:
            self._moves = moves
            self._say()

    def _say(self) -> None:
        done = [f"{self._moves:,} of at most {counted(self._most_moves, 'move')}"]
        if self._placements:
            done.append(f"{counted(self._placements, 'landing')} computed")
        self._report(f"planning: {', '.join(done)}")
