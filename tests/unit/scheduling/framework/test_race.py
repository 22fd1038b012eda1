"""Landings on large clusters cover what several workers may find, whoever of them is ahead."""

from __future__ import annotations

import numpy as np
import pytest

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework.draws import ONE_WORKER, Workers, chunk_size
from rebalancer.scheduling.framework.sampling import Search
from rebalancer.scheduling.framework.scores import RawScores
from tests.unit.scheduling.framework.plain_plugins import ByMaximum, ByRange, Plain

PARALLELISM = 16
SIXTEEN = Workers(PARALLELISM)


def chances(scores: list[RawScores], nodes: int, limit: int, workers: Workers) -> FloatArray:
    return Search(np.arange(nodes), np.arange(nodes), limit, workers).chances(scores)


def raced(
    random: np.random.Generator, totals: IntArray, limit: int, workers: int, starts: int, spread: float
) -> FloatArray:
    """The share of each node of all starts, one step of one worker at a time, as the scheduler does it."""
    nodes = len(totals)
    size = chunk_size(nodes, PARALLELISM)
    won = np.zeros(nodes)
    for start in np.linspace(0, nodes, starts, endpoint=False).astype(int):
        ready = {worker: spread * random.random() for worker in range(workers)}
        chunk: dict[int, list[int]] = {worker: [] for worker in range(workers)}
        waiting = [list(range(first, min(first + size, nodes))) for first in range(0, nodes, size)]
        found: list[int] = []
        while len(found) < limit:
            worker = min(ready, key=lambda item: ready[item])
            if not chunk[worker]:
                chunk[worker] = waiting.pop(0) if waiting else []
                if not chunk[worker]:
                    del ready[worker]
                    continue
            found.append((start + chunk[worker].pop(0)) % nodes)
            ready[worker] += 1 + spread * random.random()
        seen = np.array(found)
        best = seen[totals[seen] == totals[seen].max()]
        won[best] += 1 / len(best) / starts
    return won


@pytest.mark.parametrize(("nodes", "limit"), [(110, 100), (200, 100), (600, 270), (1000, 420)])
@pytest.mark.parametrize("workers", [1, 2, 5, 16])
def test_no_race_lands_on_a_node_that_is_not_possible(nodes: int, limit: int, workers: int) -> None:
    random = np.random.default_rng([nodes, workers])
    totals = random.integers(0, 400, nodes)
    predicted = chances([RawScores(Plain(), 1, totals)], nodes, limit, Workers(PARALLELISM, PARALLELISM))
    for spread in (0.0, 0.5, 3.0):
        landed = raced(random, totals, limit, workers, 100, spread)
        assert not (landed[predicted == 0] > 0).any()


def test_chances_are_those_of_races_of_as_many_workers_as_may_run() -> None:
    random = np.random.default_rng(5)
    totals = random.permutation(200)
    predicted = chances([RawScores(Plain(), 1, totals)], 200, 100, SIXTEEN)
    landed = np.mean([raced(random, totals, 100, count, 200, 0.3) for count in SIXTEEN.at_once()], axis=0)
    assert abs(predicted - landed).sum() / 2 < 0.06


@pytest.mark.parametrize(("nodes", "limit", "pool"), [(500, 230, 40), (1000, 420, 20)])
@pytest.mark.parametrize("alike", [True, False])
def test_searches_that_begin_elsewhere_find_none_of_the_best_nodes_where_these_are_neighbours(
    nodes: int, limit: int, pool: int, alike: bool
) -> None:
    """A pool of new nodes, whose names begin alike, is missed by every second search, or every third."""
    random = np.random.default_rng([nodes, pool])
    totals = random.permutation(nodes)
    totals[200 : 200 + pool] = nodes + (0 if alike else random.permutation(pool))
    predicted = chances([RawScores(Plain(), 1, totals)], nodes, limit, SIXTEEN)
    landed = np.mean([raced(random, totals, limit, count, 100, 0.3) for count in SIXTEEN.at_once()], axis=0)
    assert abs(predicted - landed).sum() / 2 < 0.1
    assert not (landed[predicted == 0] > 0).any()


@pytest.mark.parametrize("kind", [ByMaximum(), ByRange()])
@pytest.mark.parametrize("least", [60, 99])
def test_extremes_of_many_neighbours_are_not_those_of_every_sample(
    kind: ByMaximum | ByRange, least: int
) -> None:
    """Where none of the hundred is found, what the plugin scores of the others weighs more."""
    random = np.random.default_rng(8)
    raw = np.append(random.integers(0, 10, 500), random.integers(least, 100, 100))
    scores = [RawScores(Plain(), 1, random.integers(0, 100, 600)), RawScores(kind, 1, raw)]
    predicted, alone = (chances(scores, 600, 200, workers) for workers in (SIXTEEN, ONE_WORKER))
    # Several workers find some of them more often: with one, half of the searches do, with these two thirds.
    assert abs(predicted - alone).sum() / 2 < 0.26


def test_nodes_alike_are_equally_likely() -> None:
    predicted = chances([RawScores(Plain(), 1, np.zeros(300, np.int64))], 300, 120, SIXTEEN)
    np.testing.assert_allclose(predicted, 1 / 300)


@pytest.mark.parametrize("kinds", [[Plain()], [Plain(), ByMaximum()]])
def test_chances_sum_to_one_and_hold_all_of_one_worker(kinds: list[Plain | ByMaximum]) -> None:
    random = np.random.default_rng(3)
    rare = np.where(np.arange(400) < 5, 50, random.integers(0, 9, 400))
    scores = [
        RawScores(kind, 1, random.integers(0, 90, 400) if index == 0 else rare)
        for index, kind in enumerate(kinds)
    ]
    predicted, alone = (chances(scores, 400, 150, workers) for workers in (SIXTEEN, ONE_WORKER))
    assert predicted.sum() == pytest.approx(1)
    assert (predicted[alone > 0] > 0).all()


def test_where_few_nodes_are_feasible_enough_of_them_are_found() -> None:
    """The best node is feasible, and within reach of a search in two of three starts and more."""
    feasible = np.arange(0, 900, 3)
    totals = np.arange(300)
    predicted = Search(feasible, np.arange(900), 200, SIXTEEN).chances([RawScores(Plain(), 1, totals)])
    assert predicted[-1] == pytest.approx(2 / 3, abs=0.05)
