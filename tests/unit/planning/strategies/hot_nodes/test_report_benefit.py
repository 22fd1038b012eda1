"""The figures of a plan: what it gains and what it costs."""

from __future__ import annotations

import pytest

from rebalancer.planning.plan import Benefit, Change, HottestNode, Plan
from rebalancer.reporting.tables.plan import gain_words
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, at, plan_of, planning_inputs


def one_hot_node(**limits: int) -> Plan:
    nodes = [a_node("a", cpu=10), a_node("cool", cpu=10)]
    workloads = [a_workload("web", ["a"] * 9, cpu="1", created=at(0))]
    return plan_of(planning_inputs(nodes, workloads, policy=a_policy(limits=limits)))


def benefit(plan: Plan) -> Benefit:
    assert plan.benefit is not None
    return plan.benefit


def test_hot_nodes_excess_peak_and_deviation_are_told_before_and_after() -> None:
    found = benefit(one_hot_node())
    assert found.hot_nodes == Change(before=1, after=0)
    assert found.excess == Change(before=35.0, after=0.0)  # 90 % and 60 %, hot above 80 %, cool at 65 %
    assert found.peak["cpu"] == Change(before=90.0, after=60.0)
    assert found.deviation["cpu"] == Change(before=45.0, after=15.0)


def test_the_score_is_the_excess_removed_for_each_unit_of_cost() -> None:
    found = benefit(one_hot_node())
    assert (found.pods_moved, found.pods) == (3, 9)
    cost = 3 * (1 + 0.5 / 9)
    assert found.cost == pytest.approx(cost, abs=0.005)
    assert found.score == pytest.approx(35.0 / cost, abs=0.005)


def test_a_plan_without_moves_gains_nothing_and_costs_nothing() -> None:
    found = benefit(one_hot_node(perRun=0))
    assert (found.cost, found.score, found.pods_moved) == (0.0, 0.0, 0)
    assert found.excess.before == found.excess.after == 35.0
    assert all(change.before == change.after for change in (*found.peak.values(), *found.deviation.values()))


def test_the_hottest_node_is_told_of_first() -> None:
    hottest = benefit(one_hot_node()).hottest
    assert hottest == HottestNode("a", "cpu", Change(before=90.0, after=60.0))
    assert gain_words(benefit(one_hot_node()), "→").startswith("hottest a 90 → 60, hot 1 → 0, ")


def test_the_hottest_node_is_the_one_with_the_most_excess() -> None:
    """b is as busy as a and is short of memory besides."""
    policy = a_policy(
        hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 80}, "coolTo": {"cpu": 65, "memory": 65}}]}
    )
    load = {"a": (95.0, 10.0), "b": (95.0, 90.0)}
    hottest = benefit(plan_of(planning_inputs([a_node("a"), a_node("b")], load=load, policy=policy))).hottest
    assert hottest == HottestNode("b", "cpu", Change(before=95.0, after=95.0))


def test_where_no_node_is_hot_none_is_the_hottest() -> None:
    assert benefit(plan_of(planning_inputs([a_node("a")]))).hottest is None


def test_a_plan_says_how_long_its_waves_take_and_at_most() -> None:
    found = one_hot_node()
    waves = len({move.wave for move in found.moves})

    assert found.expected_seconds == 60.0 * waves
