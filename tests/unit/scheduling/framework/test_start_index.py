"""A scheduler of 1.35 and later takes the root of the heap of what it found, from where its search starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework.draws import Workers
from rebalancer.scheduling.framework.sampling import Search, Searches
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.framework.start_index import heap_roots, tie_break
from tests.unit.scheduling.framework.plain_plugins import Plain


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


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.data())
def test_the_node_taken_from_each_window_is_the_root_of_its_heap(
    totals: list[int], data: st.DataObject
) -> None:
    width = data.draw(st.integers(1, len(totals)))
    expected = [start + root(totals[start : start + width]) for start in range(len(totals) - width + 1)]
    assert heap_roots(np.array(totals), width).tolist() == expected


def by_search(totals: IntArray, positions: IntArray, candidates: int, limit: int) -> FloatArray:
    """Search from every start, and take the root of the heap of what was found."""
    chance = np.zeros(len(totals))
    of_place = dict(zip(positions.tolist(), range(len(positions)), strict=True))
    for start in range(candidates):
        walk = ((start + step) % candidates for step in range(candidates))
        found = [of_place[place] for place in walk if place in of_place][:limit]
        chance[found[root([int(totals[row]) for row in found])]] += 1 / candidates
    return chance


@given(st.data())
def test_chances_are_those_of_the_search_from_every_start(data: st.DataObject) -> None:
    candidates = data.draw(st.integers(2, 30))
    positions = np.flatnonzero(
        data.draw(st.lists(st.booleans(), min_size=candidates, max_size=candidates).filter(any))
    )
    totals = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(positions), max_size=len(positions)))
    )
    limit = data.draw(st.integers(1, candidates))
    search = Search(positions, np.arange(candidates), limit, heap=True)
    found = search.chances([RawScores(Plain(), 1, totals)])
    np.testing.assert_allclose(found, by_search(totals, positions, candidates, limit), atol=1e-9)


def test_several_workers_find_nodes_mostly_in_order_where_all_are_looked_at() -> None:
    rows, order, equal = np.array([0, 3]), np.arange(4), [RawScores(Plain(), 1, np.array([7, 7]))]
    chances = {
        parallelism: Searches(Workers(parallelism)).over(rows, [order], 4, heap=True).chances(equal).tolist()
        for parallelism in (1, 16)
    }
    # Three of four starts come to the second first; with several workers a tenth of searches is a race.
    assert chances == {1: [0.25, 0.75], 16: pytest.approx([0.275, 0.725])}


@given(st.data())
def test_from_each_start_the_root_of_the_heap_of_all_feasible_nodes_is_taken(data: st.DataObject) -> None:
    """Each start is a course of its own: what is taken from it, and from no other, is known."""
    candidates = data.draw(st.integers(2, 30))
    order = np.array(data.draw(st.permutations(range(candidates))))
    feasible = np.flatnonzero(
        data.draw(st.lists(st.booleans(), min_size=candidates, max_size=candidates).filter(any))
    )
    totals = data.draw(st.lists(st.integers(0, 2), min_size=len(feasible), max_size=len(feasible)))
    tie = tie_break(np.array(totals), feasible, order, raced=0.0)
    if tie is None:
        assert totals.count(max(totals)) == 1
        return
    of_row = dict(zip(feasible.tolist(), range(len(feasible)), strict=True))
    for start in range(candidates):
        found = [of_row[row] for row in np.roll(order, -start).tolist() if row in of_row]
        assert tie.by_start[start] == found[root([totals[place] for place in found])]
    assert set(tie.by_start.tolist()) <= set(tie.best.tolist())
    assert tie.chance(len(feasible)).sum() == pytest.approx(1)


def test_of_a_race_any_of_the_best_nodes_may_come_but_no_other() -> None:
    tie = tie_break(np.array([7, 7, 3, 7]), np.arange(4), np.arange(4), raced=0.3)
    assert tie is not None
    assert tie.chance(4, np.array([1])).tolist() == pytest.approx([0.1, 0.8, 0.0, 0.1])
