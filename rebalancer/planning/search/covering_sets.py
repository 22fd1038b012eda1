"""Which pods of a hot node to move: sets of few pods that just suffice and are cheap to restart.

Every set yielded cools the node, and would not without any one of its pods. Sets with fewer pods come first,
then cheaper ones, then those first by name. The number of sets considered is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray

MAX_SETS = 20_000  # looked at for each size
_MORE_PODS = 2  # how many pods more than the fewest a set may have
_ENOUGH = 1e-9  # points; floating-point error of sums


def covering_sets(
    relief: FloatArray, need: FloatArray, cost: FloatArray, fit_weight: float = 1.0
) -> Iterator[tuple[int, ...]]:
    """Rows of ``relief``, the largest relief of each set first.

    ``relief`` is (pods, resources) points that leave with each pod, ``need`` (resources,) points that must
    leave, ``cost`` (pods,) of moving each; ``fit_weight`` is the cost of a hundred points beyond the need.
    """
    wanted = need > 0
    relief, need = relief[:, wanted], need[wanted]
    if not len(need) or not len(relief) or not _enough(relief.sum(axis=0), need):
        return
    share = np.minimum(relief / need, 1.0).sum(axis=1)
    largest = np.argsort(-share, kind="stable")
    least = fewest(relief, need)
    for size in range(least, min(least + _MORE_PODS, len(relief)) + 1):
        yield from _of_size(relief, need, cost, largest, size, fit_weight)


def _enough(left: FloatArray, need: FloatArray) -> bool:
    return bool((left >= need - _ENOUGH).all())


def fewest(relief: FloatArray, need: FloatArray) -> int:
    """No set with fewer pods is enough: in some resource fewer of the largest do not suffice."""
    if not len(relief) or not (need > 0).any():
        return 0
    largest_first = -np.sort(-relief, axis=0)
    enough = np.cumsum(largest_first, axis=0) >= need - _ENOUGH
    return int(enough.argmax(axis=0).max()) + 1


def _combinations(count: int, size: int) -> IntArray:
    """(combinations, size) ascending numbers below ``count``, in lexicographic order."""
    rows = np.arange(count - size + 1)[:, None]
    for length in range(2, size + 1):
        last = rows[:, -1]
        follow = count - size + length - 1 - last  # how many numbers may come next
        rows = rows.repeat(follow, axis=0)
        step = np.arange(len(rows)) - (follow.cumsum() - follow).repeat(follow)
        rows = np.column_stack([rows, rows[:, -1] + 1 + step])
    return rows


def _of_size(
    relief: FloatArray, need: FloatArray, cost: FloatArray, largest: IntArray, size: int, fit_weight: float
) -> Iterator[tuple[int, ...]]:
    """Sets of one size, the cheapest first, of the pods that relieve most where there are too many sets."""
    considered = len(largest)
    while considered > size and math.comb(considered, size) > MAX_SETS:
        considered -= 1
    among = largest[:considered]
    sets = among[_combinations(considered, size)]  # (sets, size), largest relief first
    total = relief[sets].sum(axis=1)
    enough = (total >= need - _ENOUGH).all(axis=1)
    sets, total = sets[enough], total[enough]
    spare = np.zeros(len(sets), np.bool_)
    for position in range(size):
        without = total - relief[sets[:, position]]
        spare |= (without >= need - _ENOUGH).all(axis=1)
    sets, total = sets[~spare], total[~spare]
    beyond = np.maximum(total - need, 0.0).sum(axis=1) / 100.0
    price = np.round(cost[sets].sum(axis=1) + fit_weight * beyond, 9)
    for at in np.lexsort((*np.sort(sets, axis=1).T[::-1], price)).tolist():
        yield tuple(sets[at].tolist())
