"""Where a pod lands when the scheduler compares a sample of the nodes only.

In clusters of more than 100 nodes the scheduler stops once it has found enough feasible nodes, and takes the
best of these. Where its search begins is not known: each start is taken to be equally likely, and the landing
is a distribution. Several workers do the search, and which of them is ahead is chance. Two plain searches
stand for it:

* *Windows*, with the share ``WINDOWS``: one worker looks at the nodes in the scheduler's order, so a sample
  is as many consecutive feasible nodes as the search stops at. This part is exact (``sliding_windows``) for
  nodes that come in a known order.
* *Subsets*, with the rest: every set of so many feasible nodes is equally likely.

Eight nodes a..h, of which b, d, e and h are feasible, and a search that stops at two; h is the best node,
then come b, e and d:

    windows   starts a, b        b and d    b is taken    2/8
              starts c, d        d and e    e is taken    2/8
              starts e to h      h, and e or b; h is taken    4/8
    subsets   h is taken from 3 of the 6 pairs, b from 2, e from 1

From 1.35 on the scheduler comes to know the nodes that it lists when it starts in no order, and those that
are created later by age. Any of the listed nodes may be at any of their places: of a window it is known how
many of them it holds, and which of the later ones. Where all nodes were listed, windows are subsets.

Plugins normalise by the extremes of all feasible nodes here, and not by those of each sample.
docs/scheduling-model.md says how far these chances are from those of searches that are carried out step by
step, and docs/conformance.md from those of real schedulers.

Source: kubernetes v1.34.4 pkg/scheduler/schedule_one.go:610, :697, :894; v1.35.4 client-go reflector.go:805.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, weighted_sum
from rebalancer.scheduling.framework.sliding_windows import share_among_best, sliding_maximum
from rebalancer.scheduling.framework.start_index import RACED, TieBreak, tie_break
from rebalancer.scheduling.state.nodes import NodeOrder

ALL_ARE_LOOKED_AT = 100
WINDOWS = 0.85
_MIN_CHANCE = 1e-7  # of a node to be taken; a rarer landing is left out
_MAX_ROUNDING_ERROR = 1e-12
_TURNS = 5
_NEIGHBOURS = 0.04  # the share of subsets that hold none of the nodes of a turn
_FEWER = 4  # times as few listed nodes as most windows hold
_DENSE = 1 << 16  # totals that differ by less are counted, others sorted
_FEW_NODES = 4  # of the best for each window that fits beside others: mostly every window holds one of them
_MOST_NODES = 128  # with which that is tried
_NO_TOTAL = np.iinfo(np.int64).min // 4


def nodes_to_find(candidates: int, percentage: int) -> int:
    """How many feasible nodes end the search; ``percentage`` 0 means the scheduler's own choice."""
    if candidates < ALL_ARE_LOOKED_AT:
        return candidates
    if percentage == 0:
        percentage = max(5, 50 - candidates // 125)
    if percentage >= 100:
        return candidates
    return max(ALL_ARE_LOOKED_AT, candidates * percentage // 100)


class Search(msgspec.Struct, frozen=True, eq=False):
    """A search of unknown start, which ends once it has found ``limit`` nodes that pass its filters."""

    feasible: IntArray  # (feasible,) rows, ascending
    passing: IntArray  # (passing,) rows that end the search, ascending; extenders reject some of them later
    orders: Sequence[NodeOrder]  # in which the scheduler may look at the nodes
    limit: int
    takes_root: bool = False  # of a heap of the nodes as it found them; else it draws one of the best
    raced: float = RACED  # the share of searches whose order of finding is chance

    @property
    def is_sample(self) -> bool:
        """Whether it ends before all nodes are looked at."""
        return len(self.passing) > self.limit

    @property
    def size(self) -> int:
        """How many feasible nodes are compared."""
        return min(self.limit, len(self.feasible))

    @property
    def may_be_empty(self) -> bool:
        """Whether an extender may reject every node that is found."""
        return self.is_sample and len(self.passing) - len(self.feasible) >= self.limit

    def outcome(self, totals: IntArray) -> tuple[FloatArray, TieBreak | None]:
        """(feasible,) the chance of each node, and what decides among the best where nothing is drawn."""
        if self.is_sample:
            return self._of_sample(totals), None
        best = totals == np.maximum.reduce(totals)
        number = np.count_nonzero(best)
        if self.takes_root and number > 1:
            tie = tie_break(totals, self.feasible, self.orders, self.raced)
            return tie.chance(len(totals)), tie
        return best / np.float64(number), None

    def chances(self, totals: IntArray) -> FloatArray:
        """(feasible,) the chance of each node to be taken."""
        return self.outcome(totals)[0]

    def _of_sample(self, totals: IntArray) -> FloatArray:
        levels = _Levels(totals)
        subset = self._of_subsets(levels)  # (levels,) of each node of a level
        by_level = (1.0 - WINDOWS) * subset
        likelihoods = sum(order.count for order in self.orders)
        of_windows: list[tuple[IntArray, FloatArray]] = []
        for order in self.orders:
            share = WINDOWS * order.count / likelihoods
            windows = None if order.lists_all else self._of_windows(totals, levels, order)
            if windows is None:
                by_level += share * subset
            else:
                nodes, chances = windows
                of_windows.append((nodes, share * chances))
        chance = levels.of_nodes(by_level)
        for nodes, shares in of_windows:
            chance[nodes] += shares
        chance /= np.add.reduce(chance)
        return chance

    def may_be_taken(self, lowest: IntArray, highest: IntArray) -> BoolArray:
        """(feasible,) whether a node can be taken, where its total is only known to be in bounds (feasible,).

        It can if a sample holds no node that is better however the totals turn out.
        """
        better = len(lowest) - np.sort(lowest).searchsorted(highest, side="right")
        compared = min(self.limit, len(self.passing))
        return np.asarray(better + compared <= len(self.passing), np.bool_)

    def _of_subsets(self, levels: _Levels) -> FloatArray:
        """(levels,) a node's chance where every set of ``limit`` of the nodes found is equally likely.

        The best nodes may be neighbours, which a search misses together. So a small share goes to the next
        best ones, a small share of that to those after them, and so on.
        """
        chance = np.zeros(len(levels.sizes), np.float64)
        begin = 0
        for turn in range(_TURNS):
            drawn = max(self.limit >> turn, 1)
            before = int(levels.ranks[begin])
            among = len(self.passing) - before
            # A set misses so many better nodes with a chance of (1 − drawn ÷ among) to the power of their
            # number at most; levels beyond that are left out.
            last = len(levels.ranks)
            if drawn < among:
                last_rank = before + math.log(_MIN_CHANCE) / math.log1p(-drawn / among)
                last = min(int(levels.ranks.searchsorted(math.ceil(last_rank))) + 2, last)
            ranks = levels.ranks[begin:last] - before
            missed = _chances_of_none(drawn, among, int(ranks[-1]).bit_length()).take(ranks)
            by_level = missed[:-1] - missed[1:]
            possible = int(np.count_nonzero(by_level >= _MIN_CHANCE))
            chance[begin : begin + possible] = by_level[:possible] * _NEIGHBOURS**turn
            begin += possible
            if begin == len(chance) or levels.ranks[begin] > len(self.passing) - drawn:
                break
        return np.asarray(chance / levels.sizes / np.add.reduce(chance), np.float64)

    def _of_windows(
        self, totals: IntArray, levels: _Levels, order: NodeOrder
    ) -> tuple[IntArray, FloatArray] | None:
        """Nodes that may be taken where a sample is consecutive nodes of an order, from every start.

        Returns which of the feasible nodes, and their chances; None where windows are subsets.
        """
        if self.passing is self.feasible:
            windows = order.cached(self.feasible, ("windows", self.limit), lambda: self._windows(order))
        else:
            windows = self._windows(order)
        if windows.is_listed is None:
            return windows.chances(totals, levels)
        if windows.lists_all:
            return None
        chance = windows.chances_beside_listed(totals, windows.is_listed)
        chance[chance < _MAX_ROUNDING_ERROR] = 0.0
        return np.arange(len(totals)), chance

    def _windows(self, order: NodeOrder) -> _Windows:
        """The samples of one worker that looks at the nodes in an order."""
        candidates = len(order.rows)
        passes = np.zeros(candidates, np.bool_)
        passes[order.place.take(self.passing)] = True
        places = passes.nonzero()[0]
        feasible_at = np.full(candidates, -1, np.int64)
        feasible_at[order.place.take(self.feasible)] = np.arange(len(self.feasible))
        node = feasible_at.take(places)
        is_listed = order.listed.take(order.rows.take(places)) if order.lists_any else None
        return _Windows(node, _starts(places, candidates), self.limit, is_listed)


def _starts(places: IntArray, candidates: int) -> FloatArray:
    """(places,) the share of starts from which the search comes to each place first."""
    gaps = np.empty(len(places), np.float64)
    gaps[0] = places[0] - places[-1] + candidates
    gaps[1:] = places[1:] - places[:-1]
    return gaps / candidates


class _Levels:
    """Nodes grouped by equal totals, the best group first."""

    def __init__(self, totals: IntArray) -> None:
        least = int(np.minimum.reduce(totals))
        self.totals: IntArray  # (levels,) descending
        self.sizes: IntArray  # (levels,) how many nodes
        if int(np.maximum.reduce(totals)) - least < _DENSE:
            self._number = totals - least  # (nodes,) the number of each node's level
            counts = np.bincount(self._number)
            self._numbers = len(counts)
            self._levels = counts.nonzero()[0][::-1]  # (levels,) the number of each
            self.totals = self._levels + least
            self.sizes = counts.take(self._levels)
        else:
            negated, number, sizes = np.unique(-totals, return_inverse=True, return_counts=True)
            self._number = number
            self._numbers = len(negated)
            self._levels = np.arange(self._numbers)
            self.totals = -negated
            self.sizes = sizes
        # (levels + 1,) how many nodes are in all better groups
        self.ranks: IntArray = np.zeros(len(self.sizes) + 1, np.int64)
        self.sizes.cumsum(out=self.ranks[1:])

    def of_nodes(self, values: FloatArray) -> FloatArray:
        """(nodes,) the values of their levels (levels,)."""
        by_number = np.empty(self._numbers)
        by_number[self._levels] = values
        return by_number.take(self._number)


@lru_cache(maxsize=8)
def _log_factorials(digits: int) -> FloatArray:
    """ln n! for each n of no more than so many binary digits."""
    return np.concatenate([[0.0], np.log(np.arange(1, 1 << digits)).cumsum()])


def _chance_of_none(best: IntArray, drawn: IntArray | int, among: int) -> FloatArray:
    """(drawn, best) the chance that a set of so many of ``among`` nodes holds none of so many of them.

    C(among − best, drawn) ÷ C(among, drawn), by logarithms. ``drawn`` is (drawn, 1), or one number.
    """
    logs = _log_factorials(among.bit_length())
    others = among - best - drawn
    # ln of (among − best)! (among − drawn)! ÷ (among! others!)
    logarithm = logs.take(among - best) - logs[among]
    logarithm = logarithm + logs[among - drawn] - logs.take(np.maximum(others, 0))
    chance: FloatArray = np.exp(np.minimum(logarithm, 0.0))
    chance[others < 0] = 0.0
    return chance


@lru_cache(maxsize=512)
def _chances_of_none(drawn: int, among: int, digits: int) -> FloatArray:
    """The same for each number of nodes of no more than so many binary digits."""
    numbers = np.arange(min(1 << digits, among + 1))
    return _chance_of_none(numbers, drawn, among)


class _Windows(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The samples of one worker: from each place on so many consecutive places, going round."""

    node: IntArray  # (places,) index of the feasible node there; -1: an extender rejects it
    starts: FloatArray  # (places,) the chance that the window begins there
    width: int
    is_listed: BoolArray | None  # (places,) any of the listed nodes may be there; None: none was listed

    @cached_property
    def lists_all(self) -> bool:
        """Whether any of the listed nodes may be at every place."""
        return self.is_listed is not None and bool(self.is_listed.all())

    @cached_property
    def cumulated(self) -> FloatArray:
        """(places + 1,) the chance that the window begins before each place."""
        return np.concatenate([[0.0], self.starts.cumsum()])

    def _around(self, values: IntArray) -> IntArray:
        """(places + width − 1,) the values, and those that windows across the end hold once more."""
        return np.concatenate([values, values[: self.width - 1]])

    def chances(self, totals: IntArray, levels: _Levels) -> tuple[IntArray, FloatArray]:
        """Which of the feasible nodes may be taken, and their chances."""
        if len(self.node) == len(totals):  # no extender rejects any
            for_few = self._taken_of_few(totals, levels)
            if for_few is not None:
                return for_few
        by_place = np.where(self.node >= 0, totals.take(self.node), _NO_TOTAL)
        chance = self._taken(by_place, self.starts, len(totals))
        chance[chance < _MAX_ROUNDING_ERROR] = 0.0
        return np.arange(len(totals)), chance

    def _taken_of_few(self, totals: IntArray, levels: _Levels) -> tuple[IntArray, FloatArray] | None:
        """The same where every window holds one of few best nodes; None where it does not.

        Five nodes in a ring with totals 7 9 9 4 6 and a width of 3: the windows that hold node 1 begin at
        4, 0 or 1, those that hold node 2 at 0, 1 or 2. Each of these runs of windows is taken by the best
        nodes that all of it holds: 4 by node 1, 0 and 1 by both, 2 by node 2. Window 3 holds neither.
        """
        places = len(self.node)
        by_place = totals.take(self.node)
        few = _FEW_NODES * (places // self.width + 1)
        while few <= min(_MOST_NODES, places // 2):
            level = int(levels.ranks.searchsorted(few))
            if levels.ranks[level] > _MOST_NODES:
                return None
            best = (by_place >= levels.totals[level - 1]).nonzero()[0]
            # Windows begin a run where a best node enters or leaves; (runs,) the first of each.
            runs = np.sort(np.concatenate([best - self.width + 1, best + 1]) % places)
            differs = np.ones(len(runs), np.bool_)
            np.not_equal(runs[1:], runs[:-1], out=differs[:-1])
            runs = runs[differs]
            # (best, runs), the node with the highest total first: whether the windows of a run hold it
            best = best[by_place.take(best).argsort(kind="stable")[::-1]]
            distance = best[:, None] - runs
            distance += places * (distance < 0)
            holds = distance < self.width
            if np.logical_or.reduce(holds, axis=0).all():
                first = holds.argmax(axis=0)
                from_start = self.cumulated.take(runs)
                chance = np.empty(len(runs))
                chance[:-1] = from_start[1:] - from_start[:-1]
                chance[-1] = self.cumulated[-1] - from_start[-1] + from_start[0]  # it goes on across the end
                of_best = by_place.take(best)
                takes = holds & (of_best[:, None] == of_best.take(first))
                shares = weighted_sum(chance / np.add.reduce(takes, axis=0, dtype=np.float64), takes.T)
                shares[shares < _MAX_ROUNDING_ERROR] = 0.0
                return self.node.take(best), shares
            few *= 2
        return None

    def _taken(self, by_place: IntArray, weights: FloatArray, nodes: int) -> FloatArray:
        """(nodes,) the weight of each window, shared among the best places in it."""
        lowest = by_place[by_place > _NO_TOTAL].min()
        by_place = np.maximum(by_place, lowest - 1)
        cumulated = np.concatenate([[0.0], weights.cumsum()])
        winners, shares = share_among_best(self._around(by_place), cumulated, self.width)
        taken = self.node[winners % len(self.node)]
        shares = np.where(by_place[winners % len(self.node)] < lowest, 0.0, shares)
        return np.asarray(np.bincount(np.maximum(taken, 0), weights=shares, minlength=nodes), np.float64)

    def chances_beside_listed(self, totals: IntArray, is_listed: BoolArray) -> FloatArray:
        """(feasible,) the chance of each node to be taken, where later nodes alone have places of their own.

        ``is_listed`` is (places,): any of the listed nodes may be there. A later node is taken from a window
        in which it is the best of these, if the window holds no listed node that is better. Of equal nodes
        each has the same share.
        """
        by_place = np.where((self.node >= 0) & ~is_listed, totals.take(self.node), _NO_TOTAL)
        best_later = sliding_maximum(self._around(by_place), self.width)  # (windows,)
        listed_before = np.concatenate([[0], self._around(is_listed.astype(np.int64)).cumsum()])
        listed_within = listed_before[self.width :] - listed_before[: -self.width]  # (windows,)
        listed_count = int(np.count_nonzero(is_listed))
        listed = self.node[is_listed & (self.node >= 0)]
        levels = _Levels(totals[listed])
        # Nearly every window holds one of the best listed nodes; the others decide nothing.
        few = max(int(listed_within.max()) // _FEWER, 1)
        last = 1 + int(np.count_nonzero(_chance_of_none(levels.ranks, few, listed_count) >= _MIN_CHANCE))
        ranks = levels.ranks[: last + 1]
        best_totals = levels.totals[None, :last]
        sizes = levels.sizes[:last]
        # Windows that hold as many listed nodes and the same best later one are alike.
        kinds, kind_of = np.unique(np.stack([listed_within, best_later]), axis=1, return_inverse=True)
        weights = np.asarray(
            np.bincount(kind_of.ravel(), weights=self.starts, minlength=kinds.shape[1]), np.float64
        )
        missed = _chance_of_none(ranks, kinds[0][:, None], listed_count)  # (kinds, levels + 1)
        # (kinds, levels) that the best listed node is of each level
        by_level = missed[:, :-1] - missed[:, 1:]
        below = best_totals < kinds[1][:, None]
        equal = best_totals == kinds[1][:, None]
        # Of a tie the listed nodes have as large a part as there are of them in the window on average.
        alike = np.maximum(sizes[None, :] * kinds[0][:, None] / listed_count, 1.0)
        by_level = np.where(below, 0.0, np.where(equal, by_level * alike / (1.0 + alike), by_level))
        of_level = np.zeros(len(levels.sizes), np.float64)
        of_level[:last] = weighted_sum(weights, by_level) / sizes
        chance = np.zeros(len(totals), np.float64)
        chance[listed] = levels.of_nodes(of_level)
        later_taken = self.starts * (1.0 - by_level.sum(axis=1))[kind_of.ravel()]
        later_taken[best_later == _NO_TOTAL] = 0.0
        if later_taken.any():
            chance += self._taken(by_place, later_taken, len(totals))
        return chance
