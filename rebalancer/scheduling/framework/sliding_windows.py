"""Windows of consecutive places: the largest value of each, and how those of the largest share its chance."""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray

_MAX_INT32 = np.iinfo(np.int32).max


def sliding_maximum(values: IntArray, width: int) -> IntArray:
    """(len(values) − width + 1,) the largest of ``width`` consecutive values from each position on."""
    largest = values
    reach = 1
    while 2 * reach <= width:
        largest = np.maximum(largest[:-reach], largest[reach:])
        reach *= 2
    missing = width - reach
    return np.maximum(largest[:-missing], largest[missing:]) if missing else largest


def _winners(totals: IntArray, best: IntArray, width: int) -> IntArray:
    """Places that are the best, or one of the best, of at least one window.

    A place wins somewhere if its total equals the lowest best total of the windows that hold it.
    """
    lowest = int(best.min())
    if lowest == int(best.max()):
        return np.asarray((totals == lowest).nonzero()[0])
    around = np.full(len(best) + 2 * (width - 1), -np.iinfo(best.dtype).max, best.dtype)
    around[width - 1 : width - 1 + len(best)] = -best
    lowest_best = -sliding_maximum(around, width)  # by place: of the windows that hold it
    places: IntArray = (totals == lowest_best).nonzero()[0]
    return places


def share_among_best(totals: IntArray, cumulated: FloatArray, width: int) -> tuple[IntArray, FloatArray]:
    """Places with a share of the windows' chances, ascending, and their shares.

    ``totals`` are of len(windows) + width − 1 places, and window i holds the places i..i+width−1.
    ``cumulated`` has len(windows) + 1 values: the i-th is the chance of all windows before i.

    Looking at every window costs nodes · width comparisons; this costs about nodes · log(nodes). A node wins
    in consecutive windows of those that hold it, at one level: its own total. So it is enough to know, for
    every run of windows between two points where some winner enters or leaves, the best total of the run, its
    chance and how many winners it holds. The share of a node is the sum, over the runs of its level among its
    windows, of the chance divided by the number of winners.

    Five nodes in a ring with totals 7 9 9 4 6, a width of 3 and a chance of 0.2 for each window. Written out
    with the first two places again, because windows go round, the places are 7 9 9 4 6 7 9:

        windows  best  winners  chance  each
        0, 1     9     1, 2     0.4     0.2
        2        9     2        0.2     0.2
        3        7     5        0.2     0.2
        4        9     6        0.2     0.2

    Place 2 wins in both runs of windows 0..2 and gets 0.2 + 0.2. Places 1 and 6 are the same node: 0.2 + 0.2.
    Place 5 is node 0: 0.2.
    """
    windows = len(cumulated) - 1
    totals = totals - int(totals.min())
    if int(totals.max()) < _MAX_INT32:
        totals = totals.astype(np.int32)  # half the memory to go through
    best = sliding_maximum(totals, width)
    places = _winners(totals, best, width)
    # The first window that holds each winner, and the first after those.
    enters = np.maximum(places - width + 1, 0)
    leaves = np.minimum(places + 1, windows)
    begins = np.sort(np.concatenate([enters, leaves]))
    begins = begins[np.concatenate([[True], begins[1:] != begins[:-1]])]
    starts = begins[:-1]
    level = best[starts].astype(np.int64)
    # Keys order by level, then by place or run: a binary search counts those of a level in a range.
    many = len(totals) + 1
    of_level = totals[places].astype(np.int64) * many
    by_level = np.sort(of_level + places)
    runs_level = level * many
    held = by_level.searchsorted(runs_level + starts + width) - by_level.searchsorted(runs_level + starts)
    shares = (cumulated[begins[1:]] - cumulated[starts]) / held
    runs = runs_level + np.arange(len(starts))
    order = runs.argsort()
    runs = runs[order]
    sums = np.zeros(len(runs) + 1)
    np.cumsum(shares[order], out=sums[1:])
    last = runs.searchsorted(of_level + begins.searchsorted(leaves))
    first = runs.searchsorted(of_level + begins.searchsorted(enters))
    return places, sums[last] - sums[first]
