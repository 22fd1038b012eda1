"""Chances that a search knows from a moment ago are those that it would compute, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.planning.landing.scenarios import MAX_SCENARIOS
from rebalancer.scheduling.framework.draws import ONE_WORKER, Workers
from rebalancer.scheduling.framework.race import Race
from rebalancer.scheduling.framework.sampling import Search
from rebalancer.scheduling.framework.scores import RawScores
from tests.conftest import examples
from tests.unit.scheduling.framework.plain_plugins import ByMaximum, Plain

NODES, LIMIT = 160, 100


PLAIN, BY_MAXIMUM = Plain(), ByMaximum()


def scores_of(plain: IntArray, compared: IntArray) -> list[RawScores]:
    return [RawScores(PLAIN, 1, plain), RawScores(BY_MAXIMUM, 2, compared)]


def a_search(workers: Workers) -> Search:
    return Search(np.arange(NODES), np.arange(NODES), LIMIT, workers)


def changes(random: np.random.Generator, plain: IntArray, levels: int) -> Iterator[IntArray]:
    """One row or a few take other values, near the best and far from it."""
    for _ in range(12):
        plain = plain.copy()
        rows = random.choice(NODES, int(random.integers(1, 4)), replace=False)
        plain[rows] = random.integers(0, levels, len(rows))
        yield plain


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 6, 40, 400]), st.sampled_from([1, 3, 50]), st.booleans())
def test_known_chances_are_those_of_a_new_search(seed: int, levels: int, seen: int, many: bool) -> None:
    random = np.random.default_rng(seed)
    workers = Workers(cores=4) if many else ONE_WORKER
    plain, compared = random.integers(0, levels, NODES), random.integers(0, seen, NODES)
    search = a_search(workers)
    search.chances(scores_of(plain, compared))
    for changed in changes(random, plain, levels):
        found = search.chances(scores_of(changed, compared))
        np.testing.assert_array_equal(found, a_search(workers).chances(scores_of(changed, compared)))


def counted_races(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One more item for each race that is computed."""
    computed: list[int] = []
    race = Race.chances

    def counted(self: Race, *arguments: object) -> FloatArray:
        computed.append(1)
        return race(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Race, "chances", counted)
    return computed


def test_a_node_far_from_the_best_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, compared = np.arange(NODES) % 80, np.arange(NODES) % 3
    search, computed = a_search(Workers(cores=4)), counted_races(monkeypatch)
    first = search.chances(scores_of(plain, compared))
    worst, best = plain.copy(), plain.copy()
    worst[0], best[int(first.argmax())] = 5, 0
    assert search.chances(scores_of(worst, compared)) is first
    assert len(computed) == 1
    assert not np.array_equal(search.chances(scores_of(best, compared)), first)
    assert len(computed) == 2


def test_a_replacement_that_is_tried_in_all_scenarios_is_not_computed_again_once_its_pod_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search, computed = a_search(Workers(cores=4)), counted_races(monkeypatch)
    compared = np.arange(NODES) % 3
    by_scenario = [np.arange(NODES) % 80 for _ in range(MAX_SCENARIOS)]
    for scenario, plain in enumerate(by_scenario):
        plain[scenario] = 1000  # the best node is another one in each
    while_terminating = [search.chances(scores_of(plain, compared)) for plain in by_scenario]
    for plain in by_scenario:
        plain[81] = 3  # the node that the pod has left, far from the best
    once_gone = [search.chances(scores_of(plain, compared)) for plain in by_scenario]
    assert list(map(id, once_gone)) == list(map(id, while_terminating))
    assert len(computed) == MAX_SCENARIOS


def test_scores_of_another_weight_have_chances_of_their_own() -> None:
    plain, compared = np.arange(NODES) % 80, np.arange(NODES) % 7
    search = a_search(Workers(cores=4))
    search.chances(scores_of(plain, compared))
    for weight in (1, 50):
        weighted = [RawScores(PLAIN, 1, plain), RawScores(BY_MAXIMUM, weight, compared)]
        np.testing.assert_array_equal(search.chances(weighted), a_search(Workers(cores=4)).chances(weighted))
