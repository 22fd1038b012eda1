"""Where a pod lands when the scheduler looks at a sample of the nodes only (scoring-model.md §1.2, §1.3).

From 100 nodes on the scheduler stops once it has found enough feasible nodes, starting where the last
search ended. The start is unknown, so every start counts alike: the landing is a distribution, exact for a
uniform start. Among equal totals each node counts alike, because the order the scheduler finds them in
is a race between its workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.nodes import FloatArray, IntArray
from rebalancer.scheduling.framework import APART, Normalization, Plugin

_ALL_ARE_LOOKED_AT = 100


def nodes_to_find(candidates: int, percentage: int) -> int:
    """How many feasible nodes end the search; ``percentage`` 0 means the scheduler's own choice."""
    if candidates < _ALL_ARE_LOOKED_AT:
        return candidates
    if percentage == 0:
        percentage = max(5, 50 - candidates // 125)
    return max(_ALL_ARE_LOOKED_AT, candidates * percentage // 100) if percentage < 100 else candidates


@dataclass(frozen=True, slots=True, eq=False)
class RawScores:
    """One plugin's raw scores over the feasible nodes, and how they become part of the total."""

    plugin: Plugin
    weight: int
    raw: IntArray  # (feasible,)

    def weighted(self, smallest: int, largest: int) -> IntArray:
        """(feasible,) the plugin's part of the total."""
        return self.weight * self.plugin.normalize(self.raw, smallest, largest)

    def extremes(self) -> tuple[int, int]:
        """Smallest and largest raw score of all feasible nodes."""
        return -int(self.negated.max()), int(self.raw.max())

    @property
    def negated(self) -> IntArray:
        """(feasible,) −raw, whose maximum is the smallest raw score of the nodes that take part."""
        return np.where(self.raw == APART, -np.iinfo(np.int64).max, -self.raw)


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
    gaps = np.diff(positions, prepend=positions[-1] - candidates)
    return gaps / candidates


def _contexts(scores: Sequence[RawScores], width: int) -> tuple[IntArray, IntArray]:
    """Distinct extremes of the raw scores over the windows, and which of them each window has."""
    columns: list[IntArray] = []
    for item in scores:
        if item.plugin.normalization is Normalization.NONE:
            continue
        columns.append(-sliding_maximum(item.negated, width))
        columns.append(sliding_maximum(item.raw, width))
    if not columns:
        return np.zeros((1, 0), np.int64), np.zeros(len(scores[0].raw) if scores else 0, np.int64)
    distinct, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return distinct, which.ravel()


def _totals(scores: Sequence[RawScores], extremes: IntArray, feasible: int) -> IntArray:
    total = np.zeros(feasible, np.int64)
    pairs = iter(extremes.tolist())
    for item in scores:
        if item.plugin.normalization is Normalization.NONE:
            total += item.weighted(0, 0)
        else:
            total += item.weighted(next(pairs), next(pairs))
    return total


def _share_among_best(
    totals: IntArray, windows: IntArray, best: IntArray, weights: FloatArray, width: int, chance: FloatArray
) -> None:
    """Add the chance of each window to the nodes of highest total in it."""
    count = len(totals)
    for value in np.unique(best):
        members = np.flatnonzero(totals == value)
        around = np.concatenate([members, members + count])
        starts = windows[best == value]
        first = np.searchsorted(around, starts)
        last = np.searchsorted(around, starts + width)
        share = weights[starts] / (last - first)
        steps = np.bincount(first, share, len(around) + 1) - np.bincount(last, share, len(around) + 1)
        each = np.cumsum(steps)[: len(around)]
        # Differences of floats leave dust where the chance is none.
        inside = np.cumsum(
            np.bincount(first, minlength=len(around) + 1) - np.bincount(last, minlength=len(around) + 1)
        )
        each[inside[: len(around)] == 0] = 0.0
        np.add.at(chance, around % count, each)


def landing_chances(
    scores: Sequence[RawScores], positions: IntArray, candidates: int, limit: int
) -> FloatArray:
    """(feasible,) the chance of each feasible node to be chosen.

    ``positions`` are the places of the feasible nodes in the scheduler's node order, ascending; ``limit`` the
    number of feasible nodes that ends the search.
    """
    feasible = len(positions)
    chance = np.zeros(feasible, np.float64)
    if feasible <= limit:
        total = np.zeros(feasible, np.int64)
        for item in scores:
            total += item.weighted(*item.extremes())
        best = total == total.max()
        chance[best] = 1.0 / np.count_nonzero(best)
        return chance
    weights = _start_weights(positions, candidates)
    distinct, which = _contexts(scores, limit)
    if not scores:
        which = np.zeros(feasible, np.int64)
    for index, extremes in enumerate(distinct):
        windows = np.flatnonzero(which == index)
        totals = _totals(scores, extremes, feasible)
        best = sliding_maximum(totals, limit)[windows]
        _share_among_best(totals, windows, best, weights, limit, chance)
    return chance
