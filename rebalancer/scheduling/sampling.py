"""Where a pod lands when the scheduler looks at a sample of the nodes only (scoring-model.md §1.2, §1.3).

From 100 nodes on the scheduler stops once it has found enough feasible nodes, starting where the last
search ended. The start is unknown, so every start counts alike: the landing is a distribution, exact for a
uniform start. Among equal totals each node counts alike, because the order the scheduler finds them in
is a race between its workers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rebalancer.cluster.nodes import FloatArray, IntArray
from rebalancer.scheduling.framework import APART, Normalization, Plugin

_ALL_ARE_LOOKED_AT = 100
_LARGEST_TABLE = 1 << 20
_AT_FIRST = 4  # contenders a window
# Differences of sums leave dust where the chance is none; a real one is at least 1 ÷ nodes².
_DUST = 1e-13


def nodes_to_find(candidates: int, percentage: int) -> int:
    """How many feasible nodes end the search; ``percentage`` 0 means the scheduler's own choice."""
    if candidates < _ALL_ARE_LOOKED_AT:
        return candidates
    if percentage == 0:
        percentage = max(5, 50 - candidates // 125)
    return max(_ALL_ARE_LOOKED_AT, candidates * percentage // 100) if percentage < 100 else candidates


class RawScores:
    """One plugin's raw scores over the feasible nodes, and how they become part of the total."""

    __slots__ = ("_extremes", "_weighted", "plugin", "raw", "weight")

    def __init__(self, plugin: Plugin, weight: int, raw: IntArray) -> None:
        """``raw`` is by feasible node."""
        self.plugin = plugin
        self.weight = weight
        self.raw = raw
        self._extremes: tuple[int, int] | None = None
        self._weighted: IntArray | None = None

    def weighted(self, smallest: int, largest: int) -> IntArray:
        """(feasible,) the plugin's part of the total."""
        return self.weight * self.plugin.normalize(self.raw, smallest, largest)

    @property
    def weighted_by_all(self) -> IntArray:
        """(feasible,) the plugin's part of the total when all feasible nodes are compared."""
        if self._weighted is None:
            self._weighted = self.weighted(*self.extremes())
        return self._weighted

    def extremes(self) -> tuple[int, int]:
        """Smallest and largest raw score of the feasible nodes that take part."""
        if self._extremes is None:
            smallest, largest = int(self.raw.min()), int(self.raw.max())
            if smallest == APART:
                smallest = -int(self.negated.max())
            self._extremes = smallest, largest
        return self._extremes

    @property
    def is_constant(self) -> bool:
        """Whether all raw scores are the same, so that every sample has the same extremes."""
        smallest, largest = self.extremes()
        return smallest == largest and int(self.raw[0]) == smallest and bool((self.raw == smallest).all())

    @property
    def negated(self) -> IntArray:
        """(feasible,) −raw, whose maximum is the smallest raw score of the nodes that take part."""
        return np.where(self.raw == APART, -np.iinfo(np.int64).max, -self.raw)

    def reordered(self, order: IntArray) -> RawScores:
        """The same scores with the nodes in another order."""
        twin = RawScores(self.plugin, self.weight, self.raw[order])
        twin._extremes = self._extremes
        return twin


def sliding_maximum(values: IntArray, width: int) -> IntArray:
    """(n,) the largest of ``width`` consecutive values from each position on, going round."""
    count = len(values)
    around = np.concatenate([values, values[: width - 1]])
    padding = -len(around) % width
    blocks = np.concatenate([around, np.full(padding, np.iinfo(np.int64).min)]).reshape(-1, width)
    forward = np.maximum.accumulate(blocks, axis=1).ravel()
    backward = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    return np.maximum(backward[:count], forward[width - 1 : width - 1 + count])


def _start_weights(positions: IntArray, candidates: int) -> FloatArray:
    """(feasible,) the share of starts from which each feasible node is the first one found."""
    gaps = np.empty(len(positions))
    gaps[0] = positions[0] - positions[-1] + candidates
    gaps[1:] = positions[1:] - positions[:-1]
    return gaps / candidates


def _is_everywhere(places: IntArray, count: int, width: int) -> bool:
    """Whether every window of ``width`` consecutive places of ``count``, going round, holds one of these."""
    if not len(places):
        return False
    widest = count - int(places[-1]) + int(places[0])
    if len(places) > 1:
        widest = max(widest, int((places[1:] - places[:-1]).max()))
    return widest <= width


def _window_extreme(values: IntArray, largest: int, width: int) -> IntArray | int:
    """(n,) the largest value of each window; a number when it is the same for all."""
    if _is_everywhere((values == largest).nonzero()[0], len(values), width):
        return largest
    return sliding_maximum(values, width)


def _numbered(values: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct values, and which of them each is."""
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    if span > _LARGEST_TABLE:
        distinct, which = np.unique(values, return_inverse=True)
        return distinct, which.ravel()
    offsets = values - lowest
    present = np.zeros(span, np.bool_)
    present[offsets] = True
    numbers = np.cumsum(present) - 1
    return np.flatnonzero(present) + lowest, numbers[offsets]


def _contexts(scores: Sequence[RawScores], width: int) -> tuple[list[list[int]], IntArray | None]:
    """Distinct extremes of the raw scores over the windows, and which of them each window has.

    Smallest and largest for each of ``scores`` in turn; None when all windows have the same.
    """
    combinations: list[list[int]] = [[]]
    which: IntArray | None = None
    for item in scores:
        smallest, largest = item.extremes()
        for values, extreme, sign in ((item.negated, -smallest, -1), (item.raw, largest, 1)):
            found = _window_extreme(values, extreme, width)
            if isinstance(found, int):
                combinations = [[*known, sign * found] for known in combinations]
                continue
            distinct, number = _numbered(found)
            joined = number if which is None else which * len(distinct) + number
            used, which = _numbered(joined)
            combinations = [
                [*combinations[index // len(distinct)], sign * int(distinct[index % len(distinct)])]
                for index in used.tolist()
            ]
    return combinations, which


def _contenders(totals: IntArray, width: int) -> IntArray:
    """Places of totals so high that every window holds one of them: the others are never chosen."""
    lowest = int(totals.min())
    counts = np.bincount(totals - lowest)
    at_least = counts[::-1].cumsum()[::-1]  # how many totals are this high or higher
    wanted = _AT_FIRST * (1 + len(totals) // width)
    while True:
        # The highest level that this many reach.
        level = int(np.searchsorted(-at_least, -wanted, side="right")) - 1
        if level <= 0:
            return np.arange(len(totals))
        places = (totals >= level + lowest).nonzero()[0]
        if _is_everywhere(places, len(totals), width):
            return places
        wanted = max(2 * wanted, len(places) + 1)


def _share_among_best(totals: IntArray, cumulated: FloatArray, width: int, chance: FloatArray) -> None:
    """Add the chance of each window to the nodes of highest total in it, equal shares to equal ones.

    ``cumulated`` sums the chances of the windows: the i-th is that of those before i. Only the contenders
    matter, and all windows between two edges, where a contender enters or leaves, hold the same of them: they
    are taken together as a run.
    """
    count = len(totals)
    contenders = _contenders(totals, width)
    of_contenders = totals[contenders]
    enters, leaves = (contenders - width + 1) % count, contenders + 1
    edge = np.zeros(count + 1, np.bool_)
    edge[[0, count]] = True
    edge[enters] = True
    edge[leaves] = True
    begins = edge.nonzero()[0]
    run = edge.cumsum() - 1  # by window: the run it begins or lies in
    weights = cumulated[begins[1:]] - cumulated[begins[:-1]]
    runs = len(weights)
    first_run, last_run = run[enters], run[leaves]
    in_first_window = contenders < width
    sums = np.zeros(runs + 1)
    for level in np.unique(of_contenders)[::-1].tolist():
        # Runs with a weight left hold no higher level: what they hold this high or higher is of this one.
        high = of_contenders >= level
        change = np.bincount(first_run[high], minlength=runs + 1) - np.bincount(
            last_run[high], minlength=runs + 1
        )
        change[0] = np.count_nonzero(in_first_window & high)
        held = change[:-1].cumsum()
        np.cumsum(np.where(held > 0, weights / np.maximum(held, 1), 0.0), out=sums[1:])
        here = of_contenders == level
        places = contenders[here]
        each = sums[last_run[here]] - sums[first_run[here]]
        each[places < width - 1] += sums[-1]  # those windows begin before the end and go round
        each[each < _DUST] = 0.0
        chance[places] += each
        weights[held > 0] = 0.0
        if not weights.any():
            return


def landing_chances(
    scores: Sequence[RawScores],
    positions: IntArray,
    candidates: int,
    limit: int,
    order: IntArray | None = None,
) -> FloatArray:
    """(feasible,) the chance of each feasible node to be chosen, in the order of ``positions``.

    ``positions`` are the places of the feasible nodes in the scheduler's node order, ascending; ``limit`` the
    number of feasible nodes that ends the search. ``order`` brings scores into that order, if they are not.
    """
    feasible = len(positions)
    chance = np.zeros(feasible, np.float64)
    fixed = np.zeros(feasible, np.int64)
    varying: list[RawScores] = []
    for item in scores:
        if item.plugin.normalization is Normalization.NONE or feasible <= limit or item.is_constant:
            fixed += item.weighted_by_all
        else:
            varying.append(item if order is None else item.reordered(order))
    fixed = fixed if order is None else fixed[order]
    if feasible <= limit:
        best = fixed == fixed.max()
        chance[best] = 1.0 / np.count_nonzero(best)
        return chance
    weights = _start_weights(positions, candidates)
    combinations, which = _contexts(varying, limit)
    for index, extremes in enumerate(combinations):
        totals = fixed.copy()
        for item, smallest, largest in zip(varying, extremes[::2], extremes[1::2], strict=True):
            totals += item.weighted(smallest, largest)
        cumulated = np.zeros(feasible + 1)
        np.cumsum(weights if which is None else np.where(which == index, weights, 0.0), out=cumulated[1:])
        _share_among_best(totals, cumulated, limit, chance)
    return chance
