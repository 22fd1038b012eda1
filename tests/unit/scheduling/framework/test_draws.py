"""Draws of searches are those that the scheduler may make: by several workers, of nodes in no order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework.draws import Workers, chunk_size, interleavings, orders
from rebalancer.scheduling.framework.sampling import Search, nodes_to_find
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.state.nodes import Unordered, node_order
from tests.builders import a_node, a_snapshot
from tests.unit.scheduling.framework.plain_plugins import ByMaximum, Plain

SIXTEEN = Workers(16)


@pytest.mark.parametrize(
    ("workers", "counts"),
    [
        (Workers(1, 8), [1]),
        (Workers(16, 1), [1, 2]),
        (Workers(16, 2), [1, 2]),
        (Workers(16, 6), [1, 2, 4, 6]),
        (Workers(4), [1, 2, 4]),
        (Workers(16, 64), [1, 2, 4, 8, 16]),
    ],
)
def test_no_more_workers_advance_at_once_than_there_are_or_cores(workers: Workers, counts: list[int]) -> None:
    found = workers.at_once()
    assert sorted(found) == counts
    assert sum(found.values()) == pytest.approx(1)


def test_chunks_are_those_of_the_scheduler() -> None:
    assert [chunk_size(count, 16) for count in (1, 100, 200, 1000, 5000)] == [1, 7, 13, 31, 70]


def test_the_same_search_has_the_same_draws() -> None:
    interleavings.cache_clear()
    first = interleavings(150, 100, SIXTEEN).times
    interleavings.cache_clear()
    assert (interleavings(150, 100, SIXTEEN).times == first).all()


def known(nodes: Unordered) -> tuple[IntArray, IntArray]:
    return np.frombuffer(nodes.zones, np.int64), np.frombuffer(nodes.later[0], np.int64)


def searched(
    random: np.random.Generator,
    zones: IntArray,
    later: IntArray,
    scores: Sequence[RawScores],
    rows: IntArray,
    limit: int = 0,
) -> FloatArray:
    """The share of each feasible node of many searches, each over an order of its own, from any start."""
    labels = [{"topology.kubernetes.io/zone": f"z{zone}"} for zone in zones]
    feasible = np.full(len(zones), -1)
    feasible[rows] = np.arange(len(rows))
    won = np.zeros(len(rows))
    for _ in range(1200):
        known = np.where(later, later, random.random(len(zones))).argsort()
        listed = feasible[known[node_order([labels[row] for row in known])]]
        for start in random.integers(0, len(zones), 3):
            walk = np.roll(listed, -start)
            seen = walk[walk >= 0][: limit or nodes_to_find(len(zones), 0)]
            totals = np.zeros(len(seen), np.int64)
            for item in scores:
                raw = item.raw[seen]
                totals += item.weight * item.plugin.normalize(raw, int(raw.min()), int(raw.max()))
            best = seen[totals == totals.max()]
            won[best] += 1 / len(best)
    return np.asarray(won / won.sum())


@pytest.mark.parametrize(
    ("zones", "young", "feasible"),
    [((150,), 0, 1.0), ((70, 50, 30), 0, 0.8), ((120, 20, 10), 30, 0.8), ((2,) * 75, 0, 1.0)],
)
def test_nodes_in_no_order_have_the_chances_of_searches_over_all_orders(
    zones: tuple[int, ...], young: int, feasible: float
) -> None:
    random = np.random.default_rng([len(zones), young])
    zone = random.permutation(np.arange(len(zones)).repeat(zones))
    later = np.zeros(len(zone), np.int64)
    later[random.permutation(len(zone))[:young]] = np.arange(1, young + 1)
    rows = np.sort(random.permutation(len(zone))[: int(feasible * len(zone))])
    rare = np.where(random.random(len(rows)) < 0.1, random.integers(0, 20, len(rows)), 0)
    scores = [
        RawScores(Plain(), 1, random.integers(0, 60, len(rows)) + 20 * (later[rows] > 0)),
        RawScores(ByMaximum(), 1, rare),
    ]
    nodes = Unordered(zone.tobytes(), (later.tobytes(),))
    predicted = Search(rows, nodes, nodes_to_find(len(zone), 0), SIXTEEN).chances(scores)
    assert abs(predicted - searched(random, zone, later, scores, rows)).sum() / 2 < 0.05


@pytest.mark.parametrize(("count", "young"), [(1000, 20), (1000, 60), (5000, 300)])
def test_searches_that_begin_elsewhere_find_none_of_many_younger_nodes(count: int, young: int) -> None:
    """They are alike, better than all others, and one after the other at the end of the list."""
    later = np.append(np.zeros(count - young, np.int64), np.arange(1, young + 1))
    nodes, limit = Unordered(np.zeros(count, np.int64).tobytes(), (later.tobytes(),)), nodes_to_find(count, 0)
    totals = np.where(later, 100, np.random.default_rng(young).integers(0, 90, count))
    predicted = Search(np.arange(count), nodes, limit, SIXTEEN).chances([RawScores(Plain(), 1, totals)])
    assert predicted[later > 0].sum() == pytest.approx((limit + young - 1) / count, abs=0.01)


def all_listed(*zones: int) -> Unordered:
    """So many nodes in each zone, all of them there when the scheduler started."""
    zone = np.arange(len(zones)).repeat(zones)
    return Unordered(zone.tobytes(), (np.zeros(len(zone), np.int64).tobytes(),))


def test_younger_nodes_that_a_search_does_not_reach_have_no_part_in_it_however_many_they_are() -> None:
    """Of 200 that are all better than the others; a search finds 570 of the 1,500 nodes."""
    later = np.append(np.zeros(1300, np.int64), np.arange(1, 201))
    nodes, totals = Unordered(np.zeros(1500, np.int64).tobytes(), (later.tobytes(),)), np.arange(1500)
    predicted = Search(totals, nodes, 570, SIXTEEN).chances([RawScores(Plain(), 1, totals)])
    assert predicted[1300:].sum() == pytest.approx((570 + 199) / 1500, abs=0.1)


def test_where_nodes_of_small_zones_alone_are_feasible_the_search_ends_where_it_found_enough() -> None:
    """They are the first in the list: of most starts the first 160 of the 200."""
    nodes, rows, totals = all_listed(3000, 100, 100), np.arange(3000, 3200), np.arange(200)
    predicted = Search(rows, nodes, 160, SIXTEEN).chances([RawScores(Plain(), 1, totals)])
    expected = searched(
        np.random.default_rng(1), *known(nodes), [RawScores(Plain(), 1, totals)], rows, limit=160
    )
    assert abs(predicted - expected).sum() / 2 < 0.09


@pytest.mark.parametrize(("count", "order"), [(40, None), (300, None), (40, "by name"), (300, "by name")])
def test_without_scores_each_feasible_node_is_as_likely_to_be_the_first_one(
    count: int, order: str | None
) -> None:
    looked_at = np.arange(count) if order else all_listed(count)
    predicted = Search(np.arange(count), looked_at, 1, SIXTEEN).chances([])
    np.testing.assert_allclose(predicted, 1 / count)


def test_extenders_leave_as_many_nodes_of_a_sample_as_chance_has_it() -> None:
    """100 are found of 300, 20 of which they reject: six or seven in a sample, more or less."""
    random = np.random.default_rng(4)
    found = np.sort(random.permutation(400)[:300])
    search = Search(np.sort(random.permutation(found)[:280]), all_listed(400), 100, SIXTEEN, found=found)
    for sizes in ((80, 89), (90, 91), (92, 93), (94, 95), (96, 100)):
        drawn = random.hypergeometric(20, 280, 100, 100_000)
        expected = np.mean((100 - drawn >= sizes[0]) & (100 - drawn <= sizes[1]))
        assert search.of_sizes(*sizes)[0] == pytest.approx(expected, abs=0.08)


def test_nodes_that_were_created_in_one_second_are_in_no_order_either() -> None:
    """The scheduler was there before them; by age neighbours would mostly be in a sample together."""
    nodes = [a_node(f"n{number}", created="2026-01-05T12:00:00Z") for number in range(400)]
    draws = orders(Unordered.since(a_snapshot(nodes=nodes, pods=[]).nodes, [-math.inf]), 100)
    inside = draws.times <= draws.ends
    both = inside[:-1] & inside[1:]
    assert both.mean() == pytest.approx(1 / 16, abs=0.02)


def test_a_node_in_no_order_is_in_as_many_samples_as_any_other() -> None:
    """With a limit of 100 of 400 that is a quarter."""
    nodes = Unordered(np.zeros(400, np.int64).tobytes(), (np.zeros(400, np.int64).tobytes(),))
    draws = orders(nodes, 100)
    inside = draws.times <= draws.ends
    assert (inside.sum(axis=0) == 100).all()
    np.testing.assert_allclose(inside.mean(axis=1), 0.25, rtol=0, atol=0.025)
    centred = inside - inside.mean(axis=1, keepdims=True)
    pairs = (centred @ centred.T)[np.triu_indices(400, 1)] / (centred**2).sum(axis=1).min()
    assert abs(pairs).max() < 0.3  # of few orders some nodes would only be in the same samples, or in none


def test_orders_of_equal_clusters_are_the_same() -> None:
    zones, later = np.arange(150) % 3, np.zeros(150, np.int64)
    first = orders(Unordered(zones.tobytes(), (later.tobytes(),)), 100)
    assert orders(Unordered(zones.tobytes(), (later.tobytes(),)), 100) is first
    orders.cache_clear()
    assert (orders(Unordered(zones.tobytes(), (later.tobytes(),)), 100).times == first.times).all()
