"""Which of several nodes of equal total a scheduler takes that looks at one node after the other.

Since 1.35 nothing is drawn among the best: the scheduler makes a heap of the nodes in the order in which it
found them, and takes its root. A node comes up only past worse ones, and of two that could come up the left
one does. So of all the best nodes the root is the one that is first when the tree is walked from its root,
left before right.

Seven nodes found in the order a b c d e f g, as a tree:        a
                                                           b         c
                                                        d     e   f     g

The walk is a b d e c f g: of c and e, when they are the best, e is taken, which was found later.

Source: kubernetes v1.35.4 pkg/scheduler/schedule_one.go:905 and Go's container/heap.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.sampling.windows import sliding_maximum

_MAX_AT_ONCE = 1 << 20  # places of windows


@lru_cache(maxsize=8)
def _walk(size: int) -> IntArray:
    """(size,) when each place of a heap is come to on the walk."""
    times = np.empty(size, np.int64)
    waiting = [0]
    for time in range(size):
        place = waiting.pop()
        times[place] = time
        waiting.extend(child for child in (2 * place + 2, 2 * place + 1) if child < size)
    return times


def heap_roots(totals: IntArray, width: int) -> IntArray:
    """(len(totals) − width + 1,) the place of the node that is taken from each window of ``width`` places."""
    best = sliding_maximum(totals, width)
    windows = np.lib.stride_tricks.sliding_window_view(totals, width)
    walk = _walk(width)
    step = max(_MAX_AT_ONCE // width, 1)
    first = [
        np.where(windows[begin : begin + step] == best[begin : begin + step, None], walk, width).argmin(
            axis=1
        )
        for begin in range(0, len(best), step)
    ]
    return np.asarray(np.concatenate(first) + np.arange(len(best)), np.int64)
