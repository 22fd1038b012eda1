"""What each level of aggressiveness moves, and what each of its moves brings."""

from __future__ import annotations

from itertools import pairwise

from msgspec.structs import replace

from bench.dial import at_level, planned_at, relief_by_cost
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.policy.schema import LEVELS
from tests.builders import a_node
from tests.unit.planning.builders import a_workload, planning_inputs

HELD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def a_cluster() -> PlanningInputs:
    """One move cools a. Whatever leaves b it stays hot; its pods take away less and less."""
    sizes = {"six": "6", "two": "2", "half": "500m", "tenth": "100m"}  # cores, of 100
    workloads = [
        a_workload("held-a", ["a"], cpu="65", annotations=HELD),
        a_workload("twenty", ["a"], cpu="20"),
        a_workload("held-b", ["b"], cpu="85", annotations=HELD),
        *(a_workload(name, ["b"], cpu=cpu) for name, cpu in sizes.items()),
    ]
    return planning_inputs([a_node(name, cpu=100) for name in "abcd"], workloads)


def test_each_level_moves_more_than_the_one_before_and_leaves_less() -> None:
    plans = [planned_at(a_cluster(), level) for level in LEVELS]

    assert [plan.moves for plan in plans] == [1, 2, 3, 4, 5]
    assert all(bolder.excess < careful.excess for careful, bolder in pairwise(plans))
    assert all(bolder.cost > careful.cost for careful, bolder in pairwise(plans))
    assert {plan.hot_left for plan in plans} == {1}


def test_each_move_brings_what_its_level_asks_for() -> None:
    inputs = a_cluster()
    for level, asks in LEVELS.items():
        planner = Planner(replace(inputs, policy=at_level(inputs.policy, level)))
        reliefs = relief_by_cost(planner)
        assert min(reliefs) >= asks.least_relief
        assert planned_at(inputs, level).least == min(reliefs)


def test_limits_of_a_run_bind_at_no_level() -> None:
    inputs = a_cluster()
    limits = inputs.policy.limits.model_copy(update={"per_run": 1})
    held = replace(inputs, policy=inputs.policy.model_copy(update={"limits": limits}))

    assert planned_at(held, 5).moves == planned_at(inputs, 5).moves
