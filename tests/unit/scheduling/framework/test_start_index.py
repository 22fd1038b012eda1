"""A scheduler of 1.35 and later takes the root of the heap of what it found, from where its search starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import IntArray
from rebalancer.scheduling.framework.sampling import Search
from rebalancer.scheduling.framework.start_index import tie_break
from rebalancer.scheduling.state.nodes import NodeOrder


def root(totals: Sequence[int]) -> int:
    """The root after Go's heap.Init, whose order is descending totals."""
    heap = list(enumerate(totals))
    for parent in range(len(heap) // 2 - 1, -1, -1):
        place = parent
        while (child := 2 * place + 1) < len(heap):
            if child + 1 < len(heap) and heap[child + 1][1] > heap[child][1]:
                child += 1
            if heap[child][1] <= heap[place][1]:
                break
            heap[place], heap[child] = heap[child], heap[place]
            place = child
    return heap[0][0]


def by_name(order: IntArray, count: int = 1) -> NodeOrder:
    return NodeOrder(order, np.zeros(len(order), np.bool_), count)


def test_several_workers_find_nodes_mostly_in_order_where_all_are_looked_at() -> None:
    """Three of four starts come to the second first; with several workers a tenth of searches is a race."""
    rows = np.array([0, 3])
    for raced, expected in ((0.0, [0.25, 0.75]), (0.1, [0.275, 0.725])):
        search = Search(rows, rows, [by_name(np.arange(4))], 4, takes_root=True, raced=raced)
        assert search.chances(np.array([7, 7])).tolist() == pytest.approx(expected)


def test_where_the_scheduler_may_have_several_orders_each_has_its_share() -> None:
    totals = np.array([5, 5, 1, 5])
    orders = [by_name(np.array([0, 1, 2, 3]), 2), by_name(np.array([3, 2, 1, 0]))]
    tie = tie_break(totals, np.arange(4), orders, raced=0.0)
    forwards, backwards = (tie_break(totals, np.arange(4), [order], raced=0.0) for order in orders)
    assert len(forwards.by_start) == 2 * len(backwards.by_start)
    assert tie.by_start.tolist() == [*forwards.by_start, *backwards.by_start]


@given(st.data())
def test_from_each_start_the_root_of_the_heap_of_all_feasible_nodes_is_taken(data: st.DataObject) -> None:
    """Each start is a course of its own: what is taken from it, and from no other, is known."""
    candidates = data.draw(st.integers(2, 30))
    order = np.array(data.draw(st.permutations(range(candidates))))
    feasible = np.flatnonzero(
        data.draw(st.lists(st.booleans(), min_size=candidates, max_size=candidates).filter(any))
    )
    totals = data.draw(st.lists(st.integers(0, 2), min_size=len(feasible), max_size=len(feasible)))
    tie = tie_break(np.array(totals), feasible, [by_name(order)], raced=0.0)
    of_row = dict(zip(feasible.tolist(), range(len(feasible)), strict=True))
    for start in range(candidates):
        found = [of_row[row] for row in np.roll(order, -start).tolist() if row in of_row]
        assert tie.by_start[start] == found[root([totals[place] for place in found])]
    assert set(tie.by_start.tolist()) <= set(tie.best.tolist())
    assert tie.chance(len(feasible)).sum() == pytest.approx(1)


def test_of_a_race_any_of_the_best_nodes_may_come_but_no_other() -> None:
    tie = tie_break(np.array([7, 7, 3, 7]), np.arange(4), [by_name(np.arange(4))], raced=0.3)
    assert tie.chance(4, np.array([1])).tolist() == pytest.approx([0.1, 0.8, 0.0, 0.1])
