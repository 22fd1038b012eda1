"""What evictions of a wave spend of budgets."""

from __future__ import annotations

import pytest

from rebalancer.planning.eviction.budgets import Budget, Budgets, allowed_by, exhausted
from tests.builders import a_budget, a_node, a_snapshot
from tests.unit.planning.builders import a_workload


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
    for spent in range(2):
        assert exhausted((WEB,), {WEB.name: spent}) is None, spent

    assert exhausted((WEB,), {WEB.name: 2}) is WEB
    assert exhausted((WEB, ALL), {ALL.name: 1}) is ALL


@pytest.mark.parametrize("ready", [True, False])
def test_a_pod_that_is_not_ready_spends_nothing_and_goes_where_nothing_is_left(ready: bool) -> None:
    budget = a_budget("web", labels={}, allowed=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    (pod,) = a_workload("web", ["a"], ready=ready).pods
    budgets = Budgets(a_snapshot(nodes=[a_node("a")], pods=[pod], poddisruptionbudgets=[budget]))
    (web,) = budgets.of(0)

    assert budgets.spent_by(0) == ((web,) if ready else ())
    assert exhausted(budgets.spent_by(0), {}) is (web if ready else None)


def test_a_pod_without_budgets_is_never_held_back() -> None:
    assert exhausted((), {WEB.name: 9}) is None


@pytest.mark.parametrize(("allowed", "counted"), [(3, 3), (0, 0), (-1, 0)])
def test_a_budget_allows_what_its_status_says_and_never_less_than_nothing(allowed: int, counted: int) -> None:
    (record,) = a_snapshot(poddisruptionbudgets=[a_budget("web", labels={}, allowed=allowed)]).budgets or ()
    assert allowed_by(record)[0] == counted
