"""The pods of one hot node that may leave it: how much each relieves, what it costs, and which stay why."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow, PodRow
from rebalancer.load.report import with_pods
from rebalancer.planning.hot_nodes.fragmentation import shape_cost
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.search.limits import UsedLimits
from rebalancer.planning.search.relief import Group, pods_to_move, removed


def relief_of(candidates: Sequence[Candidate], whole: FloatArray) -> FloatArray:
    """(candidates, resources) points of a node's allocatable, ``whole``, that leave with each of its pods."""
    if not candidates:
        return np.zeros((0, len(whole)))
    amounts = with_pods(np.array([item.usage for item in candidates]), 1.0)
    return np.where(whole > 0, 100.0 * amounts / np.where(whole > 0, whole, 1.0), 0.0)


class NodePods:
    """One hot node while the search runs.

    ``moved`` are pods that the plan moves already, ``give_up`` is the reason to move nothing off the node.
    """

    def __init__(
        self,
        prepared: PreparedInputs,
        disruption: Disruption,
        node: NodeRow,
        candidates: Sequence[Candidate],
        *,
        moved: Collection[PodRow] = (),
        give_up: KeptReason | None = None,
    ) -> None:
        names = prepared.pods.full_name
        self.node = node
        self.name = prepared.inputs.snapshot.nodes.names[node]
        self.candidates = sorted(candidates, key=lambda item: names(item.row))
        self.relief: FloatArray = np.nan_to_num(
            relief_of(self.candidates, prepared.inputs.load.allocatable[node])
        )
        rows = [item.row for item in self.candidates]
        self.cost: FloatArray = disruption.costs(rows) if rows else np.zeros(0)
        shape = shape_cost(prepared.inputs.load, prepared.hotness, prepared.usage, node, rows)
        self._price = self.cost + prepared.policy.planning.weights.fragmentation * shape
        self.refused: dict[int, KeptReason] = dict.fromkeys(range(len(rows)), give_up) if give_up else {}
        self.moved = {at for at, row in enumerate(rows) if row in moved}
        self._fit_weight = prepared.policy.planning.weights.fit
        workloads = [prepared.eviction.workload(row) for row in rows]
        self._workloads, self._workload_members = _numbered([item.key for item in workloads])
        self._of_key = {item.key: item for item in workloads}
        self._namespaces, self._namespace_members = _numbered([prepared.pods.namespaces[row] for row in rows])

    def next(self, excess: FloatArray, used: UsedLimits) -> tuple[int, float, int] | None:
        """The pod to move next, the excess it removes at most, and with how many others; None when none.

        ``excess`` is (resources,) points.
        """
        open_rows = [
            at for at in range(len(self.candidates)) if at not in self.refused and at not in self.moved
        ]
        if not open_rows or not excess.any():
            return None
        rows = np.array(open_rows)
        groups = (
            Group(
                self._workload_members[rows],
                np.array([used.room_of(self._of_key[k]) for k in self._workloads]),
            ),
            Group(self._namespace_members[rows], np.array([used.room_in(name) for name in self._namespaces])),
        )
        relief = self.relief[rows]
        chosen = pods_to_move(
            relief, excess, self._price[rows], used.room_on(self.node), groups, self._fit_weight
        )
        if not chosen:
            return None
        first = chosen[0]
        return open_rows[first], float(removed(relief[[first]], excess)[0]), len(chosen)

    def reopen(self, refused_before: dict[PodRow, int], moves: int) -> bool:
        """Let pods be tried again that were refused before the latest of ``moves``; whether there are any."""
        again = [
            at
            for at, reason in self.refused.items()
            if reason.reason in _DEPENDS_ON_MOVES
            and refused_before.get(self.candidates[at].row, moves) < moves
        ]
        for at in again:
            del self.refused[at]
        return bool(again)


# Reasons that later moves may remove: a landing has cooled down, or room has become free.
_DEPENDS_ON_MOVES = frozenset({Reason.NO_BETTER_LANDING, Reason.NO_LANDING, Reason.ROOM_TAKEN, Reason.BUDGET})


def _numbered(keys: Sequence[str]) -> tuple[list[str], IntArray]:
    """The distinct keys in order, and which of them each is."""
    distinct = sorted(set(keys))
    number = {key: at for at, key in enumerate(distinct)}
    return distinct, np.array([number[key] for key in keys], np.int64)
