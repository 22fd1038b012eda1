"""Which pods of a hot node to move: the fewest that suffice and, of those, the cheapest.

Pure arithmetic: nothing is placed here. A pod is picked if the node can still be relieved with as few pods as
possible after it; among such pods the cheapest one is picked, and the last pod is the one that fits best.
Where no pods suffice, or limits allow too few, the pods that remove most come first.

    need 25 points     pods 22, 13, 13, 12.5 of costs 2, 0, 0, 0.1: two pods are enough, as 22 + 13 >= 25
    pick 13            the cheapest with which one more pod can suffice (22 or 12.5); 12 points are left
    pick 12.5          the cheapest that is enough: the expensive pod of 22 points stays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray

NEGLIGIBLE = 1e-9  # points; floating-point error of sums
_MORE_PODS = 2  # how many pods more than the bound of each resource alone a set may have


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Pods that share a limit, such as those of one namespace."""

    members: IntArray  # (pods,) the number of the group of each pod
    room: IntArray  # (groups,) how many of its pods may still leave


def removed(relief: FloatArray, need: FloatArray) -> FloatArray:
    """(pods,) points of ``need`` that each pod removes alone; ``relief`` is (pods, resources) points."""
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
    gain = removed(relief, need)
    return sorted(_needed(relief, need, chosen), key=lambda at: (-gain[at], cost[at], at))


def _usable(relief: FloatArray, left: FloatArray, chosen: list[int], groups: Sequence[Group]) -> BoolArray:
    """(pods,) which may still be picked and would remove something."""
    usable = np.asarray(removed(relief, left) > NEGLIGIBLE, np.bool_)
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
    gain = removed(relief, left)
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
