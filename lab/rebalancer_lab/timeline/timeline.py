"""A timeline as it is replayed: what happened in it, and which recorded evictions are to be undone."""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.observe.recorded import recorded_state
from rebalancer.observe.timeline import Timeline
from rebalancer.planning.plan import Value
from rebalancer.state.run_state import PastMove
from rebalancer_lab.timeline.world import Moment

__all__ = ["Happened", "RecordedMoves", "Timeline"]

_EVICTED = "Evicted"
_OUT_OF_MEMORY = "OOMKilled"
_CLOCKS_SECONDS = 60.0  # by which the clocks of a run and of the API server may differ


class Happened(Value, frozen=True):
    """What happened to pods over a timeline, as far as two moments side by side tell."""

    arrivals: int = 0  # pods that came and were bound
    departures: int = 0
    restarts: int = 0  # of containers
    oom_kills: int = 0
    evicted: int = 0  # by the kubelet or a taint
    own_moves: int = 0  # by rebalancer

    def and_then(self, moment: Moment) -> Happened:
        """The same, and what happened since the moment before."""
        before = moment.before
        if before is None:
            return self
        pods = moment.snapshot.pods
        then = before.snapshot.pods
        restarts = killed = 0
        for row, reports in pods.columns.few("containers").items():
            row_before = before.row.get(moment.uids[row])
            earlier = (
                {container.name: container.restarts for container in then.fields(row_before).containers}
                if row_before is not None
                else {}
            )
            for container in reports:
                more = container.restarts - earlier.get(container.name, 0)
                if more > 0:
                    restarts += more
                    killed += container.last_terminated == _OUT_OF_MEMORY
        return Happened(
            arrivals=self.arrivals + len(moment.arrivals),
            departures=self.departures + sum(uid not in moment.row for uid in before.row),
            restarts=self.restarts + restarts,
            oom_kills=self.oom_kills + killed,
            evicted=self.evicted + len(_evicted(moment) - _evicted(before)),
        )


def _evicted(moment: Moment) -> frozenset[str]:
    """The uids of the pods that failed because they were evicted."""
    finished = moment.snapshot.pods.finished
    if finished is None:
        return frozenset()
    rows = finished.columns.few("reason").items()
    return frozenset(finished.uids[row] for row, reason in rows if reason == _EVICTED)


class RecordedMoves:
    """The moves that rebalancer made while it was recorded, and the pods that replaced those moved."""

    def __init__(self) -> None:
        self._moves: dict[str, PastMove] = {}  # by uid
        self.replacements: dict[str, str] = {}  # the uid of a replacement -> that of the pod it replaced
        self._made: list[PastMove] = []  # and not taken yet

    def of(self, moment: Moment) -> dict[str, str]:
        """The pods that a recorded eviction brought to this moment, and whose place each takes."""
        state = recorded_state(moment.snapshot.recording)
        moves_by_uid = {move.uid: move for move in (state.moves if state else ())}
        if moment.before is not None:
            self._made += [move for uid, move in moves_by_uid.items() if uid not in self._moves]
        self._moves |= moves_by_uid
        if moment.before is None:
            return {}
        left = [
            move for uid, move in self._moves.items() if uid in moment.before.row and uid not in moment.row
        ]
        replacements = dict(self._matched(moment, left)) if left else {}
        self.replacements |= replacements
        return replacements

    def take(self) -> list[tuple[str, PastMove]]:
        """The moves that were not taken yet, each with the uid that its pod had before it was ever moved."""
        made = self._made
        self._made = []
        moves_taken = []
        for move in made:
            uid = move.uid
            while uid in self.replacements:
                uid = self.replacements[uid]
            moves_taken.append((uid, move))
        return moves_taken

    @staticmethod
    def _matched(moment: Moment, left: Iterable[PastMove]) -> Iterable[tuple[str, str]]:
        pods = moment.snapshot.pods
        names = moment.snapshot.nodes.names
        free = list(moment.arrivals)
        for move in sorted(left, key=lambda move: (move.evicted_at, move.uid)):
            for row in free:
                fits = not move.to_node or names[int(pods.node[row])] == move.to_node
                after = not pods.created[row] < move.evicted_at - _CLOCKS_SECONDS
                if fits and after and pods.class_of(row).owner.uid == move.controller_uid:
                    free.remove(row)
                    yield moment.uids[row], move.uid
                    break
