"""A scheduler of 1.35 and later with one worker takes the root of the heap of what it found, in its order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework.race import Workers
from rebalancer.scheduling.framework.sampling import Search, Searches
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.framework.start_index import heap_roots
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


def test_several_workers_find_nodes_in_any_order_so_the_best_are_equally_likely() -> None:
    rows, order, equal = np.array([0, 3]), np.arange(4), [RawScores(Plain(), 1, np.array([7, 7]))]
    chances = {
        parallelism: Searches(Workers(parallelism)).over(rows, order, 4, heap=True).chances(equal).tolist()
        for parallelism in (1, 16)
    }
    assert chances == {1: [0.25, 0.75], 16: [0.5, 0.5]}  # three of four starts come to the second first
