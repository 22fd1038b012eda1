"""Where a pod lands when the scheduler looks at a sample of the nodes only.

In clusters of more than 100 nodes the scheduler stops once it has found enough feasible nodes, and it starts
where the last search ended: further by the nodes it looked at, which is nowhere near in step with the nodes.
That start is unknown, so every start is taken to be equally likely, and the landing is a distribution. Among
equal totals each node is equally likely, because the scheduler draws one (up to 1.34), or because the order
in which it finds them is a race between its workers; see ``heap_roots`` for a later one with a single
worker. Where a search looks at all nodes its start decides among equal totals, and stays: see
``start_index``.

What several workers find is the matter of ``race``. Here is the search of one, which is exact for a uniform
start and which the race of many is, too, where the scheduler has few cores. Every start leads to one window:
the feasible nodes from there on, as many as the search stops at. A plugin that normalises by the extremes of
the nodes compared gives a node different scores in different windows, but the extremes change rarely from one
window to the next. So the windows are divided into stretches in which every plugin sees the same extremes;
within a stretch the total of a node does not depend on the window, and ``share_among_best`` divides the
chances of all its windows at once.

Eight nodes a..h, of which b, d, e and h are feasible, and a search that stops at two:

    starts a, b        compare b and d    2/8
    starts c, d        compare d and e    2/8
    start  e           compares e and h   1/8
    starts f, g, h     compare h and b    3/8

Let a plugin score by the largest raw score, with 5 on b, d and e and 10 on h. The largest is 5 in the first
two windows and 10 in the other two: two stretches.

An extender is asked about the nodes that were found, so what it rejects leaves the sample smaller and nothing
takes its place. In the example, with e rejected:

    start  e           compares h alone   1/8
    starts c, d        compare d alone    2/8

Source: kubernetes v1.34.4 pkg/scheduler/schedule_one.go:610, :697, :894; findNodesThatPassExtenders there,
after the search and before any score, is the same in v1.37.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.scheduling.framework import draws, start_index
from rebalancer.scheduling.framework.draws import ONE_WORKER, Workers
from rebalancer.scheduling.framework.race import Floors, Kind, KnownOutcomes, Race
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.framework.sliding_windows import share_among_best, window_extreme
from rebalancer.scheduling.state.nodes import Unordered

_NO_EXTREME = -np.iinfo(np.int64).max  # its negative is a number, too
ALL_ARE_LOOKED_AT = 100
_REMEMBERED = 8  # searches by order, and of each the scores that a sample changes: one a scenario
_MAX_PLACES_AT_ONCE = 1 << 17  # places
# Differences of sums leave floating-point errors where the chance is 0; a real one is at least 1 ÷ nodes².
_MAX_ROUNDING_ERROR = 1e-13

Order = IntArray | Unordered  # the rows that a search looks at, in its order; or all nodes, in none


def nodes_to_find(candidates: int, percentage: int) -> int:
    """How many feasible nodes end the search; ``percentage`` 0 means the scheduler's own choice."""
    if candidates < ALL_ARE_LOOKED_AT:
        return candidates
    if percentage == 0:
        percentage = max(5, 50 - candidates // 125)
    return max(ALL_ARE_LOOKED_AT, candidates * percentage // 100) if percentage < 100 else candidates


class _Stretch(msgspec.Struct, frozen=True):
    """Consecutive windows, ``first`` to before ``end``, in which every plugin sees the same extremes.

    The total of a node is the same in all of them.
    """

    first: int
    end: int
    extremes: tuple[int, ...]  # smallest and largest of each plugin in turn


def _stretches(
    scores: Sequence[RawScores], raw: Sequence[IntArray], count: int, width: int, rejected: BoolArray | None
) -> list[_Stretch]:
    """All windows in order, divided where the smallest or the largest raw score of a plugin changes.

    The smallest of a window is the negated maximum of the negated scores, so one sliding maximum serves both.

    ``raw`` are the scores by place, (count + width − 1,); nodes that are ``rejected`` have no part.
    """
    extremes: list[tuple[IntArray | int, int]] = []
    for item, by_place in zip(scores, raw, strict=True):
        smallest, largest = item.extremes()
        for values, extreme, sign in ((item.negated(by_place), -smallest, -1), (by_place, largest, 1)):
            known = values if rejected is None else np.where(rejected, _NO_EXTREME, values)
            extremes.append((window_extreme(known, extreme, count, width), sign))
    edges = {0, count}
    for seen, _ in extremes:
        if not isinstance(seen, int):
            edges.update(((seen[1:] != seen[:-1]).nonzero()[0] + 1).tolist())

    def at(first: int) -> tuple[int, ...]:
        return tuple(
            sign * (values if isinstance(values, int) else int(values[first])) for values, sign in extremes
        )

    return [_Stretch(first, end, at(first)) for first, end in pairwise(sorted(edges))]


class _Windows(msgspec.Struct, frozen=True, eq=False):
    """Stretches laid end to end and handled together.

    Windows across a seam exist only in this layout, so their chance is 0: the cumulated chance does not grow
    over them.
    """

    stretches: Sequence[_Stretch]
    rows: IntArray  # (places,) which of the feasible nodes is at each
    scores: IntArray  # (places,) what plugins that compare nodes add to the total
    cumulated: FloatArray  # (places − width + 2,) the chance of all windows before each


class _Compared(msgspec.Struct, frozen=True, eq=False):
    """Scores that a sample changes, and what of its search follows from these alone."""

    varying: Sequence[RawScores]
    windows: Sequence[_Windows]
    kinds: Sequence[Kind]  # of draws of the race; empty where one worker does the search

    def is_of(self, varying: Sequence[RawScores]) -> bool:
        """Whether it is of scores that are equal to these."""
        return len(varying) == len(self.varying) and all(map(_are_equal, varying, self.varying))


def _are_equal(new: RawScores, old: RawScores) -> bool:
    return (
        new.plugin is old.plugin
        and new.weight == old.weight
        and new.extremes() == old.extremes()
        and bool((new.raw == old.raw).all())
    )


class Search:
    """A search of unknown start over the nodes; it ends once it has found a number of feasible ones."""

    def __init__(
        self,
        feasible: IntArray,
        order: Order,
        limit: int,
        workers: Workers = ONE_WORKER,
        *,
        found: IntArray | None = None,
        heap: bool = False,
    ) -> None:
        """``feasible`` are rows, ascending; ``order`` the rows the scheduler looks at, in its order.

        Nodes that are in no order are all looked at; there must be more of them than the search finds.
        ``found`` are the rows that end the search, ascending, where extenders then reject some of them; a
        sample has one that is feasible if they reject fewer than ``limit``.
        ``heap`` if it takes the root of a heap of the nodes in the order in which it found them.
        """
        self.feasible = feasible
        self.looked_at = order
        self._every = feasible if found is None else found
        self._limit = limit
        self._heap = heap
        # The order in which it finds them is certain.
        self._takes_root = heap and workers.parallelism == 1 and not isinstance(order, Unordered)
        self._known = KnownOutcomes()
        self._latest: deque[_Compared] = deque(maxlen=_REMEMBERED)
        self._alone = 1.0
        self._rejected: BoolArray | None = None
        self._of_sizes: dict[tuple[int, int], tuple[float, Search | None]] = {}
        self.is_sample = len(self._every) > limit
        if not self.is_sample:
            return
        if isinstance(order, Unordered):
            self._alone = 0.0
            self._race = Race(feasible, draws.orders(order, limit), limit, self._every)
            return
        self._width = limit
        # Scores are over rows in ascending order; the search goes through them in the scheduler's order.
        index = np.full(int(order.max()) + 1, -1, np.int64)
        index[self._every] = 0
        positions = (index[order] >= 0).nonzero()[0]
        index[self._every] = -1
        index[feasible] = np.arange(len(feasible))
        feasible_at = index[order]
        self._alone = workers.at_once()[1]
        if self._alone < 1.0:
            places = np.empty(len(feasible), np.int64)
            passing = (feasible_at >= 0).nonzero()[0]
            places[feasible_at[passing]] = passing
            self._race = Race(places, draws.interleavings(len(order), limit, workers), limit, positions)
        # Index into feasible by place, the place in the order of finding; any for a node that is rejected.
        self._found = feasible_at[positions]
        if len(feasible) < len(self._every):
            self._rejected = np.concatenate([self._found, self._found[: limit - 1]]) < 0
            self._found = np.maximum(self._found, 0)
        # The same, and again those that windows across the end hold.
        self._around = np.concatenate([self._found, self._found[: limit - 1]])
        self._gaps = np.empty(len(positions))  # the share of starts from which each is the first one found
        self._gaps[0] = positions[0] - positions[-1] + len(order)
        self._gaps[1:] = positions[1:] - positions[:-1]
        self._gaps /= len(order)
        # The chance that the search begins before each place: its window is those from there on.
        self._before = np.concatenate([[0.0], self._gaps]).cumsum()

    def covers(self, feasible: IntArray, order: Order, limit: int, found: IntArray, heap: bool) -> bool:
        """Whether it is the search over these nodes."""
        all_pass = found is feasible and self._every is self.feasible
        return (
            self.looked_at is order
            and self._limit == limit
            and self._heap == heap
            and len(self.feasible) == len(feasible)
            and bool((self.feasible == feasible).all())
            and (all_pass or np.array_equal(self._every, found))
        )

    @property
    def may_be_empty(self) -> bool:
        """Whether extenders may reject all that is found."""
        return self.is_sample and len(self._every) - len(self.feasible) >= self._limit

    @property
    def sizes(self) -> range:
        """How many nodes a sample may have, once extenders have rejected theirs."""
        if not self.is_sample:
            return range(len(self.feasible), len(self.feasible) + 1)
        rejected = len(self._every) - len(self.feasible)
        return range(max(self._limit - rejected, 1), min(self._limit, len(self.feasible)) + 1)

    def of_sizes(self, least: int, most: int) -> tuple[float, Search | None]:
        """The chance of a sample of so many nodes, and the search if it has one; None where it cannot.

        Of one worker both are exact. The draws of a race tell the chance alone, and each size has some.
        """
        known = self._of_sizes.get((least, most))
        if known is None:
            known = self._of_sizes[least, most] = self._restricted(least, most)
        return known

    def _restricted(self, least: int, most: int) -> tuple[float, Search | None]:
        if not self.is_sample or len(self.feasible) == len(self._every):
            return 1.0, self
        part = copy(self)
        part._known, part._latest = KnownOutcomes(), deque(maxlen=_REMEMBERED)
        alone = raced = 0.0
        if self._rejected is not None:
            passing = np.concatenate([[0], (~self._rejected).cumsum()])
            in_window = passing[self._width :] - passing[: -self._width]
            gaps = np.where((in_window >= least) & (in_window <= most), self._gaps, 0.0)
            alone = self._alone * float(gaps.sum())
            part._before = np.concatenate([[0.0], gaps]).cumsum() / (float(gaps.sum()) or 1.0)
        if self._alone < 1.0:
            raced = (1.0 - self._alone) * self._race.share_of_sizes(least, most, self.sizes)
        if not (share := alone + raced):
            return 0.0, None
        part._alone = alone / share
        return share, part

    def chances(self, scores: Sequence[RawScores]) -> FloatArray:
        """(feasible,) the chance of each node to be chosen; the caller does not change the result."""
        return self.outcome(scores)[0]

    def outcome(self, scores: Sequence[RawScores]) -> tuple[FloatArray, start_index.TieBreak | None]:
        """The chances, and what decides among equal totals where nothing is drawn."""
        chance = np.zeros(len(self.feasible), np.float64)
        fixed, varying = self._parts(scores)
        if not self.is_sample:
            tie = None
            if self._heap and not isinstance(self.looked_at, Unordered):
                raced = 0.0 if self._takes_root else start_index.RACED
                tie = start_index.tie_break(fixed, self.feasible, self.looked_at, raced)
            if tie is not None:
                return tie.chance(len(chance)), tie
            best = fixed == fixed.max()
            chance[best] = 1.0 / np.count_nonzero(best)
            return chance, None
        compared = self._compared(varying)
        known = None if self._takes_root else self._known.find(fixed, compared, compared.varying)
        if known is not None:
            return known, None
        floors = Floors()
        self._add_windows(fixed, compared, chance, None if self._takes_root else floors)
        if self._alone < 1.0:
            by_race = self._race.chances(fixed, compared.kinds, floors)
            chance = self._alone * chance + (1.0 - self._alone) * by_race
        if not self._takes_root:
            self._known.keep(fixed, compared, floors, chance)
        return chance, None

    def possible(self, scores: Sequence[RawScores], below: IntArray, above: IntArray) -> BoolArray:
        """(feasible,) may be chosen, where what some plugin adds to each total is only known in bounds.

        ``below`` and ``above`` (feasible,) are the least and the most that it adds to each total; ``scores``
        are those of the other plugins. A node that is chosen has at least the total that wins its sample
        where all others have their least, so one whose most is below the lowest such total is ruled out.
        """
        fixed, varying = self._parts(scores)
        if not self.is_sample:
            return np.asarray(fixed + above >= (fixed + below).max(), np.bool_)
        floors, compared = Floors(), self._compared(varying)
        self._add_windows(fixed + below, compared, np.zeros(len(fixed)), floors)
        if self._alone < 1.0:
            self._race.chances(fixed + below, compared.kinds, floors)
        return floors.reached(fixed + above, varying, np.arange(len(fixed)))

    def _parts(self, scores: Sequence[RawScores]) -> tuple[IntArray, list[RawScores]]:
        """(feasible,) the part of the totals that no sample changes, and the scores that one does."""
        fixed = np.zeros(len(self.feasible), np.int64)
        varying: list[RawScores] = []
        for item in scores:
            if item.is_constant:
                continue  # the same for every node, so it decides nothing
            if not item.plugin.normalization.compares_nodes or not self.is_sample:
                fixed += item.weighted_by_all
            else:
                varying.append(item)
        return fixed, varying

    def _compared(self, varying: Sequence[RawScores]) -> _Compared:
        """What follows from the scores that a sample changes; these are often equal from pod to pod."""
        for known in self._latest:
            if known.is_of(varying):
                return known
        windows: Sequence[_Windows] = ()
        if self._alone:
            raw = [item.raw.take(self._around) for item in varying]
            stretches = _stretches(varying, raw, len(self._found), self._width, self._rejected)
            windows = [self._laid_out(varying, raw, part) for part in self._parted(stretches)]
        found = _Compared(varying, windows, self._race.kinds(varying) if self._alone < 1.0 else ())
        self._latest.appendleft(found)
        return found

    def _parted(self, stretches: Sequence[_Stretch]) -> Iterator[list[_Stretch]]:
        """The stretches that are handled together; each by itself where each window has a root of its own."""
        part: list[_Stretch] = []
        length = 0
        for stretch in stretches:
            part.append(stretch)
            length += stretch.end - stretch.first + self._width
            if length > _MAX_PLACES_AT_ONCE or stretch is stretches[-1] or self._takes_root:
                yield part
                part, length = [], 0

    def _laid_out(
        self, varying: Sequence[RawScores], raw: Sequence[IntArray], stretches: Sequence[_Stretch]
    ) -> _Windows:
        rows, scores, cumulated = [], [], []
        for stretch in stretches:
            reach, extremes = slice(stretch.first, stretch.end + self._width - 1), stretch.extremes
            rows.append(self._around[reach])
            added = np.zeros(len(rows[-1]), np.int64)
            for item, values, smallest, largest in zip(
                varying, raw, extremes[::2], extremes[1::2], strict=True
            ):
                added += item.weighted(smallest, largest, values[reach])
            scores.append(added)
            cumulated.append(self._before[stretch.first : stretch.end])
            cumulated.append(np.full(self._width - 1, self._before[stretch.end]))
        cumulated[-1] = self._before[stretches[-1].end :][:1]
        return _Windows(stretches, *(np.concatenate(parts) for parts in (rows, scores, cumulated)))

    def _add_windows(
        self, fixed: IntArray, compared: _Compared, chance: FloatArray, floors: Floors | None
    ) -> None:
        """The chances where one worker does the search: each window is the nodes from a start on.

        ``floors`` None: the scheduler takes the root of a heap, whose outcome is not kept.
        """
        for windows in compared.windows:
            totals = self._totals(fixed, windows)
            if floors is None:
                self._add_roots(windows, totals, chance)
                continue
            places, shares, lowest = share_among_best(totals, windows.cumulated, self._width)
            chance += np.bincount(windows.rows[places], weights=shares, minlength=len(chance))
            for stretch in windows.stretches:
                floors.add(stretch.extremes, lowest)
        chance[chance < _MAX_ROUNDING_ERROR] = 0.0

    def _add_roots(self, windows: _Windows, totals: IntArray, chance: FloatArray) -> None:
        """Add the chance of each window of a stretch to the one node that is taken from it."""
        rows = windows.rows[start_index.heap_roots(totals, self._width)]
        chance += np.bincount(rows, weights=np.diff(windows.cumulated), minlength=len(chance))

    def _totals(self, fixed: IntArray, windows: _Windows) -> IntArray:
        """The totals of the places that the windows look at."""
        totals = fixed.take(windows.rows) + windows.scores
        if self._rejected is None:
            return totals
        begin = 0
        for stretch in windows.stretches:  # less than any other, so that it wins nothing
            reach = slice(stretch.first, stretch.end + self._width - 1)
            part = totals[begin : begin + reach.stop - reach.start]
            part[self._rejected[reach]] = part.min() - 1
            begin += len(part)
        return totals


class SearchOfOrders(msgspec.Struct, frozen=True, eq=False):
    """The search of a scheduler of which it is not known in which of several orders it looks at the nodes.

    It answers as ``Search`` does; each order has its share.
    """

    searches: Sequence[Search]
    shares: Sequence[float]  # 1 together
    counts: Sequence[int]  # how many times as likely as another each order is

    @property
    def feasible(self) -> IntArray:
        """The rows of the feasible nodes, ascending."""
        return self.searches[0].feasible

    @property
    def is_sample(self) -> bool:
        """Whether it ends before all nodes are looked at."""
        return self.searches[0].is_sample

    @property
    def may_be_empty(self) -> bool:
        """Whether extenders may reject all that is found."""
        return self.searches[0].may_be_empty

    @property
    def sizes(self) -> range:
        """How many nodes a sample may have, once extenders have rejected theirs."""
        return self.searches[0].sizes

    def of_sizes(self, least: int, most: int) -> tuple[float, SearchOfOrders | None]:
        """The chance of a sample of so many nodes, and the search if it has one; None where it cannot."""
        found = [search.of_sizes(least, most) for search in self.searches]
        parts = [
            (share * chance, part, count)
            for share, (chance, part), count in zip(self.shares, found, self.counts, strict=True)
            if part is not None
        ]
        whole = sum(chance for chance, *_ in parts)
        if not whole:
            return 0.0, None
        chances, searches, counts = zip(*parts, strict=True)
        return whole, SearchOfOrders(searches, [chance / whole for chance in chances], counts)

    def chances(self, scores: Sequence[RawScores]) -> FloatArray:
        """(feasible,) the chance of each node to be chosen."""
        return self.outcome(scores)[0]

    def outcome(self, scores: Sequence[RawScores]) -> tuple[FloatArray, start_index.TieBreak | None]:
        """The chances, and what decides among equal totals where nothing is drawn: order and start."""
        first = self.searches[0].outcome(scores)
        if not self.is_sample and first[1] is None:
            return first  # of all nodes a single one is best, in whatever order
        found = [first, *(search.outcome(scores) for search in self.searches[1:])]
        chance = np.zeros(len(self.feasible))
        for share, (each, _) in zip(self.shares, found, strict=True):
            chance += share * each
        if (tie := first[1]) is None:
            return chance, None
        ties = [
            (each, count) for (_, each), count in zip(found, self.counts, strict=True) if each is not None
        ]
        by_start = np.concatenate([np.tile(each.by_start, count) for each, count in ties])
        return chance, start_index.TieBreak(tie.best, by_start, tie.raced)

    def possible(self, scores: Sequence[RawScores], below: IntArray, above: IntArray) -> BoolArray:
        """(feasible,) may be chosen, where what some plugin adds to each total is only known in bounds."""
        found = [search.possible(scores, below, above) for search in self.searches]
        return np.asarray(np.any(found, axis=0), np.bool_)


AnySearch = Search | SearchOfOrders


class Searches:
    """The searches of one scheduler; from one pod to the next they are mostly the same."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._latest: deque[Search] = deque(maxlen=_REMEMBERED)

    def over(
        self,
        feasible: IntArray,
        orders: Sequence[IntArray],
        limit: int,
        *,
        counts: Sequence[int] = (),
        unordered: Unordered | None = None,
        found: IntArray | None = None,
        heap: bool = False,
    ) -> AnySearch:
        """The search over these nodes, in one of these orders; see ``Search``.

        ``counts`` is how many times as likely as another each order is; none: all are equally likely.
        ``unordered`` if they are in no order: these then stand for it where all nodes are found.
        ``heap`` if a heap of what is found decides ties.
        """
        if self._latest.maxlen != _REMEMBERED * len(orders):
            self._latest = deque(self._latest, maxlen=_REMEMBERED * len(orders))
        every = feasible if found is None else found
        if unordered is not None and len(every) > limit:
            return self._over(feasible, unordered, limit, every, heap)
        decides = heap or len(every) > limit  # without, no order makes a difference
        if len(orders) == 1 or not decides:
            return self._over(feasible, orders[0], limit, every, heap)
        searches = [self._over(feasible, order, limit, every, heap) for order in orders]
        counts = counts or (1,) * len(orders)
        return SearchOfOrders(searches, [count / sum(counts) for count in counts], counts)

    def _over(self, feasible: IntArray, order: Order, limit: int, every: IntArray, heap: bool) -> Search:
        for search in self._latest:
            if search.covers(feasible, order, limit, every, heap):
                return search
        self._latest.appendleft(Search(feasible, order, limit, self._workers, found=every, heap=heap))
        return self._latest[0]
