"""Past moves by workload, and the cooldown that follows from them.

A workload that a run moved is left alone for a time, which doubles with each further run that moved it
within a window: what keeps coming back as the cheapest answer is not an answer. With a cooldown of 1 h, at
most 24 h, and a window of 48 h:

    moved by one run              left alone for 1 h
    moved again 2 h later         for 2 h
    and again 3 h later           for 4 h
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rebalancer.state.run_state import PastMove


class MoveHistory:
    """Moves by the workload and by the controller of their pods. A workload is ``namespace/Kind/name``."""

    def __init__(self, moves: Iterable[PastMove] = ()) -> None:
        self._of_workload: dict[str, list[PastMove]] = {}
        self._of_controller: dict[str, list[PastMove]] = {}
        for move in moves:
            self._of_workload.setdefault(f"{move.namespace}/{move.workload}", []).append(move)
            if move.controller_uid:
                self._of_controller.setdefault(move.controller_uid, []).append(move)

    def of(self, *, workload: str = "", controller_uid: str = "") -> tuple[PastMove, ...]:
        """The moves of a workload or a controller, oldest first."""
        found = self._of_workload.get(workload, []) + self._of_controller.get(controller_uid, [])
        by_pod = {(move.uid, move.run): move for move in found}
        return tuple(sorted(by_pod.values(), key=lambda move: (move.evicted_at, move.uid, move.run)))

    def in_cooldown(
        self,
        now: float,
        cooldown_seconds: float,
        *,
        workload: str = "",
        controller_uid: str = "",
        results: Collection[str] | None = None,
    ) -> PastMove | None:
        """The latest move, of those with such results, that is too recent to move the workload again.

        A move dated in the future counts as just made: the clocks of two runs may differ.
        """
        for move in reversed(self.of(workload=workload, controller_uid=controller_uid)):
            wanted = results is None or move.result in results
            if wanted and now - move.evicted_at < cooldown_seconds:
                return move
        return None

    def cooldown_seconds(
        self,
        now: float,
        *,
        first: float,
        most: float,
        window: float,
        workload: str = "",
        controller_uid: str = "",
    ) -> float:
        """How long the workload is left alone after its latest move."""
        runs = {
            move.run or move.evicted_at
            for move in self.of(workload=workload, controller_uid=controller_uid)
            if now - move.evicted_at < window
        }
        doublings = min(max(0, len(runs) - 1), 60)
        return max(first, min(first * 2.0**doublings, most))
