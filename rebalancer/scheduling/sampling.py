"""Where a pod lands when the scheduler looks at a sample of the nodes only (scoring-model.md §1.2, §1.3).

From 100 nodes on the scheduler stops once it has found enough feasible nodes, starting where the last
search ended. The start is unknown, so every start counts alike: the landing is a distribution, exact for a
uniform start. Among equal totals each node counts alike, because the order the scheduler finds them in
is a race between its workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rebalancer.cluster.nodes import FloatArray, IntArray
from rebalancer.scheduling.framework import Normalization
from rebalancer.scheduling.raw_scores import RawScores
from rebalancer.scheduling.windows import share_among_best, sliding_maximum

_ALL_ARE_LOOKED_AT = 100
_MOST_AT_ONCE = 1 << 17  # places
# Differences of sums leave dust where the chance is none; a real one is at least 1 ÷ nodes².
_DUST = 1e-13


def nodes_to_find(candidates: int, percentage: int) -> int:
    """How many feasible nodes end the search; ``percentage`` 0 means the scheduler's own choice."""
    if candidates < _ALL_ARE_LOOKED_AT:
        return candidates
    if percentage == 0:
        percentage = max(5, 50 - candidates // 125)
    return max(_ALL_ARE_LOOKED_AT, candidates * percentage // 100) if percentage < 100 else candidates


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
    return sliding_maximum(np.concatenate([values, values[: width - 1]]), width)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Windows one after another in which every plugin sees the same extremes."""

    first: int
    end: int
    extremes: tuple[int, ...]  # smallest and largest of each plugin in turn


def _stretches(scores: Sequence[RawScores], count: int, width: int) -> list[_Stretch]:
    """All windows, in order, divided where the extremes of a plugin's raw scores change."""
    found: list[tuple[IntArray | int, int]] = []
    for item in scores:
        smallest, largest = item.extremes()
        found.append((_window_extreme(item.negated, -smallest, width), -1))
        found.append((_window_extreme(item.raw, largest, width), 1))
    edges = {0, count}
    for values, _ in found:
        if not isinstance(values, int):
            edges.update(((values[1:] != values[:-1]).nonzero()[0] + 1).tolist())

    def at(first: int) -> tuple[int, ...]:
        return tuple(
            sign * (values if isinstance(values, int) else int(values[first])) for values, sign in found
        )

    return [_Stretch(first, end, at(first)) for first, end in pairwise(sorted(edges))]


class _Search:
    """A search of unknown start over the feasible nodes, in the order in which it finds them."""

    def __init__(
        self, fixed: IntArray, varying: Sequence[RawScores], weights: FloatArray, width: int
    ) -> None:
        """``fixed`` is the part of the totals that no sample changes; ``weights`` are by window."""
        self._count = len(fixed)
        self._width = width
        self._weights = weights
        self._fixed = np.concatenate([fixed, fixed[: width - 1]])
        self._varying = [(item, np.concatenate([item.raw, item.raw[: width - 1]])) for item in varying]

    def _totals(self, stretch: _Stretch) -> IntArray:
        """The totals of the places that the windows of a stretch look at."""
        reach = slice(stretch.first, stretch.end + self._width - 1)
        totals = self._fixed[reach]
        extremes = stretch.extremes
        for (item, raw), smallest, largest in zip(self._varying, extremes[::2], extremes[1::2], strict=True):
            totals = totals + item.weighted(smallest, largest, raw[reach])
        return totals

    def share(self, stretches: Sequence[_Stretch], chance: FloatArray) -> None:
        """Add the chances of some stretches' windows to their best nodes, by place.

        The stretches are laid end to end; a window across an end is none, and has no chance.
        """
        gap = np.zeros(self._width - 1)
        weights = [np.zeros(1)]
        for item in stretches:
            weights += (self._weights[item.first : item.end], gap)
        cumulated = np.concatenate(weights[:-1]).cumsum()
        totals = np.concatenate([self._totals(item) for item in stretches])
        places, shares = share_among_best(totals, cumulated, self._width)
        lengths = np.array([item.end - item.first + self._width - 1 for item in stretches])
        ends = lengths.cumsum()
        shift = np.array([item.first for item in stretches]) - ends + lengths
        places = (places + shift[ends.searchsorted(places, side="right")]) % self._count
        chance += np.bincount(places, weights=shares, minlength=self._count)


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
        if item.is_constant:
            continue  # changes no comparison
        if item.plugin.normalization is Normalization.NONE or feasible <= limit:
            fixed += item.weighted_by_all
        else:
            varying.append(item if order is None else item.reordered(order))
    fixed = fixed if order is None else fixed.take(order)
    if feasible <= limit:
        best = fixed == fixed.max()
        chance[best] = 1.0 / np.count_nonzero(best)
        return chance
    search = _Search(fixed, varying, _start_weights(positions, candidates), limit)
    at_once: list[_Stretch] = []
    length = 0
    for stretch in _stretches(varying, feasible, limit):
        at_once.append(stretch)
        length += stretch.end - stretch.first + limit
        if length > _MOST_AT_ONCE:
            search.share(at_once, chance)
            at_once, length = [], 0
    if at_once:
        search.share(at_once, chance)
    chance[chance < _DUST] = 0.0
    return chance
