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


class RoomResults(msgspec.Struct, frozen=True, eq=False):
    """What the plugins say of each node while its pods take so much."""

    taken: IntArray  # (nodes,) the ``ClusterState.taken`` of which this holds
    passes: BoolArray  # (nodes,) every static filter and every filter of room
    feasible: IntArray  # rows of those that pass, ascending
    raw: Sequence[IntArray]  # (nodes,) raw scores by plugin
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
        passes, raw, total = self._ask(state, np.arange(len(state.nodes)))
        return self._results(state, passes, raw, total)

    def _repaired(self, state: ClusterState, last: RoomResults, changed: IntArray) -> RoomResults:
        """The last results, but for the nodes that changed (rows)."""
        passes_now, raw_now, total_now = self._ask(state, changed)
        raw = []
        for before, now in zip(last.raw, raw_now, strict=True):
            after = before.copy()
            after[changed] = now
            raw.append(after)
        total = last.total.copy()
        total[changed] = total_now
        if (last.passes.take(changed) == passes_now).all():
            of_feasible = total if len(last.feasible) == len(total) else total.take(last.feasible)
            return RoomResults(state.taken.copy(), last.passes, last.feasible, raw, total, of_feasible)
        passes = last.passes.copy()
        passes[changed] = passes_now
        return self._results(state, passes, raw, total)

    def _results(
        self, state: ClusterState, passes: BoolArray, raw: Sequence[IntArray], total: IntArray
    ) -> RoomResults:
        feasible = state.nodes.passing(passes)
        of_feasible = total if len(feasible) == len(total) else total.take(feasible)
        return RoomResults(state.taken.copy(), passes, feasible, raw, total, of_feasible)

    def _ask(self, state: ClusterState, rows: IntArray) -> tuple[BoolArray, list[IntArray], IntArray]:
        """(rows,) which nodes pass, the raw scores by plugin, and the totals."""
        passes = self._admitted.take(rows)
        for plugin in self.filters:
            passes &= ~plugin.rejected(state, self._pod_class, rows)
        raw_scores: list[IntArray] = []
        total = np.zeros(len(rows), np.int64)
        if not isinstance(self._added, int):
            total = self._added.take(rows)
        for scoring in self.scores:
            raw = scoring.plugin.raw_scores(state, self._pod_class, rows)
            assert raw is not None  # a plugin that does not score the class is not among them
            raw_scores.append(raw)
            total += raw if scoring.weight == 1 else scoring.weight * raw
        return passes, raw_scores, total
