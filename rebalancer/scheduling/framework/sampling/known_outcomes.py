"""Chances that were computed a moment ago, and from which of them a new search cannot differ.

A planner asks for one pod after another in states of the cluster that differ in a node or two: whether a
pod that was evicted is gone yet, for example. Only the best nodes of a sample win, so a node that is far
from the best before and after decides nothing. For each combination of extremes that a plugin may see, the
floor is the lowest total that had any part in the result; rows that stay below all floors leave it as it is,
to the last bit.

    totals        a 90, b 90, c 70, d 40; with a sample of three of them the floor is 70
    d becomes 55  below the floor before and after: the chances are those that are known
    d becomes 75  above the floor: computed anew
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework.scores import RawScores

_REMEMBERED = 2  # outcomes
_MAX_CHANGED = 64  # rows; with more of them some are likely to matter

Extremes = tuple[int, ...]  # smallest and largest of each plugin in turn


class Floors:
    """The lowest total that had a part in an outcome, by the extremes that it was computed with."""

    def __init__(self) -> None:
        self._lowest: dict[Extremes, int] = {}

    def add(self, extremes: Extremes, lowest: int) -> None:
        """Totals from ``lowest`` on had a part."""
        known = self._lowest.get(extremes)
        self._lowest[extremes] = lowest if known is None else min(known, lowest)

    def are_above(self, fixed: IntArray, varying: Sequence[RawScores], rows: IntArray) -> bool:
        """Whether rows are below every floor; ``fixed`` are the parts of their totals that do not vary."""
        raw = [item.raw[rows] for item in varying]
        for extremes, lowest in self._lowest.items():
            totals = fixed
            for item, values, smallest, largest in zip(
                varying, raw, extremes[::2], extremes[1::2], strict=True
            ):
                totals = totals + item.weighted(smallest, largest, values)
            if int(totals.max()) >= lowest:
                return False
        return True


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    fixed: IntArray
    varying: Sequence[RawScores]
    floors: Floors
    chance: FloatArray


class KnownOutcomes:
    """The latest outcomes of one search."""

    def __init__(self) -> None:
        self._latest: deque[_Outcome] = deque(maxlen=_REMEMBERED)

    def find(self, fixed: IntArray, varying: Sequence[RawScores]) -> FloatArray | None:
        """(feasible,) chances that these scores lead to as well; None where that is not known."""
        for known in self._latest:
            if len(known.varying) != len(varying) or not all(
                new.plugin is old.plugin and np.array_equal(new.raw, old.raw)
                for new, old in zip(varying, known.varying, strict=True)
            ):
                continue
            rows = (fixed != known.fixed).nonzero()[0]
            if not len(rows):
                return known.chance
            highest = np.maximum(fixed[rows], known.fixed[rows])
            if len(rows) <= _MAX_CHANGED and known.floors.are_above(highest, varying, rows):
                return known.chance
        return None

    def keep(self, fixed: IntArray, varying: Sequence[RawScores], floors: Floors, chance: FloatArray) -> None:
        """Remember an outcome; nobody may change its chances any more."""
        chance.flags.writeable = False
        self._latest.appendleft(_Outcome(fixed, varying, floors, chance))
