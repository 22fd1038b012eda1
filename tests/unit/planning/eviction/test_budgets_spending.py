"""What evictions of a wave spend of budgets."""

from __future__ import annotations

import pytest

from rebalancer.planning.eviction.budgets import Budget, Spending, WaveBudgets, allowed_by
from tests.builders import a_budget, a_snapshot


def a_counted(name: str, allowed: int) -> Budget:
    return Budget(
        name=f"shop/{name}",
        matches=lambda _labels: True,
        allowed=allowed,
        healthy=True,
        always_allow_unready=False,
        message="",
    )


WEB, ALL = a_counted("web", 2), a_counted("all", 1)


def test_a_wave_spends_a_budget_until_it_allows_no_more() -> None:
    wave = WaveBudgets()
    spending = Spending((WEB,), free=False)
    for spent in range(2):
        assert wave.exhausted(spending) is None, spent
        wave.spend(spending)

    assert wave.exhausted(spending) is WEB


def test_a_pod_that_is_free_spends_nothing_and_goes_where_nothing_is_left() -> None:
    wave = WaveBudgets()
    for _ in range(5):
        wave.spend(Spending((WEB,), free=True))
    assert wave.exhausted(Spending((WEB,), free=False)) is None

    for _ in range(2):
        wave.spend(Spending((WEB,), free=False))
    assert wave.exhausted(Spending((WEB,), free=True)) is None
    assert wave.exhausted(Spending((WEB,), free=False)) is WEB


def test_a_copy_counts_for_itself() -> None:
    wave = WaveBudgets()
    one = Spending((ALL,), free=False)
    copied = wave.copy()
    copied.spend(one)

    assert (wave.exhausted(one), copied.exhausted(one)) == (None, ALL)
    assert copied.copy().exhausted(one) is ALL


def test_a_pod_without_budgets_is_never_held_back() -> None:
    assert WaveBudgets().exhausted(Spending((), free=False)) is None


@pytest.mark.parametrize(("allowed", "counted"), [(3, 3), (0, 0), (-1, 0)])
def test_a_budget_allows_what_its_status_says_and_never_less_than_nothing(allowed: int, counted: int) -> None:
    (record,) = a_snapshot(poddisruptionbudgets=[a_budget("web", labels={}, allowed=allowed)]).budgets or ()
    assert allowed_by(record)[0] == counted


ROOM = [
    # hard, used, how many more pods of 500m and 1Gi
    ({"pods": "5"}, {"pods": "3"}, 2),
    ({"count/pods": "5"}, {"count/pods": "5"}, 0),
    ({"pods": "5"}, {"pods": "7"}, 0),
    ({"pods": "5"}, None, 5),
    ({"requests.cpu": "2"}, {"requests.cpu": "500m"}, 3),
    ({"cpu": "2"}, {"cpu": "1600m"}, 0),
    ({"requests.memory": "4Gi"}, {"requests.memory": "1Gi"}, 3),
    ({"pods": "5", "cpu": "2"}, {"pods": "1", "cpu": "1"}, 2),
    ({"cpu": "many"}, {"cpu": "1"}, 0),
]
