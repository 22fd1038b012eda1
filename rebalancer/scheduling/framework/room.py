"""What the room on each node says of a class: whether it passes, and scores that no other node has a part in.

Some filters and scores of a node depend on what a pod requests and on what the pods of that node take
already, and on nothing else (``Plugin.of_room``). A placement asks them only about the nodes whose pods take
something else than they did at the placement before, in whichever state of the cluster that was; what they
said of the others is kept. Classes that request the same, and are alike in all that is static, share it.

    nodes a b c         ``ClusterState.taken`` 7 4 4     total 150 120 120
    a pod lands on b    ``ClusterState.taken`` 7 9 4     b is asked about: total 150 110 120

The results are values: what a placement was given is never changed afterwards, so that it can be read later.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.framework.scores import Scoring
from rebalancer.scheduling.state.cluster_state import ClusterState

# Where the pods of more than one node in so many take something else, all nodes are asked about.
_FEW_CHANGED = 8
_MOST_REMEMBERED = 1024  # nodes by what their pods take
# The columns of ``RoomResults``.
_TAKEN = 0
_PASSES = 1
_TOTAL = 2
_RAW = 3


class RoomResults(msgspec.Struct, frozen=True, eq=False):
    """What the plugins say of each node while its pods take so much."""

    columns: IntArray  # (4 and more, nodes) ``taken``, ``passes``, ``total`` and ``raw`` as numbers
    taken: IntArray  # (nodes,) the ``ClusterState.taken`` of which this holds
    passes: BoolArray  # (nodes,) every static filter and every filter of room
    feasible: IntArray  # rows of those that pass, ascending
    raw: IntArray  # (plugins, nodes) raw scores
    total: IntArray  # (nodes,) the sum of the scores, static ones included
    total_of_feasible: IntArray


class Room:
    """The filters and scores of room of one class, and of those alike."""

    def __init__(
        self,
        pod_class: int,
        admitted: BoolArray,
        added: IntArray | int,
        filters: Sequence[Plugin],
        scores: Sequence[Scoring],
    ) -> None:
        """``admitted`` and ``added`` are what is static, (nodes,)."""
        self._pod_class = pod_class
        self._admitted = admitted
        self._added = added
        self.filters = filters
        self.scores = scores
        self._last: RoomResults | None = None
        # The columns of a node, by its row and ``taken``: states that take turns differ in the same nodes.
        self._remembered: dict[tuple[int, int], list[int]] = {}

    def of(self, state: ClusterState) -> RoomResults:
        """The results on a state."""
        last = self._last
        if last is None:
            results = self._of_all(state)
        else:
            changed = (state.taken != last.taken).nonzero()[0]
            if not len(changed):
                return last
            many = len(changed) * _FEW_CHANGED > len(state.taken)
            results = self._of_all(state) if many else self._repaired(state, last, changed)
        self._last = results
        return results

    def _of_all(self, state: ClusterState) -> RoomResults:
        columns = self._ask(state, np.arange(len(state.nodes)))
        passes = columns[_PASSES] > 0
        return _results(np.array(columns), passes, state.nodes.passing(passes))

    def _repaired(self, state: ClusterState, last: RoomResults, changed: IntArray) -> RoomResults:
        """The last results, but for the nodes that changed (rows)."""
        taken = state.taken.take(changed).tolist()
        keys = list(zip(changed.tolist(), taken, strict=True))
        remembered = [self._remembered.get(key) for key in keys]
        missing = [at for at, column in enumerate(remembered) if column is None]
        if missing:
            rows = changed if len(missing) == len(keys) else changed[missing]
            if len(self._remembered) > _MOST_REMEMBERED:
                self._remembered.clear()
            for at, column in zip(missing, np.array(self._ask(state, rows)).T.tolist(), strict=True):
                remembered[at] = self._remembered[keys[at]] = column
        columns = last.columns.copy()
        columns[:, changed] = np.array(remembered).T
        if np.array_equal(columns[_PASSES].take(changed), last.columns[_PASSES].take(changed)):
            return _results(columns, last.passes, last.feasible)
        passes = columns[_PASSES] > 0
        return _results(columns, passes, state.nodes.passing(passes))

    def _ask(self, state: ClusterState, rows: IntArray) -> list[IntArray]:
        """The columns of some nodes, see ``RoomResults``."""
        passes = self._admitted.take(rows)
        for plugin in self.filters:
            passes = np.greater(passes, plugin.rejected(state, self._pod_class, rows))
        raw_scores: list[IntArray] = []
        total: IntArray | int = self._added if isinstance(self._added, int) else self._added.take(rows)
        for scoring in self.scores:
            raw = scoring.plugin.raw_scores(state, self._pod_class, rows)
            assert raw is not None  # a plugin that does not score the class is not among them
            raw_scores.append(raw)
            total = total + (raw if scoring.weight == 1 else scoring.weight * raw)
        if isinstance(total, int):
            total = np.full(len(rows), total)
        return [state.taken.take(rows), passes.astype(np.int64), total, *raw_scores]


def _results(columns: IntArray, passes: BoolArray, feasible: IntArray) -> RoomResults:
    total = columns[_TOTAL]
    of_feasible = total if len(feasible) == len(total) else total.take(feasible)
    return RoomResults(columns, columns[_TAKEN], passes, feasible, columns[_RAW:], total, of_feasible)
