"""The pods of one hot node: how much each relieves it, what that costs, and which of them to move.

Pure arithmetic: nothing is placed here. The fewest pods that suffice are picked and, of those, the cheapest.
A pod is picked if the node can still be relieved with as few pods as possible after it; among such pods the
cheapest one is picked, and the last pod is the one that fits best. Where no pods suffice, or limits allow too
few, the pods that remove most come first.

    need 25 points     pods 22, 13, 13, 12.5 of costs 2, 0, 0, 0.1: two pods are enough, as 22 + 13 >= 25
    pick 13            the cheapest with which one more pod can suffice (22 or 12.5); 12 points are left
    pick 12.5          the cheapest that is enough: the expensive pod of 22 points stays

One aspect of a pod's price is the shape of its node, ``planning.weights.fragmentation``. A node that is full
in cpu and empty in memory strands its memory: nothing fits there any more. Of two pods that relieve it alike,
the one that leaves the node more evenly used is the better choice. Here a node uses 90 % cpu and 30 % memory,
so 60 points of memory are stranded; only cpu and memory are compared, since every pod needs both:

    web     10 points cpu, 1 point memory     80 % and 29 %, 51 points: mends 9
    cache   10 points cpu, 20 points memory   80 % and 10 %, 70 points: makes it worse by 10
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.load.report import LoadReport, with_pods
from rebalancer.load.usage import RESOURCES
from rebalancer.planning.builder import UsedLimits
from rebalancer.planning.disruption_cost import Disruption, least_relief, usual_relief
from rebalancer.planning.hotness import Hotness
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason

NEGLIGIBLE = 1e-9  # points; floating-point error of sums
_MORE_PODS = 2  # how many pods more than the bound of each resource alone a set may have


class Group(msgspec.Struct, frozen=True, eq=False):
    """Pods that share a limit, such as those of one namespace."""

    members: IntArray  # (pods,) the number of the group of each pod
    room: IntArray  # (groups,) how many of its pods may still leave


def relieved(relief: FloatArray, need: FloatArray) -> FloatArray:
    """(pods,) points above coolTo, ``need``, that leave with each pod; ``relief`` is (pods, resources)."""
    return np.asarray(np.minimum(relief, need).sum(axis=1), np.float64)


def pods_to_move(
    relief: FloatArray,
    need: FloatArray,
    cost: FloatArray,
    most: int,
    groups: Sequence[Group] = (),
    fit_weight: float = 1.0,
) -> list[int]:
    """Rows of ``relief`` to move, the one that removes most first.

    ``relief`` is (pods, resources) points that leave with each pod, ``need`` (resources,) points that should
    leave, ``cost`` (pods,) of moving each, ``most`` how many pods may leave; ``groups`` share limits, each of
    them within one of the next, as workloads are within namespaces; ``fit_weight`` is the cost of a hundred
    points beyond the need.
    """
    wanted = need > NEGLIGIBLE
    relief, need = relief[:, wanted], need[wanted]
    left, chosen = need.copy(), list[int]()
    while (left > NEGLIGIBLE).any() and len(chosen) < most:
        usable = _usable(relief, left, chosen, groups)
        if not usable.any():
            break
        following = _next(relief, left, cost, usable, most - len(chosen), groups, chosen, fit_weight)
        chosen += following
        left = np.maximum(left - relief[following].sum(axis=0), 0.0)
    gain = relieved(relief, need)
    return sorted(_needed(relief, need, chosen), key=lambda at: (-gain[at], cost[at], at))


def _usable(relief: FloatArray, left: FloatArray, chosen: list[int], groups: Sequence[Group]) -> BoolArray:
    """(pods,) which may still be picked and would remove something."""
    usable = np.asarray(relieved(relief, left) > NEGLIGIBLE, np.bool_)
    usable[chosen] = False
    for group in groups:
        room = group.room.copy()
        np.subtract.at(room, group.members[chosen], 1)
        usable &= room[group.members] > 0
    return usable


def _next(
    relief: FloatArray,
    left: FloatArray,
    cost: FloatArray,
    usable: BoolArray,
    most: int,
    groups: Sequence[Group],
    chosen: list[int],
    fit_weight: float,
) -> list[int]:
    """The pod to pick next, or several where all that may leave are not enough."""
    gain = relieved(relief, left)
    together = _within_groups(usable, -gain, groups, chosen)
    size = _fewest(relief[together], left)
    for pods in range(size, min(size + _MORE_PODS, most) + 1) if size else ():
        fits = usable & _on_track(relief, left, together, pods)
        if fits.any():
            beyond = np.maximum(relief - left, 0.0).sum(axis=1) / 100.0 if pods == 1 else 0.0
            price = np.round(cost + fit_weight * beyond, 9)
            rows = np.flatnonzero(fits)
            return [int(rows[np.lexsort((rows, -gain[rows], price[rows]))[0]])]
    rows = np.flatnonzero(usable)
    order = rows[np.lexsort((rows, cost[rows], -np.round(gain[rows], 9)))]
    if 0 < size <= most:
        return [int(order[0])]
    return _largest(relief, left, order, most, groups, chosen)


def _largest(
    relief: FloatArray,
    left: FloatArray,
    order: IntArray,
    most: int,
    groups: Sequence[Group],
    chosen: list[int],
) -> list[int]:
    """The pods to pick in this order until what is left is so little that one removes less than all of it."""
    rank = np.full(len(relief), np.inf)
    rank[order] = np.arange(len(order))
    picked = order[_within_groups(np.isfinite(rank), rank, groups, chosen)[order]][:most]
    before = left - np.cumsum(relief[picked], axis=0) + relief[picked]
    unchanged = (before >= relief[order].max(axis=0)).all(axis=1)
    count = max(int(unchanged.cumprod().sum()), 1)
    return [int(at) for at in picked[:count]]


def _within_groups(
    usable: BoolArray, rank: FloatArray, groups: Sequence[Group], chosen: list[int]
) -> BoolArray:
    """(pods,) those of the lowest rank that may all leave together; each group is within one of the next."""
    together = usable.copy()
    for group in groups:
        room = group.room.copy()
        np.subtract.at(room, group.members[chosen], 1)
        rows = np.flatnonzero(together)
        rows = rows[np.lexsort((rows, rank[rows], group.members[rows]))]  # by group, the best of each first
        members = group.members[rows]
        better = np.arange(len(rows)) - np.searchsorted(members, members)  # how many of its group are
        together[rows[better >= room[members]]] = False
    return together


def _fewest(relief: FloatArray, need: FloatArray) -> int:
    """With fewer pods some resource is not relieved; 0 when all pods together are not enough."""
    if not len(relief):
        return 0
    enough = np.cumsum(-np.sort(-relief, axis=0), axis=0) >= need - NEGLIGIBLE
    return int(enough.argmax(axis=0).max()) + 1 if enough[-1].all() else 0


def _on_track(relief: FloatArray, need: FloatArray, together: BoolArray, size: int) -> BoolArray:
    """(pods,) with which, in each resource alone, ``size`` pods can suffice."""
    ordered = -np.sort(-relief[together], axis=0)
    others = ordered[: size - 1].sum(axis=0)
    if size > 1 and len(ordered) >= size:
        # A pod that is one of the largest itself is joined by the next one in its place.
        among = together[:, None] & (relief >= ordered[size - 2])
        others = np.where(among, others - relief + ordered[size - 1], others)
    return np.asarray((relief + others >= need - NEGLIGIBLE).all(axis=1), np.bool_)


def _needed(relief: FloatArray, need: FloatArray, chosen: list[int]) -> list[int]:
    """Leave out pods without which the others remove as much."""
    kept = list(chosen)
    for at in sorted(chosen, key=lambda item: float(relief[item].sum())):
        total = relief[kept].sum(axis=0)
        without = np.minimum(total - relief[at], need)
        if len(kept) > 1 and (without >= np.minimum(total, need) - NEGLIGIBLE).all():
            kept.remove(at)
    return kept


def shape_cost(
    load: LoadReport, hotness: Hotness, usage: FloatArray, node: NodeRow, pods: Sequence[PodRow]
) -> FloatArray:
    """(pods,) by how many hundred points each pod mends its node's shape less than the best of them does.

    All zero unless the node is hot in one of cpu and memory alone: a node that is short of both has no shape
    to mend.
    """
    hot = [bool(hotness.resources[node, hotness.names.index(name)]) for name in RESOURCES]
    if not pods or hot.count(True) != 1:
        return np.zeros(len(pods))
    mended = fragmentation_relief(load, usage, node, pods)
    return np.asarray((mended.max() - mended) / 100.0, np.float64)


def fragmentation_relief(
    load: LoadReport, usage: FloatArray, node: NodeRow, pods: Sequence[PodRow]
) -> FloatArray:
    """(pods,) points by which each pod's leaving narrows the gap between cpu and memory of a node.

    ``usage`` is (nodes, resources), what is expected of the nodes. Negative where the gap widens; 0 where
    anything that it takes to know is unknown, so that an unknown pod is never preferred.
    """
    columns = [load.percent_resources.index(name) for name in RESOURCES]
    room = load.allocatable[node, columns]
    whole = np.where(room > 0, room, np.nan)
    before = 100.0 * usage[node, : len(RESOURCES)] / whole
    rows = np.array(pods, np.int64)
    after = before - 100.0 * load.relief[rows, : len(RESOURCES)] / whole
    narrowed = np.abs(before[0] - before[1]) - np.abs(after[:, 0] - after[:, 1])
    return np.asarray(np.nan_to_num(narrowed, nan=0.0), np.float64)


_MANY_PODS = 8  # so many are not chosen anew after each move


def relief_of(candidates: Sequence[Candidate], whole: FloatArray) -> FloatArray:
    """(candidates, resources) points of a node's allocatable, ``whole``, that leave with each of its pods."""
    if not candidates:
        return np.zeros((0, len(whole)))
    amounts = with_pods(np.array([item.relief for item in candidates]), 1.0)
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
        give_up: NotMoved | None = None,
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
        self.refused: dict[int, NotMoved] = dict.fromkeys(range(len(rows)), give_up) if give_up else {}
        self.moved = {at for at, row in enumerate(rows) if row in moved}
        self._hotness = prepared.hotness
        self._hot_above = prepared.hotness.hot_above[node]
        self.asked = prepared.policy.planning.least_relief if asked is None else asked
        self._chosen: list[int] = []  # the pods to move next, the first of them first
        self._fit_weight = prepared.policy.planning.weights.fit
        workloads = [prepared.eviction.workload(row) for row in rows]
        self._workloads, self._workload_members = _numbered([item.key for item in workloads])
        self._of_key = {item.key: item for item in workloads}
        self._namespaces, self._namespace_members = _numbered([prepared.pods.namespaces[row] for row in rows])

    def gain(self, percent: FloatArray) -> FloatArray:
        """(candidates,) points of excess that leave with each alone, at (resources,) percent of the node."""
        return self._hotness.removed(self.node, percent, self.relief)

    def least(self, percent: FloatArray) -> FloatArray:
        """(candidates,) points above coolTo that each must take away to be worth its cost."""
        rows = [at for at in range(len(self.candidates)) if at not in self.refused]
        price, least = 1.0 + self.cost, self.asked
        may_leave = self.relief[[at for at in rows if at not in self.moved]].sum(axis=0)
        above = self._hotness.above(self.node, percent) > NEGLIGIBLE
        cools = above & (percent - may_leave <= self._hot_above + NEGLIGIBLE)
        if cools.any():
            usual = usual_relief(self.relief[rows][:, cools].sum(axis=1), price[rows])
            least = least_relief(self.asked, usual)
        return np.asarray(least * price, np.float64)

    def worthwhile(self, percent: FloatArray) -> BoolArray:
        """(candidates,) which relieve enough for their cost; one that ends its node's being hot does."""
        need = self._hotness.above(self.node, percent)
        gain = relieved(self.relief, need)
        is_hot = bool(((percent > self._hot_above + NEGLIGIBLE) & (need > 0)).any())
        ends = is_hot & (gain >= float(need.sum()) - NEGLIGIBLE)
        return np.asarray((gain >= self.least(percent) - NEGLIGIBLE) | ends, np.bool_)

    def next(self, percent: FloatArray, used: UsedLimits) -> tuple[int, float, int] | None:
        """The pod to move next, the excess it removes at most, and with how many others; None when none.

        ``percent`` is (resources,) what of its allocatable the node uses.
        """
        need = self._hotness.above(self.node, percent)
        if not need.any():
            return None
        worthwhile = self.worthwhile(percent)
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
        if not self._suffices_still(rows, need, room, groups):
            found = pods_to_move(self.relief[rows], need, self._price[rows], room, groups, self._fit_weight)
            self._chosen = [open_rows[at] for at in found]
        if not self._chosen:
            return None
        first = self._chosen[0]
        return first, float(self.gain(percent)[first]), len(self._chosen)

    def _suffices_still(self, rows: IntArray, need: FloatArray, room: int, groups: Sequence[Group]) -> bool:
        """Whether the pods chosen before need not be chosen anew, which is slow for many pods.

        Those that have moved are left out; the others are all among ``rows``, which may leave, within the
        room that limits leave, and enough for the (resources,) points that are needed.
        """
        if len(self._chosen) <= _MANY_PODS:
            return False
        self._chosen = [at for at in self._chosen if at not in self.moved]
        among = np.isin(rows, self._chosen)
        counts = (np.bincount(group.members[among], minlength=len(group.room)) for group in groups)
        return (
            int(among.sum()) == len(self._chosen) <= room
            and all((count <= group.room).all() for count, group in zip(counts, groups, strict=True))
            and bool((self.relief[self._chosen].sum(axis=0) >= need - NEGLIGIBLE).all())
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
