"""Since 1.35 the place where the scheduler's search starts breaks ties, not chance.

From 1.35 on nothing is drawn among equal totals. The scheduler makes a heap of the feasible nodes in the
order in which it found them, and takes its root. It finds them in the order of its node list, from the index
at which its search starts, and that index grows by the nodes that were looked at. A search that looks at all
nodes, as every one does below 100, leaves it where it was: the next search starts at the same node, and a pod
that is placed among the same equals goes to the same node again.

    nodes a b c d, all equal, start index 2    found c d a b: c is taken
    the next pod, c now being worse            found c d a b: d is taken
    drawn instead, as up to 1.34               each pod goes to any of the best

So where the start index is not known the landings of several pods are one draw, that of the index, and not
one for each. The order is not quite certain: workers look at the nodes beside each other, and one of them may
be interrupted. In a share of searches any of the best nodes is taken.

Source: kubernetes v1.35.4 pkg/scheduler/schedule_one.go:548 (start index), :662 (order), :891 (Randomizer is
set for extenders only), :905 (heap); v1.37.2 framework/sorted_nodes.go:33.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.state.nodes import NodeOrder

_MAX_AT_ONCE = 1 << 20  # places of windows
# Measured on two cores: no more than 4 % of the searches on 10 to 90 nodes took another node than the root.
RACED = 0.1


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


class TieBreak(msgspec.Struct, frozen=True, eq=False):
    """Which of the best nodes a search over all nodes takes, by the index at which it starts."""

    best: IntArray  # which of the feasible nodes are equally good, ascending
    by_start: IntArray  # (starts,) which of the feasible nodes is taken
    raced: float  # the share of searches that may take any of the best
    scheduler: int = 0  # whose search it is: each begins where its own last one ended

    def chance(self, feasible: int, starts: IntArray | None = None) -> FloatArray:
        """(feasible,) of being taken, each of these starts being equally likely; None: all there are."""
        taken = self.by_start if starts is None else self.by_start[starts]
        chance = np.bincount(taken, minlength=feasible) * ((1.0 - self.raced) / len(taken))
        chance[self.best] += self.raced / len(self.best)
        return np.asarray(chance, np.float64)


def tie_break(totals: IntArray, feasible: IntArray, orders: Sequence[NodeOrder], raced: float) -> TieBreak:
    """How a search that looks at all nodes decides among the best.

    ``totals`` are by feasible node, ``feasible`` rows, ascending. Where the scheduler may have several
    orders, each is as likely as its count says.
    """
    best = (totals == np.maximum.reduce(totals)).nonzero()[0]
    by_start = [
        np.tile(_taken_from_each_start(totals, best, feasible, order), order.count) for order in orders
    ]
    return TieBreak(best, np.concatenate(by_start), raced)


class _Finding(msgspec.Struct, frozen=True, eq=False):
    """Some nodes in the order in which a search finds them that starts at index 0."""

    node: IntArray  # (nodes,) which of them is found at each place
    # (starts,) the place at which a search begins: that of the first one at or after its start
    first: IntArray

    @classmethod
    def of(cls, nodes: IntArray, order: IntArray) -> _Finding:
        """Nodes given by rows, ascending, in the order of all nodes."""
        index = np.full(int(order.max()) + 1, -1, np.int64)
        index[nodes] = np.arange(len(nodes))
        visited = index[order]
        places = (visited >= 0).nonzero()[0]
        return cls(visited[places], places.searchsorted(np.arange(len(order))) % len(places))


def _taken_from_each_start(
    totals: IntArray, best: IntArray, feasible: IntArray, order: NodeOrder
) -> IntArray:
    """(starts,) which of the feasible nodes is the root of the heap.

    A node comes up only past worse ones, and of two that could come up the left one does. So of all the best
    nodes the root is the one that is first when the tree is walked from its root, left before right.

    Seven nodes found in the order a b c d e f g, as a tree:        a
                                                               b         c
                                                            d     e   f     g

    The walk is a b d e c f g: of c and e, when they are the best, e is taken, which was found later.

    Source: kubernetes v1.35.4 pkg/scheduler/schedule_one.go:905 and Go's container/heap.
    """
    finding = order.cached(feasible, "finding", lambda: _Finding.of(feasible, order.rows))
    visited = finding.node
    equals = (totals[visited] == totals[best[0]]).nonzero()[0]
    walk = _walk(len(visited))
    step = max(_MAX_AT_ONCE // len(equals), 1)
    roots: list[IntArray] = []
    for begin in range(0, len(visited), step):
        starts = np.arange(begin, min(begin + step, len(visited)))
        # (starts, equals) the place in the tree of each of the best nodes
        places_in_tree = (equals - starts[:, None]) % len(visited)
        roots.append(walk[places_in_tree].argmin(axis=1))
    return np.asarray(visited[equals[np.concatenate(roots)[finding.first]]], np.int64)
