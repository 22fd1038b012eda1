"""Windows of consecutive nodes: the extremes of each, and how its best nodes share its chance.

A search that ends at a number of feasible nodes found looks at one such window; which one is chance.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray

_MOST = np.iinfo(np.int32).max


def sliding_maximum(values: IntArray, width: int) -> IntArray:
    """(len(values) − width + 1,) the largest of ``width`` consecutive values from each position on."""
    largest, reach = values, 1
    while 2 * reach <= width:
        largest = np.maximum(largest[:-reach], largest[reach:])
        reach *= 2
    rest = width - reach
    return np.maximum(largest[:-rest], largest[rest:]) if rest else largest


def _winners(totals: IntArray, best: IntArray, width: int) -> IntArray:
    """Places that are the best, or one of the best, of at least one window."""
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

    ``totals`` are of len(windows) + width − 1 places, window i being the places i..i+width−1; equal best ones
    of a window share alike. ``cumulated`` sums the windows' chances: the i-th is that of those before i.
    All windows between two edges, where a winner enters or leaves, are taken together as a run.
    """
    windows = len(cumulated) - 1
    totals = totals - int(totals.min())
    if int(totals.max()) < _MOST:
        totals = totals.astype(np.int32)  # twice as many at a time
    best = sliding_maximum(totals, width)
    places = _winners(totals, best, width)
    enters, leaves = np.maximum(places - width + 1, 0), np.minimum(places + 1, windows)
    begins = np.sort(np.concatenate([enters, leaves]))
    begins = begins[np.concatenate([[True], begins[1:] != begins[:-1]])]
    starts = begins[:-1]
    level = best[starts].astype(np.int64)
    # Sorted by level, then by place or run, one search finds those of a level within a range.
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
