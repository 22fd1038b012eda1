"""A timeline as it is replayed: moment by moment, with the recorded evictions that are to be undone."""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.observe.recorded import recorded_state
from rebalancer.observe.timeline import Timeline
from rebalancer.state.run_state import PastMove
from rebalancer_lab.world import Moment

__all__ = ["RecordedMoves", "Timeline"]

_CLOCKS_SECONDS = 60.0  # by which the clocks of a run and of the API server may differ


class RecordedMoves:
    """The moves that rebalancer made while it was recorded, and the pods that replaced those moved."""

    def __init__(self) -> None:
        self._moves: dict[str, PastMove] = {}  # by uid
        self.replacements: dict[str, str] = {}  # the uid of a replacement -> that of the pod it replaced

    def of(self, moment: Moment) -> dict[str, str]:
        """The pods that a recorded eviction brought to this moment, and whose place each takes."""
        state = recorded_state(moment.snapshot.recording)
        self._moves |= {move.uid: move for move in (state.moves if state else ())}
        if moment.before is None:
            return {}
        left = [
            move for uid, move in self._moves.items() if uid in moment.before.row and uid not in moment.row
        ]
        found = dict(self._matched(moment, left)) if left else {}
        self.replacements |= found
        return found

    @staticmethod
    def _matched(moment: Moment, left: Iterable[PastMove]) -> Iterable[tuple[str, str]]:
        pods, names = moment.snapshot.pods, moment.snapshot.nodes.names
        free = list(moment.arrivals)
        for move in sorted(left, key=lambda move: (move.evicted_at, move.uid)):
            for row in free:
                fits = not move.to_node or names[int(pods.node[row])] == move.to_node
                after = not pods.created[row] < move.evicted_at - _CLOCKS_SECONDS
                if fits and after and pods.class_of(row).owner.uid == move.controller_uid:
                    free.remove(row)
                    yield pods.uids[row], move.uid
                    break
