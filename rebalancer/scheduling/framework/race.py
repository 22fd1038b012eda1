"""Which nodes win the samples of several workers, and with which chance.

Only the best nodes can win, so only they are followed: so many that about a dozen of them are in most
samples. Neighbours may all be missing: then the next best are followed in turn. For each draw (see ``draws``)
each of them is in the sample if it was looked at before enough nodes were found. The best one that is there
wins; among equal totals each is equally likely.

A draw is not the race that will happen. Nodes looked at about when the search ends may be in the sample or
not; and any worker may be interrupted, so a node is missing, or there, against all expectation with a small
chance. So being in a sample is a probability, and the second and third best keep a chance of their own:

    total   in the sample   the nodes above are not   wins
    90      0.997           1                         0.997
    80      0.5             0.003                     0.0015
    70      0.997           0.0015                    0.0015
    60      0.997           0.0000045                 0.0000045

Some hundred draws do not show what happens once in ten thousand searches, such as a sample without any of the
thirty best nodes. So a small share of races is taken to find any nodes at all, each with the same chance:
that bounds how good a node must be to be a possible landing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.scheduling.framework.draws import BEST_IN_SAMPLE, Draws
from rebalancer.scheduling.framework.scores import RawScores

_MIN_CHANCE = 1e-7  # less is left out: it would be seen once in ten million searches
_MAX_COUNTED = 1 << 16  # feasible nodes times draws: what is looked at to find the ends of the searches
_LEAST_COUNTED = 256  # feasible nodes that are, however many draws there are
_MOST_FOLLOWED = 2  # times as many as wanted, where totals are equal
_MIN_LEFT = 1e-5  # the chance of draws without a winner that are not followed any further
_PARTS = 3  # in which the best nodes are looked at, unless so few numbers are looked at together
_MAX_TOGETHER = 1 << 12
_FEW = 20  # draws that are less than one in so many
_CROWD = 2 / 3  # of the nodes that are followed: one of so many is in most samples
_SCATTERED_LATER = 0.01  # the same of those that find none of the nodes so far; see ``Draws.scattered``
_MOST_LOOKED_AT = 8  # parts of so many, each with a third of the nodes that are followed
_MAX_EXTREMES = 8  # combinations of the extremes of samples that are kept apart
_WIDE = 4  # times as many columns as rows
_PAIRWISE = 8  # numbers; NumPy adds up more of them in pairs
_REMEMBERED = 16  # outcomes: those of eight scenarios, in two states each
_SPREAD_OUT = 4  # times as far from the least value to the most as there are values
_LOOKED_AT, _MARGIN = 200, 4  # values that tell about where the best ones begin, and how many more of these
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

    def reached(self, fixed: IntArray, varying: Sequence[RawScores], rows: IntArray) -> BoolArray:
        """(rows,) at or above a floor; ``fixed`` are the parts of their totals that do not vary."""
        raw = [item.raw[rows] for item in varying]
        reached = np.zeros(len(rows), np.bool_)
        for extremes, lowest in self._lowest.items():
            totals = fixed
            for item, values, smallest, largest in zip(
                varying, raw, extremes[::2], extremes[1::2], strict=True
            ):
                totals = totals + item.weighted(smallest, largest, values)
            reached |= totals >= lowest
        return reached


class _Outcome(msgspec.Struct, frozen=True, eq=False):
    fixed: IntArray
    compared: object
    floors: Floors
    chance: FloatArray


class KnownOutcomes:
    """The latest outcomes of one search, and from which of them a new search cannot differ.

    A planner asks for one pod after another in states of the cluster that differ in a node or two: whether a
    pod that was evicted is gone yet, for example. Only the best nodes of a sample win, so a node that is far
    from the best before and after decides nothing. For each combination of extremes that a plugin may see,
    the floor is the lowest total that had any part in the result; rows that stay below all floors leave it as
    it is, to the last bit.

        totals        a 90, b 90, c 70, d 40; with a sample of three of them the floor is 70
        d becomes 55  below the floor before and after: the chances are those that are known
        d becomes 75  above the floor: computed anew
    """

    def __init__(self) -> None:
        self._latest: deque[_Outcome] = deque(maxlen=_REMEMBERED)

    def find(self, fixed: IntArray, compared: object, varying: Sequence[RawScores]) -> FloatArray | None:
        """(feasible,) chances that these scores lead to as well; None where that is not known.

        ``varying`` are the scores that a sample changes; ``compared`` is one object for all that are equal.
        """
        for known in self._latest:
            if known.compared is not compared:
                continue
            rows = (fixed != known.fixed).nonzero()[0]
            if not len(rows):
                return known.chance
            if len(rows) > _MAX_CHANGED:
                continue
            highest = np.maximum(fixed[rows], known.fixed[rows])
            if not known.floors.reached(highest, varying, rows).any():
                return known.chance
        return None

    def keep(self, fixed: IntArray, compared: object, floors: Floors, chance: FloatArray) -> None:
        """Remember an outcome; nobody may change its chances any more."""
        chance.flags.writeable = False
        self._latest.appendleft(_Outcome(fixed, compared, floors, chance))


class Kind(msgspec.Struct, frozen=True, eq=False):
    """Draws in whose samples every plugin sees the same extremes."""

    extremes: Extremes
    scores: IntArray  # (feasible,) or one for all: what the plugins add to totals that compare nodes
    draws: IntArray | None  # None: all there are
    weight: FloatArray  # (draws,)
    ends: FloatArray  # (draws,) when the search ends


class Race:
    """A search of several workers over the nodes; it ends once they have found a number of feasible ones."""

    def __init__(self, places: IntArray, draws: Draws, limit: int, found: IntArray | None = None) -> None:
        """``places`` are those of the feasible nodes, by which ``draws`` say when each is looked at.

        ``found`` are those that end the search, more than ``limit``; None: the same. Extenders reject others.
        """
        found = places if found is None else found
        self._places, self._every, self._limit, self._draws = places, found, limit, draws
        ends = self._counted() if len(found) < len(draws.times) else draws.ends
        # The last node that is found, and the next one, are in the sample or not, by the time of half a node.
        self._ends = ends + draws.between / 2 + 0.5
        self._rows = -(-BEST_IN_SAMPLE * len(found) // limit)
        self._found = limit / len(found)

    def _counted(self) -> FloatArray:
        """(draws,) when enough feasible nodes were found; of many nodes about when, by some of them."""
        step = -(-len(self._every) // max(_MAX_COUNTED // len(self._draws.weight), _LEAST_COUNTED))
        times = self._draws.times[np.sort(self._every)[::step]]
        # Each of them stands for those before and after it in its step.
        last = min(max(round((self._limit - (step + 1) / 2) / step), 0), len(times) - 1)
        return np.asarray(np.partition(np.ascontiguousarray(times.T), last, axis=1)[:, last], np.float32)

    def share_of_sizes(self, least: int, most: int, sizes: range) -> float:
        """The chance that so many feasible nodes are in the sample, of ``sizes`` that are possible."""
        inside = self._sizes.clip(sizes[0], sizes[-1])
        share = float(self._draws.weight[(inside >= least) & (inside <= most)].sum())
        return (1.0 - self._draws.scattered) * share + self._draws.scattered * (most - least + 1) / len(sizes)

    @cached_property
    def _sizes(self) -> IntArray:
        """(draws,) how many feasible nodes are in each sample."""
        ends = np.partition(self._draws.times[self._every], self._limit - 1, axis=0)[self._limit - 1]
        return np.asarray(np.count_nonzero(self._draws.times[self._places] <= ends, axis=0))

    def kinds(self, varying: Sequence[RawScores]) -> list[Kind]:
        """The draws, by the extremes of their samples, for scores that are normalised by these."""
        changing = [pair for item in varying for pair in self._changing_extremes(item)]
        if not changing:
            extremes = tuple(value for item in varying for value in item.extremes())
            added = sum((item.weighted_by_all for item in varying), np.zeros(1, np.int64))
            return [Kind(extremes, added, None, self._draws.weight, self._ends)]
        kinds = []
        for pairs, draws in self._by_extremes(varying, changing):
            extremes = tuple(value for pair in pairs for value in pair)
            added = np.zeros(1, np.int64)
            for item, (smallest, largest) in zip(varying, pairs, strict=True):
                added = added + item.weighted(smallest, largest)
            kinds.append(Kind(extremes, added, draws, self._draws.weight[draws], self._ends[draws]))
        return kinds

    def chances(self, fixed: IntArray, kinds: Sequence[Kind], floors: Floors) -> FloatArray:
        """(feasible,) the chance of each node to be chosen.

        ``fixed`` is the part of the totals that no sample changes; ``kinds`` are those of the scores that one
        does. The lowest totals that have a part are added to ``floors``.
        """
        chance = np.zeros(len(self._places))
        for kind in kinds:
            floors.add(kind.extremes, self._share(fixed + kind.scores, kind, chance))
        chance[chance < _MIN_CHANCE] = 0.0
        return np.asarray(chance / chance.sum(), np.float64)

    def _changing_extremes(self, item: RawScores) -> Iterator[tuple[RawScores, int]]:
        """The sides, 0 smallest and 1 largest, on which the extreme of a plugin may miss in a sample."""
        for side, extreme in enumerate(item.extremes()):
            rows = (item.raw == extreme).nonzero()[0]
            if len(rows) < self._rows * _CROWD or self._without(rows, None, self._ends).any():
                yield item, side

    def _by_extremes(
        self, varying: Sequence[RawScores], changing: Sequence[tuple[RawScores, int]]
    ) -> Iterator[tuple[list[tuple[int, int]], IntArray]]:
        """The extremes of every plugin, and the draws whose samples have them.

        Where there are many, the draws of the rarest are taken to have the most frequent ones.
        """
        places = [(varying.index(item), side) for item, side in changing]
        kinds, kind_index = _most_frequent([self._extreme(item, side) for item, side in changing])
        for index, kind in enumerate(kinds):
            extremes = [list(item.extremes()) for item in varying]
            for (at, side), value in zip(places, kind, strict=True):
                extremes[at][side] = value
            yield [(smallest, largest) for smallest, largest in extremes], (kind_index == index).nonzero()[0]

    def _extreme(self, item: RawScores, side: int) -> IntArray:
        """(draws,) the smallest or the largest raw score of each sample."""
        values = item.raw if side else item.negated(item.raw)
        extremes = np.full(len(self._ends), values.min())
        others = np.arange(len(extremes))
        for rows, best, _ in _ranked(values, int(self._rows * _CROWD)):
            ends = self._ends[others]
            if best[0] == best[-1]:
                without = self._without(rows, others, ends)
                extremes[others[~without]] = best[0]
            else:
                inside = self._times(rows, others) < ends - 0.5
                without = np.asarray(~inside.any(axis=0))
                extremes[others[~without]] = best[inside.argmax(axis=0)[~without]]
            others = others[without]
            if not len(others):
                break
        return extremes if side else -extremes

    def _without(self, rows: IntArray, draws: IntArray | None, ends: FloatArray) -> BoolArray:
        """(draws,) none of many equal nodes is in the sample: of nodes that are neighbours all may miss.

        A few, evenly spread, tell it of most draws; others are looked at for those that have none of them.
        """
        without = np.ones(len(ends), np.bool_)
        step = max(len(rows) * _PARTS // self._rows, 1)
        for begin in range(min(step, _MOST_LOOKED_AT)):
            left = without.nonzero()[0]
            if not len(left):
                break
            inside = self._times(rows[begin::step], left if draws is None else draws[left]) < ends[left] - 0.5
            without[left] = ~inside.any(axis=0)
        return without

    def _times(self, rows: IntArray, draws: IntArray | None = None) -> FloatArray:
        """(rows, draws) when each node is looked at, in some draws or in all."""
        times = self._draws.times.take(self._places[rows], axis=0)
        return times if draws is None else times.take(draws, axis=1)  # faster than both at once

    def _share(self, totals: IntArray, kind: Kind, chance: FloatArray) -> int:
        """Add the chances of draws of a kind to the nodes that win them; the lowest of their totals."""
        draws, weight, ends, followed = kind.draws, kind.weight, kind.ends, self._rows
        if draws is not None and len(draws) * _FEW < len(self._ends):
            followed = max(followed // _PARTS, 1)  # what they may still miss is next to nothing
        left = np.ones_like(weight)  # the chance that no node so far is in the sample
        share, again = self._draws.scattered, 0.0
        scattered = 0.0  # the chance of scattered samples without any node so far
        for rows, best, lowest in _ranked(totals, followed):
            levels = np.array([0, *((best[1:] != best[:-1]).nonzero()[0] + 1).tolist(), len(rows)])
            is_crowd = len(levels) == 2 and len(rows) >= followed * _CROWD
            if not is_crowd:
                scattered += share * float(_weighed(left, weight))
                weight, share = (1.0 - share) * weight, 0.0
                found = scattered * self._scattered(levels)
                chance[rows] += found
                scattered -= float(found.sum())
                if not weight.any():
                    return lowest
            begins = levels.tolist()
            begin = level = 0
            while begin < len(rows):
                # Nodes of equal total are handled together, and draws that have a winner not any further.
                together = max(len(rows) // _PARTS, _MAX_TOGETHER // len(weight))
                following = max(bisect_left(begins, min(begin + together, len(rows))), level + 1)
                end, before = begins[following], left
                part = rows[begin:end]
                if is_crowd:
                    left = before * self._without(rows, draws, ends)
                    every = float(_weighed(before, weight))
                    with_one = float(_weighed(before - left, weight)) / every
                    chance[rows] += with_one * (every + scattered) / len(rows)
                    scattered *= 1.0 - with_one
                else:
                    within = levels[level : following + 1] - begin
                    if again:
                        chance[part] += again * float(_weighed(left, weight)) * self._scattered(within)
                        weight = (1.0 - again) * weight
                    won, left = self._won(part, draws, ends, within, before)
                    chance[part] += _weighed(won, weight)
                again = _SCATTERED_LATER
                open_draws = (left > _MIN_LEFT).nonzero()[0]
                if not len(open_draws):
                    return lowest
                if len(open_draws) < len(left):
                    draws = open_draws if draws is None else draws[open_draws]
                    left, weight, ends = left[open_draws], weight[open_draws], ends[open_draws]
                begin, level = end, following
        chance[rows] += float(_weighed(left, weight)) / len(rows)
        return lowest

    def _scattered(self, levels: IntArray) -> FloatArray:
        """(nodes,) the chance of each of the best nodes where the sample is scattered over all nodes.

        ``levels`` are the sums of the numbers of nodes of equal total, the best first, from 0 on.
        """
        sizes = levels[1:] - levels[:-1]
        absent = (1.0 - self._found) ** levels  # all nodes so far
        return np.repeat((absent[:-1] - absent[1:]) / sizes, sizes)

    def _won(
        self,
        rows: IntArray,
        draws: IntArray | None,
        ends: FloatArray,
        levels: IntArray,
        left: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """(rows, draws) the chance that each node wins each draw, and (draws,) that none of them is there.

        ``levels`` are where among the rows another total begins, and their number; ``left`` is the chance
        that none of the nodes before is in the sample.
        """
        inside = ends - self._times(rows, draws)
        np.maximum(inside, self._draws.unexpected, out=inside)
        np.minimum(inside, 1.0 - self._draws.unexpected, out=inside)
        missing = 1.0 - inside
        tied = len(levels) <= len(rows)
        if tied:
            missing = _each_multiplied(missing, levels[:-1])
        wins = 1.0 - missing
        wins[0] *= left
        missing[0] *= left
        all_missing = _cumulated_products(missing)
        wins[1:] *= all_missing[:-1]
        if tied:
            wins /= _each_added(inside, levels[:-1])
            wins = wins.repeat(levels[1:] - levels[:-1], axis=0) * inside
        return wins, all_missing[-1]


def _weighed(chances: FloatArray, weight: FloatArray) -> FloatArray:
    """(rows,) the chances of (rows, draws) over all draws, which have these weights.

    A matrix product would be left to kernels that differ by processor: in rounding, and on some in what they
    report, such as an invalid value where all numbers are finite. This sum is the same on all of them.
    """
    return np.asarray(np.add.reduce(chances * weight, axis=-1))


# NumPy reduces and accumulates rows column by column. Where columns are many, row by row is several times as
# fast; the numbers meet in the same order, so the results are the same to the last bit.


def _is_wide(values: FloatArray) -> bool:
    rows, columns = values.shape
    return bool(columns > _WIDE * rows)


def _groups(values: FloatArray, begins: IntArray) -> Iterator[tuple[int, int, int]]:
    """Number, first row and first row after each group of rows."""
    first = begins.tolist()
    return zip(range(len(first)), first, [*first[1:], len(values)], strict=True)


def _each_multiplied(values: FloatArray, begins: IntArray) -> FloatArray:
    """(groups, columns) the products of the rows of each group; a group begins at each of ``begins``."""
    if not _is_wide(values):
        return np.asarray(np.multiply.reduceat(values, begins, axis=0))
    products = values[begins]
    for group, begin, end in _groups(values, begins):
        for row in values[begin + 1 : end]:
            products[group] *= row
    return products


def _each_added(values: FloatArray, begins: IntArray) -> FloatArray:
    """(groups, columns) the sums of the rows of each group; a group begins at each of ``begins``."""
    if not _is_wide(values):
        return np.asarray(np.add.reduceat(values, begins, axis=0))
    sums = values[begins]
    for group, begin, end in _groups(values, begins):
        if end - begin > _PAIRWISE:
            sums[group] = np.add.reduceat(values[begin:end], [0], axis=0)[0]
        elif end - begin > 1:
            sums[group] += np.add.reduce(values[begin + 1 : end], axis=0)
    return sums


def _cumulated_products(values: FloatArray) -> FloatArray:
    """(rows, columns) the product of each row and all above it."""
    if not _is_wide(values):
        return np.asarray(np.cumprod(values, axis=0))
    products = values.copy()
    for row in range(1, len(values)):
        products[row] *= products[row - 1]
    return products


def _most_frequent(seen: Sequence[IntArray]) -> tuple[list[tuple[int, ...]], IntArray]:
    """The most frequent combinations of values, each (draws,), and (draws,) which of them each draw has.

    Of combinations as frequent the one that is seen first comes first; draws with another one have the first.
    """
    number, amount = _numbered(seen[0])
    for values in seen[1:]:
        more, times = _numbered(values)
        number, amount = _numbered(number * times + more)
    count = np.bincount(number, minlength=amount)
    first = np.empty(amount, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]  # of equal numbers the last one that is set remains
    common = np.lexsort((first, -count))[:_MAX_EXTREMES]
    common = common[count[common] > 0]
    rank = np.zeros(amount, np.int64)
    rank[common] = np.arange(len(common))
    kinds = [tuple(int(values[draw]) for values in seen) for draw in first[common].tolist()]
    return kinds, rank[number]


def _numbered(values: IntArray) -> tuple[IntArray, int]:
    """Numbers from 0 on, equal where the values are, and how many there may be."""
    least, most = int(values.min()), int(values.max())
    if most - least < _SPREAD_OUT * len(values):
        return values - least, most - least + 1
    distinct, number = np.unique(values, return_inverse=True)
    return number, len(distinct)


def _best(values: IntArray, count: int) -> tuple[IntArray, IntArray, int]:
    """Rows of at least ``count`` best values, in their order, and the values; values below the third decide
    nothing.

    Where the last of them are equal to many others, none of these is among them.
    """
    if count >= len(values):
        rows, best = np.arange(len(values)), values
        least = values.min()
    else:
        rows, least = _not_below(values, count)
        best = values[rows]
        if len(rows) > _MOST_FOLLOWED * count:
            rows = rows[best > least]
            best = values[rows]
    order = (-best).argsort(kind="stable")
    return rows[order], best[order], int(least)


def _ranked(values: IntArray, count: int) -> Iterator[tuple[IntArray, IntArray, int]]:
    """As ``_best``, in each turn of those that are left; many that are equal have a turn of their own."""
    among = np.arange(len(values))
    while len(values):
        rows, best, least = _best(values, count)
        if not len(rows):
            rows = (values == least).nonzero()[0]
            best = values[rows]
        levels = np.array([0, *((best[1:] != best[:-1]).nonzero()[0] + 1).tolist(), len(rows)])
        crowds = (levels[1:] - levels[:-1] >= count * _CROWD).nonzero()[0]
        if len(crowds):
            rows, best = rows[: levels[max(crowds[0], 1)]], best[: levels[max(crowds[0], 1)]]
        yield among[rows], best, least
        rest = values < best[-1]
        values, among, count = values[rest], among[rest], 2 * count


def _not_below(values: IntArray, count: int) -> tuple[IntArray, int]:
    """Rows of the ``count`` best values, and of all equal to the last of them, ascending; and that value.

    Of many values a few, evenly spread, tell about where the best begin, so that not all have to be sorted.
    """
    step = len(values) // _LOOKED_AT
    rows: IntArray | None = None
    if step > 1:
        some = values[::step]
        likely = _MARGIN + 2 * count // step
        if likely < len(some):
            rows = (values >= np.partition(some, len(some) - likely)[len(some) - likely]).nonzero()[0]
    if rows is None or len(rows) < count:
        least = int(np.partition(values, len(values) - count)[len(values) - count])
        return (values >= least).nonzero()[0], least
    best = values[rows]
    least = int(np.partition(best, len(best) - count)[len(best) - count])
    return rows[best >= least], least
