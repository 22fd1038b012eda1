"""The chances of landing are those of the search itself, started from every place in turn."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework.draws import ONE_WORKER, Workers
from rebalancer.scheduling.framework.plugin import EXCLUDED
from rebalancer.scheduling.framework.sampling import Search, Searches, nodes_to_find
from rebalancer.scheduling.framework.scores import RawScores
from tests.conftest import examples
from tests.unit.scheduling.framework.plain_plugins import ByMaximum, ByRange, Plain


def simulate(
    scores: list[RawScores],
    positions: IntArray,
    candidates: int,
    limit: int,
    rejected: Collection[int] = (),
) -> FloatArray:
    """Search from every start, score what was found and is not rejected, and share among the best."""
    chance = np.zeros(len(positions))
    by_position = {position: index for index, position in enumerate(positions.tolist())}
    for start in range(candidates):
        walk = ((start + step) % candidates for step in range(candidates))
        seen = [place for place in walk if place in by_position or place in rejected][:limit]
        found = np.array([by_position[place] for place in seen if place in by_position])
        totals = np.zeros(len(found), np.int64)
        for item in scores:
            seen = item.raw[found]
            counted = seen[seen != EXCLUDED]
            smallest = int(counted.min()) if len(counted) else np.iinfo(np.int64).max
            totals += item.weight * item.plugin.normalize(seen, int(smallest), int(seen.max()))
        best = found[totals == totals.max()]
        chance[best] += 1 / len(best) / candidates
    return chance


def chances(scores: list[RawScores], positions: IntArray, candidates: int, limit: int) -> FloatArray:
    return Search(positions, np.arange(candidates), limit).chances(scores)


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[RawScores], IntArray, int, int]:
    candidates = draw(st.integers(2, 60))
    everywhere = st.lists(st.integers(0, candidates - 1), min_size=2, max_size=60, unique=True)
    positions = np.array(sorted(draw(everywhere)))
    scores = []
    for plugin in draw(st.lists(st.sampled_from((Plain(), ByMaximum(), ByRange())), max_size=3)):
        value = st.integers(0, draw(st.sampled_from((1, 3, 100))))
        value = st.one_of(value, st.just(EXCLUDED)) if plugin.name == "ByRange" else value
        raw = draw(st.lists(value, min_size=len(positions), max_size=len(positions)))
        scores.append(RawScores(plugin, draw(st.integers(1, 3)), np.array(raw, np.int64)))
    return scores, positions, candidates, draw(st.integers(1, len(positions)))


@settings(max_examples=examples(300), deadline=None)
@given(searches())
def test_the_chances_are_those_of_searches_from_every_start(
    search: tuple[list[RawScores], IntArray, int, int],
) -> None:
    found, expected = chances(*search), simulate(*search)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert ((found > 0) == (expected > 0)).all()


@settings(max_examples=examples(300), deadline=None)
@given(searches(), st.data())
def test_what_an_extender_rejects_is_missing_in_the_searches_that_found_it(
    search: tuple[list[RawScores], IntArray, int, int], data: st.DataObject
) -> None:
    scores, positions, candidates, _ = search
    others = sorted(set(range(candidates)) - set(positions.tolist()))
    rejected = data.draw(st.sets(st.sampled_from(others))) if others else set()
    every = np.array(sorted({*positions.tolist(), *rejected}))
    limit = data.draw(st.integers(len(rejected) + 1, len(every)))
    searched = Search(positions, np.arange(candidates), limit, found=every)
    expected = simulate(scores, positions, candidates, limit, rejected)
    assert not searched.may_be_empty
    np.testing.assert_allclose(searched.chances(scores), expected, rtol=0, atol=1e-12)
    parts = [searched.of_sizes(size, size) for size in searched.sizes]
    divided = [share * part.chances(scores) for share, part in parts if part is not None]
    np.testing.assert_allclose(np.sum(divided, axis=0), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("levels", [2, 40, 4000])
def test_many_nodes_of_equal_total_have_the_chances_of_the_search(levels: int) -> None:
    generator = np.random.default_rng(levels)
    raw = generator.integers(0, levels, 400)
    scores = [RawScores(Plain(), 1, raw), RawScores(ByMaximum(), 2, raw // 3)]
    positions = np.sort(generator.choice(500, 400, replace=False))
    np.testing.assert_allclose(
        chances(scores, positions, 500, 120), simulate(scores, positions, 500, 120), atol=1e-12
    )


def test_the_scheduler_looks_at_fewer_nodes_of_a_larger_cluster() -> None:
    assert [nodes_to_find(count, 0) for count in (50, 100, 1000, 5000, 6000)] == [50, 100, 420, 500, 300]


@pytest.mark.parametrize("seed", range(4))
def test_nodes_without_a_part_in_the_extremes_have_the_chances_of_the_search(seed: int) -> None:
    generator = np.random.default_rng(seed)
    ranged = np.where(generator.random(150) < 0.05, EXCLUDED, generator.integers(0, 9000, 150))
    scores = [RawScores(ByRange(), 2, ranged), RawScores(Plain(), 1, generator.integers(0, 90, 150))]
    positions = np.sort(generator.choice(200, 150, replace=False))
    np.testing.assert_allclose(
        chances(scores, positions, 200, 100), simulate(scores, positions, 200, 100), atol=1e-12
    )


def test_scores_in_row_order_land_in_the_order_of_the_search() -> None:
    generator = np.random.default_rng(7)
    scores = [
        RawScores(Plain(), 1, generator.integers(0, 9, 130)),
        RawScores(ByRange(), 2, generator.integers(0, 50, 130)),
    ]
    order = generator.permutation(130)
    reordered = [RawScores(item.plugin, item.weight, item.raw[order]) for item in scores]
    found = Search(np.arange(130), order, 100).chances(scores)
    np.testing.assert_allclose(found[order], simulate(reordered, np.arange(130), 130, 100), atol=1e-12)


@settings(max_examples=examples(200), deadline=None)
@given(searches(), st.data())
def test_of_two_orders_that_the_scheduler_may_have_each_counts_half(
    search: tuple[list[RawScores], IntArray, int, int], data: st.DataObject
) -> None:
    scores, positions, candidates, limit = search
    rows = st.permutations(range(candidates))
    orders = [np.arange(candidates), np.array(data.draw(rows))]
    rejected = data.draw(st.integers(0, min(limit, len(positions)) - 1))
    feasible = positions[rejected:]  # extenders reject the others, once they are found
    scores = [RawScores(item.plugin, item.weight, item.raw[rejected:]) for item in scores]
    searched = Searches(ONE_WORKER).over(feasible, orders, limit, found=positions)
    each = [Search(feasible, order, limit, found=positions).chances(scores) for order in orders]
    np.testing.assert_allclose(searched.chances(scores), np.mean(each, axis=0), rtol=0, atol=1e-12)
    parts = [searched.of_sizes(size, size) for size in searched.sizes]
    divided = [share * part.chances(scores) for share, part in parts if part is not None]
    np.testing.assert_allclose(np.sum(divided, axis=0), np.mean(each, axis=0), rtol=0, atol=1e-12)
    bounds = np.zeros(len(feasible), np.int64)
    assert (searched.possible(scores, bounds, bounds) >= (np.mean(each, axis=0) > 0)).all()


def test_an_order_that_is_twice_as_likely_has_twice_the_share() -> None:
    rows, equal = np.arange(5), [RawScores(Plain(), 1, np.array([5, 5, 1, 1, 1]))]
    orders = [np.arange(5), np.arange(5)[::-1]]
    for limit in 5, 2:
        searches_of = Searches(ONE_WORKER)
        both = searches_of.over(rows, orders, limit, heap=True, counts=(2, 1)).outcome(equal)
        each = [searches_of.over(rows, [order], limit, heap=True).chances(equal) for order in orders]
        np.testing.assert_allclose(both[0], (2 * each[0] + each[1]) / 3)
        assert not np.allclose(each[0], each[1])
        if both[1] is not None:
            np.testing.assert_allclose(both[1].chance(5), both[0])


@pytest.mark.parametrize("parallelism", [1, 16])
def test_among_equal_nodes_order_and_start_decide_together(parallelism: int) -> None:
    rows, equal = np.arange(4), [RawScores(Plain(), 1, np.array([5, 5, 1, 5]))]
    orders = [np.array([0, 1, 2, 3]), np.array([3, 2, 1, 0])]
    searches_of = Searches(Workers(parallelism))
    chance, tie = searches_of.over(rows, orders, 4, heap=True).outcome(equal)
    single = [searches_of.over(rows, [order], 4, heap=True).outcome(equal) for order in orders]
    assert tie is not None
    assert tie.by_start.tolist() == [row for _, one in single if one is not None for row in one.by_start]
    np.testing.assert_allclose(chance, tie.chance(4))
    np.testing.assert_allclose(chance, np.mean([found for found, _ in single], axis=0))
