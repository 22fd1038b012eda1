"""The chances of landing beside those of searches that are carried out, worker by worker and node by node."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.scheduling.framework import sampling
from rebalancer.scheduling.framework.sampling import Search, nodes_to_find
from rebalancer.scheduling.state.nodes import NodeOrder
from tests.conftest import some_of
from tests.rows import rows

PARALLELISM = 16
Ordering = Callable[[np.random.Generator], IntArray]


def search(
    candidates: int,
    limit: int,
    *,
    listed: BoolArray | None = None,
    feasible: IntArray | None = None,
    passing: IntArray | None = None,
) -> Search:
    every = np.arange(candidates)
    order = NodeOrder(every, np.zeros(candidates, np.bool_) if listed is None else listed)
    feasible = every if feasible is None else feasible
    return Search(feasible, feasible if passing is None else passing, [order], limit)


def sample(
    order: IntArray, limit: int, workers: int, spread: float, random: np.random.Generator
) -> list[int]:
    """What a search finds: each worker takes the next chunk of nodes, and looks at one after the other."""
    size = max(1, min(math.isqrt(len(order)), len(order) // PARALLELISM + 1))
    ready = [(spread * random.random(), worker) for worker in range(workers)]
    heapq.heapify(ready)
    chunks: dict[int, list[int]] = {worker: [] for worker in range(workers)}
    taken = 0
    nodes: list[int] = []
    while len(nodes) < limit:
        at, worker = heapq.heappop(ready)
        if not chunks[worker]:
            chunks[worker] = order[taken : taken + size].tolist()[::-1]
            taken += size
            if not chunks[worker]:
                continue
        nodes.append(chunks[worker].pop())
        heapq.heappush(ready, (at + 1 + spread * random.random(), worker))
    return nodes


def landed(totals: IntArray, limit: int, ordering: Ordering, seed: int, starts: int = 150) -> FloatArray:
    """The share of each node of many searches, from every start, by few workers and many, even and uneven."""
    random = np.random.default_rng(seed)
    won = np.zeros(len(totals))
    for workers in (1, 2, 4, 8, 16):
        for spread in (0.3, 3.0):
            for start in np.linspace(0, len(totals), starts, endpoint=False).astype(int):
                nodes = np.array(sample(np.roll(ordering(random), -start), limit, workers, spread, random))
                best = nodes[totals[nodes] == totals[nodes].max()]
                won[best] += 1 / len(best)
    return np.asarray(won / won.sum())


def by_name(count: int) -> Ordering:
    return lambda random: np.arange(count)


def listed_in_no_order(listed: BoolArray) -> Ordering:
    """The listed nodes come first, in any order, then the others one after the other."""
    rows = listed.nonzero()[0]
    later = (~listed).nonzero()[0]
    return lambda random: np.concatenate([random.permutation(rows), later])


def total_variation(one: FloatArray, other: FloatArray) -> float:
    return float(abs(one - other).sum() / 2)


@pytest.mark.many_cases
@pytest.mark.parametrize("nodes", some_of([150, 300, 1000]))
def test_chances_are_near_those_of_searches_by_several_workers_and_none_lands_elsewhere(nodes: int) -> None:
    random = np.random.default_rng(nodes)
    limit = nodes_to_find(nodes, 0)
    differences = []
    for highest in (60, 100_000):
        totals = random.integers(0, highest, nodes)
        predicted = search(nodes, limit).chances(totals)
        happened = landed(totals, limit, by_name(nodes), seed=nodes)
        assert not (happened[predicted == 0] > 0).any()
        differences.append(total_variation(predicted, happened))
    assert np.mean(differences) < 0.05


@pytest.mark.many_cases
@pytest.mark.parametrize(("nodes", "pool"), some_of([(300, 12), (1000, 40)]))
def test_many_searches_find_none_of_the_best_nodes_where_these_are_neighbours(nodes: int, pool: int) -> None:
    totals = np.random.default_rng(pool).permutation(nodes)
    totals[nodes // 3 : nodes // 3 + pool] += nodes
    limit = nodes_to_find(nodes, 0)
    predicted = search(nodes, limit).chances(totals)
    happened = landed(totals, limit, by_name(nodes), seed=pool)
    assert total_variation(predicted, happened) < 0.15
    assert not (happened[predicted == 0] > 0).any()


@pytest.mark.many_cases
@pytest.mark.parametrize(("nodes", "young"), some_of([(300, 30), (200, 0), (600, 400)]))
def test_nodes_that_were_listed_in_no_order_have_the_chances_of_all_orders(nodes: int, young: int) -> None:
    random = np.random.default_rng(young)
    listed = np.arange(nodes) < nodes - young
    totals = random.integers(0, 300, nodes) + 60 * ~listed
    limit = nodes_to_find(nodes, 0)
    predicted = search(nodes, limit, listed=listed).chances(totals)
    happened = landed(totals, limit, listed_in_no_order(listed), seed=young)
    assert total_variation(predicted, happened) < 0.1


@pytest.mark.parametrize(("nodes", "young"), [(1000, 20), (1000, 60), (5000, 100)])
def test_a_pool_of_young_nodes_is_found_as_often_as_a_search_comes_by_it(nodes: int, young: int) -> None:
    """They are alike, better than all others, and one after the other at the end of the list."""
    listed = np.arange(nodes) < nodes - young
    totals = np.where(listed, np.random.default_rng(young).integers(0, 90, nodes), 100)
    limit = nodes_to_find(nodes, 0)
    windows = search(nodes, limit, listed=listed).chances(totals)[~listed].sum()
    found = (limit + young - 1) / nodes
    assert windows == pytest.approx(sampling.WINDOWS * found + 1 - sampling.WINDOWS, abs=0.01)


@given(st.data())
def test_the_windows_of_one_worker_are_those_of_the_search_from_every_start(data: st.DataObject) -> None:
    candidates = data.draw(st.integers(2, 25))
    masks = st.lists(st.booleans(), min_size=candidates, max_size=candidates)
    passes = np.array(data.draw(masks.filter(any)))
    rejected = np.array(data.draw(masks)) & passes
    limit = data.draw(st.integers(1, candidates))
    passing, feasible = passes.nonzero()[0], (passes & ~rejected).nonzero()[0]
    if len(passing) <= limit or not len(feasible) or len(passing) - len(feasible) >= limit:
        return
    levels = st.lists(st.integers(0, 3), min_size=candidates, max_size=candidates)
    totals = np.array(data.draw(levels))
    expected = np.zeros(candidates)
    for start in range(candidates):
        walk = np.roll(np.arange(candidates), -start)
        compared = [row for row in walk[passes[walk]][:limit] if not rejected[row]]
        best = [row for row in compared if totals[row] == totals[compared].max()]
        expected[best] += 1 / len(best) / candidates
    model = search(candidates, limit, feasible=feasible, passing=passing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "WINDOWS", 1.0)
        predicted = model.chances(totals[feasible])
    np.testing.assert_allclose(predicted, expected[feasible], atol=1e-9)


def test_without_scores_each_feasible_node_is_as_likely_to_be_the_first_one() -> None:
    for nodes in (40, 300):
        predicted = search(nodes, 1).chances(np.zeros(nodes, np.int64))
        np.testing.assert_allclose(predicted, 1 / nodes)


def test_nodes_alike_are_equally_likely() -> None:
    np.testing.assert_allclose(search(300, 120).chances(np.zeros(300, np.int64)), 1 / 300)


def test_where_few_nodes_are_feasible_enough_of_them_are_found() -> None:
    """The best node is feasible, and two of three searches find it."""
    predicted = search(900, 200, feasible=np.arange(0, 900, 3)).chances(np.arange(300))
    assert predicted[-1] == pytest.approx(2 / 3, abs=0.01)


def test_a_search_that_finds_all_nodes_takes_one_of_the_best() -> None:
    assert search(4, 4).chances(np.array([1, 3, 3, 2])).tolist() == [0.0, 0.5, 0.5, 0.0]


@rows(
    "candidates, percentage, limit",
    [
        (99, 0, 99),
        (100, 0, 100),
        (150, 0, 100),
        (1000, 0, 420),
        (5000, 0, 500),
        (10_000, 0, 500),
        (1000, 30, 300),
    ],
)
def test_as_many_nodes_are_found_as_the_scheduler_looks_for(
    candidates: int, percentage: int, limit: int
) -> None:
    assert nodes_to_find(candidates, percentage) == limit


def test_a_node_may_be_taken_if_a_sample_can_hold_none_that_is_surely_better() -> None:
    """Three of five are compared, and the total of the second is only known to be 2 to 6."""
    lowest, highest = np.array([1, 2, 5, 5, 3]), np.array([1, 6, 5, 5, 3])
    assert search(5, 3).may_be_taken(lowest, highest).tolist() == [False, True, True, True, True]


def test_searches_of_one_order_that_end_at_different_numbers_have_chances_of_their_own() -> None:
    totals = np.random.default_rng(5).integers(0, 300, 400)
    every = np.arange(400)
    one_order = NodeOrder(every, np.zeros(400, np.bool_))
    for limit in (100, 150, 100):
        chances = Search(every, every, [one_order], limit).chances(totals)
        assert np.array_equal(chances, search(400, limit).chances(totals)), limit
