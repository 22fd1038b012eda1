"""The pods of one hot node that may leave it: how much each relieves, what it costs, and which stay why."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.load.report import with_pods
from rebalancer.planning.hot_nodes.fragmentation import shape_cost
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.search.disruption_cost import Disruption, least_relief, usual_relief
from rebalancer.planning.search.limits import UsedLimits
from rebalancer.planning.search.relief import NEGLIGIBLE, Group, pods_to_move, removed

_MANY_PODS = 8  # so many are not chosen anew after each move


def relief_of(candidates: Sequence[Candidate], whole: FloatArray) -> FloatArray:
    """(candidates, resources) points of a node's allocatable, ``whole``, that leave with each of its pods."""
    if not candidates:
        return np.zeros((0, len(whole)))
    amounts = with_pods(np.array([item.usage for item in candidates]), 1.0)
    return np.where(whole > 0, 100.0 * amounts / np.where(whole > 0, whole, 1.0), 0.0)


class NodePods:
    """One hot node while the search runs.

    ``moved`` are pods that the plan moves already, ``give_up`` is the reason to move nothing off the node,
    and ``asked`` is a leastRelief other than the policy's.
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
        asked: float | None = None,
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
        self._hot_above = prepared.hotness.hot_above[node]
        self.asked = prepared.policy.planning.least_relief if asked is None else asked
        self._chosen: list[int] = []  # the pods to move next, the first of them first
        self._fit_weight = prepared.policy.planning.weights.fit
        workloads = [prepared.eviction.workload(row) for row in rows]
        self._workloads, self._workload_members = _numbered([item.key for item in workloads])
        self._of_key = {item.key: item for item in workloads}
        self._namespaces, self._namespace_members = _numbered([prepared.pods.namespaces[row] for row in rows])

    def least(self, excess: FloatArray, percent: FloatArray) -> FloatArray:
        """(candidates,) points of excess that each must remove to be worth its cost.

        ``excess`` is (resources,) points, ``percent`` what of its allocatable the node uses.
        """
        rows = [at for at in range(len(self.candidates)) if at not in self.refused]
        price, least = 1.0 + self.cost, self.asked
        may_leave = self.relief[[at for at in rows if at not in self.moved]].sum(axis=0)
        cools = (excess > NEGLIGIBLE) & (percent - may_leave <= self._hot_above + NEGLIGIBLE)
        if cools.any():
            usual = usual_relief(self.relief[rows][:, cools].sum(axis=1), price[rows])
            least = least_relief(self.asked, usual)
        return np.asarray(least * price, np.float64)

    def worthwhile(self, excess: FloatArray, percent: FloatArray) -> BoolArray:
        """(candidates,) which remove enough for their cost; one that ends its node's being hot does."""
        gain = removed(self.relief, excess)
        is_hot = bool(((percent > self._hot_above + NEGLIGIBLE) & (excess > 0)).any())
        ends = is_hot & (gain >= float(excess.sum()) - NEGLIGIBLE)
        return np.asarray((gain >= self.least(excess, percent) - NEGLIGIBLE) | ends, np.bool_)

    def next(
        self, excess: FloatArray, percent: FloatArray, used: UsedLimits
    ) -> tuple[int, float, int] | None:
        """The pod to move next, the excess it removes at most, and with how many others; None when none.

        ``excess`` is (resources,) points, ``percent`` what of its allocatable the node uses.
        """
        if not excess.any():
            return None
        worthwhile = self.worthwhile(excess, percent)
        open_rows = [
            at
            for at in np.flatnonzero(worthwhile).tolist()
            if at not in self.refused and at not in self.moved
        ]
        if not open_rows:
            return None
        rows = np.array(open_rows)
        groups = (
            Group(
                self._workload_members[rows],
                np.array([used.room_of(self._of_key[k]) for k in self._workloads]),
            ),
            Group(self._namespace_members[rows], np.array([used.room_in(name) for name in self._namespaces])),
        )
        room = used.room_on(self.node)
        if not self._suffices_still(rows, excess, room, groups):
            found = pods_to_move(self.relief[rows], excess, self._price[rows], room, groups, self._fit_weight)
            self._chosen = [open_rows[at] for at in found]
        if not self._chosen:
            return None
        first = self._chosen[0]
        return first, float(removed(self.relief[[first]], excess)[0]), len(self._chosen)

    def _suffices_still(self, rows: IntArray, excess: FloatArray, room: int, groups: Sequence[Group]) -> bool:
        """Whether the pods chosen before need not be chosen anew, which is slow for many pods.

        Those that have moved are left out; the others are all among ``rows``, which may leave, within the
        room that limits leave, and enough for the (resources,) excess.
        """
        if len(self._chosen) <= _MANY_PODS:
            return False
        self._chosen = [at for at in self._chosen if at not in self.moved]
        among = np.isin(rows, self._chosen)
        counts = (np.bincount(group.members[among], minlength=len(group.room)) for group in groups)
        return (
            int(among.sum()) == len(self._chosen) <= room
            and all((count <= group.room).all() for count, group in zip(counts, groups, strict=True))
            and bool((self.relief[self._chosen].sum(axis=0) >= excess - NEGLIGIBLE).all())
        )

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
