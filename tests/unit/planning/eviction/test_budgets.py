from __future__ import annotations

from typing import Any

import pytest

from rebalancer.planning.plan import Plan
from tests.builders import a_budget, a_node
from tests.rows import rows
from tests.unit.planning.builders import a_workload, because, kept, moved, plan_of, planning_inputs

WEB = {"app": "web"}


def with_budgets(*budgets: dict[str, Any], ready: bool = True) -> Plan:
    pods = [a_workload("web", ["hot"], cpu="3500m", ready=ready)]
    return plan_of(
        planning_inputs([a_node("hot"), a_node("cool", cpu=8)], pods, poddisruptionbudgets=budgets)
    )


def test_a_pod_without_a_budget_moves() -> None:
    assert moved(with_budgets()) == {"web-0": "cool"}


def test_a_budget_that_allows_a_disruption_lets_a_pod_go() -> None:
    assert moved(with_budgets(a_budget("web", labels=WEB, allowed=1))) == {"web-0": "cool"}


def test_a_budget_that_allows_none_says_what_it_counts() -> None:
    plan = with_budgets(a_budget("web", labels=WEB, allowed=0))
    assert because(plan, "web-0") == "budget default/web allows 0: 2 of 2 pods healthy, 2 needed"


def test_a_budget_of_another_namespace_or_label_does_not_matter() -> None:
    others = [
        a_budget("web", labels=WEB, allowed=0, namespace="shop"),
        a_budget("api", labels={"app": "api"}, allowed=0),
    ]
    assert moved(with_budgets(*others)) == {"web-0": "cool"}


def test_a_budget_without_a_status_allows_nothing() -> None:
    budget = a_budget("web", labels=WEB, allowed=1)
    del budget["status"]
    plan = with_budgets(budget)
    assert because(plan, "web-0") == "budget default/web has no status yet"


def test_a_budget_whose_status_is_older_than_its_spec_allows_nothing() -> None:
    budget = a_budget("web", labels=WEB, allowed=1)
    budget["metadata"]["generation"] = 2
    plan = with_budgets(budget)
    assert because(plan, "web-0") == "budget default/web has a status older than its spec"


def test_two_budgets_name_each_other() -> None:
    plan = with_budgets(a_budget("one", labels=WEB, allowed=1), a_budget("two", labels=WEB, allowed=1))
    assert kept(plan) == {"web-0": "OverlappingBudgets"}
    assert because(plan, "web-0") == "matched by default/one, default/two"


def test_a_budget_over_everything_matches_everything() -> None:
    budget = a_budget("all", labels={}, allowed=0)
    assert kept(with_budgets(budget)) == {"web-0": "Budget"}


@rows(
    "policy, healthy, reason",
    [
        ("AlwaysAllow", 1, "moves"),
        ("IfHealthyBudget", 2, "moves"),
        (None, 2, "moves"),
        ("IfHealthyBudget", 1, "Budget"),
        (None, 1, "Budget"),
    ],
)
def test_an_unready_pod_is_free_where_the_api_lets_it_go(
    policy: str | None, healthy: int, reason: str
) -> None:
    budget = a_budget("web", labels=WEB, allowed=0)
    budget["spec"]["unhealthyPodEvictionPolicy"] = policy
    budget["status"]["currentHealthy"] = healthy
    assert kept(with_budgets(budget, ready=False)).get("web-0", "moves") == reason


def test_a_budget_that_wants_nothing_healthy_frees_no_unready_pod() -> None:
    budget = a_budget("web", labels=WEB, allowed=0)
    budget["status"] |= {"currentHealthy": 0, "desiredHealthy": 0}
    assert kept(with_budgets(budget, ready=False)) == {"web-0": "Budget"}


def test_a_budget_that_wants_one_healthy_pod_and_has_it_frees_an_unready_one() -> None:
    budget = a_budget("web", labels=WEB, allowed=0)
    budget["status"] |= {"currentHealthy": 1, "desiredHealthy": 1}
    assert moved(with_budgets(budget, ready=False)) == {"web-0": "cool"}


def test_a_healthy_budget_frees_no_ready_pod() -> None:
    budget = a_budget("web", labels=WEB, allowed=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert kept(with_budgets(budget)) == {"web-0": "Budget"}


def damaged(namespace: str) -> dict[str, Any]:
    budget = a_budget("bad", labels={"app": "other"}, allowed=1, namespace=namespace)
    budget["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}
    return budget


def test_a_budget_that_could_not_be_read_protects_its_namespace() -> None:
    plan = with_budgets(damaged("default"))
    assert kept(plan) == {"web-0": "Unpredictable"}
    assert "PodDisruptionBudget default/bad" in because(plan, "web-0")


def test_a_budget_that_could_not_be_read_protects_no_other_namespace() -> None:
    assert moved(with_budgets(damaged("shop"))) == {"web-0": "cool"}


def test_a_budget_of_an_unreadable_namespace_protects_all() -> None:
    budget = a_budget("bad", labels={"app": "other"}, allowed=1)
    budget["metadata"] = {"name": "bad", "generation": "many"}
    assert kept(with_budgets(budget)) == {"web-0": "Unpredictable"}


@pytest.mark.parametrize("namespace", ["before", "shop"])
def test_budgets_beside_one_that_could_not_be_read_still_count(namespace: str) -> None:
    budgets = damaged(namespace), a_budget("web", labels=WEB, allowed=0)
    assert kept(with_budgets(*budgets)) == {"web-0": "Budget"}
