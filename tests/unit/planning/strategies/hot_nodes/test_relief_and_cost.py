"""Which pods of a node are moved, and what moving each costs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.plan import Plan
from rebalancer.planning.strategies.hot_nodes.node_pods import Group, pods_to_move
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.policy.planning_settings import Weights
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)


def chosen(
    relief: list[list[float]], need: list[float], cost: list[float] | None = None, most: int = 99, **more: Any
) -> list[int]:
    costs = np.array(cost or [0.0] * len(relief))
    return pods_to_move(np.array(relief, np.float64), np.array(need, np.float64), costs, most, **more)


def test_one_pod_that_is_enough_comes_before_two() -> None:
    assert chosen([[3], [5], [20]], [6]) == [2]


def test_of_single_pods_the_closest_fit_is_moved() -> None:
    assert chosen([[40], [12], [11], [1]], [10]) == [2]


def test_where_one_is_not_enough_as_few_as_possible_are_moved() -> None:
    assert len(chosen([[6], [5], [4]], [9])) == 2


def test_the_pod_that_removes_most_goes_first() -> None:
    assert chosen([[2.0], [9.0], [5.0]], [15.0]) == [1, 2, 0]


def test_every_resource_counts() -> None:
    assert set(chosen([[9, 0], [0, 9], [5, 5]], [8, 8])) == {0, 1}
    assert chosen([[9, 0], [0, 9], [9, 9]], [8, 8]) == [2]


def test_a_resource_that_need_not_cool_does_not_count() -> None:
    assert chosen([[9, 0], [0, 90]], [8, 0]) == [0]


def test_where_all_pods_together_are_not_enough_those_that_remove_most_are_moved() -> None:
    assert chosen([[3], [1], [2]], [70]) == [0, 2, 1]
    assert chosen([[3], [1], [2]], [70], most=2) == [0, 2]


def test_of_equal_pods_the_cheaper_is_moved() -> None:
    assert chosen([[10], [10]], [5], [0.5, 0.2]) == [1]


def test_an_expensive_pod_stays_where_as_many_cheap_ones_are_enough() -> None:
    assert chosen([[22], [13], [13], [12.5]], [25], [2, 0, 0, 0.1], groups=[one_of_the_13()]) == [1, 3]


def one_of_the_13() -> Group:
    return Group(np.array([0, 1, 1, 2]), np.array([9, 1, 9]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 30), st.data())
def test_no_fewer_pods_of_one_resource_are_enough(relief: list[int], need: int, data: st.DataObject) -> None:
    cost = data.draw(st.lists(st.floats(0, 3), min_size=len(relief), max_size=len(relief)))
    found = chosen([[item] for item in relief], [need], cost)
    sizes = [
        size
        for size in range(1, len(relief) + 1)
        if any(sum(some) >= need for some in itertools.combinations(relief, size))
    ]
    assert all(relief[row] > 0 for row in found)
    if sizes:
        assert len(found) == sizes[0]
        assert sum(relief[row] for row in found) >= need
    else:
        assert len(found) == sum(item > 0 for item in relief)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_pods_that_are_enough_in_two_resources_are_found_wherever_there_are_some(
    relief: list[tuple[int, int]], need: tuple[int, int]
) -> None:
    found = chosen([list(item) for item in relief], list(need))
    for column in (0, 1):
        wanted = min(need[column], sum(item[column] for item in relief))
        assert sum(relief[row][column] for row in found) >= wanted


def costs(weight: str, *workloads: Any, state: RunState | None = None) -> list[float]:
    nothing = {str(field.alias): 0 for field in Weights.model_fields.values()}
    policy = a_policy(planning={"weights": {**nothing, weight: 1}})
    inputs = planning_inputs([a_node("hot")], list(workloads), policy=policy, state=state)
    rows = [PodRow(row) for row in range(len(inputs.snapshot.pods))]
    found = Disruption(inputs, Workloads(inputs.snapshot)).costs(rows)
    return [round(float(cost), 3) for cost in found]


CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}


def eviction_cost(value: str) -> dict[str, dict[str, str]]:
    return {"annotations": {"scheduling.koordinator.sh/eviction-cost": value}}


def deletion_cost(value: str) -> dict[str, dict[str, str]]:
    return {"annotations": {"controller.kubernetes.io/pod-deletion-cost": value}}


@pytest.mark.parametrize(
    ("weight", "first", "second", "told"),
    [
        ("priority", {"spec": {"priority": 10}}, {"spec": {"priority": 20}}, [0.0, 1.0]),
        ("podDeletionCost", deletion_cost("-5"), deletion_cost("5"), [0.0, 1.0]),
        ("podDeletionCost", deletion_cost("none"), {}, [0.0, 0.0]),
        ("age", {"created": at(0)}, {"created": at(-3.5 * 86400)}, [0.0, 0.5]),
        ("replicas", {"replicas": 10}, {"replicas": 1}, [0.1, 1.0]),
        ("readiness", {}, {"ready": False}, [0.0, 0.0]),
        ("evictionCost", eviction_cost("-5"), eviction_cost("5"), [0.0, 1.0]),
        ("evictionCost", eviction_cost("much"), {}, [0.0, 0.0]),
        ("volumes", {}, {"spec": {"volumes": [CLAIM]}}, [0.0, 0.5]),
        ("volumes", {"spec": {"volumes": [CLAIM] * 3}}, {"spec": {"volumes": [SCRATCH]}}, [1.0, 0.0]),
    ],
)
def test_each_cost_of_moving_a_pod_is_weighed(
    weight: str, first: dict[str, Any], second: dict[str, Any], told: list[float]
) -> None:
    assert costs(weight, a_workload("a", ["hot"], **first), a_workload("b", ["hot"], **second)) == told


def test_a_workload_short_of_ready_pods_is_dearer() -> None:
    short = a_workload("b", ["hot"], replicas=4)
    short.item["status"]["readyReplicas"] = 3
    assert costs("readiness", a_workload("a", ["hot"]), short) == [0.0, 0.25]


def test_a_workload_whose_replacements_were_slow_to_be_ready_is_dearer() -> None:
    landed = [a_past_move(landed_at=NOW - 600 + seconds, uid=str(seconds)) for seconds in (30, 60, 600)]
    never = a_past_move(workload="ReplicaSet/other", landed_at=None, result="Pending")
    state = RunState(moves=(*landed, never))
    assert costs("timeToReady", a_workload("web", ["hot"]), a_workload("other", ["hot"]), state=state) == [
        0.0,
        0.2,
    ]


def test_weights_decide_between_sets_of_the_same_size() -> None:
    def taken(**weights: float) -> set[str]:
        workloads = [
            a_workload("dear", ["hot"], cpu="1100m", spec={"priority": 100}),
            a_workload("cheap", ["hot"], cpu="2400m"),
        ]
        policy = a_policy(planning={"weights": weights})
        inputs = planning_inputs([a_node("hot"), a_node("cool", cpu=16)], workloads, policy=policy)
        return set(moved(plan_of(inputs)))

    assert taken() == {"cheap-0"}
    assert taken(priority=0) == {"dear-0"}


def test_two_pods_go_where_the_one_that_would_do_has_no_landing() -> None:
    workloads = [
        a_workload("big", ["hot"], cpu="2", spec={"nodeSelector": {"kubernetes.io/hostname": "hot"}}),
        a_workload("one", ["hot"], cpu="800m"),
        a_workload("two", ["hot"], cpu="700m"),
    ]
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=16)], workloads))
    assert set(moved(plan)) == {"one-0", "two-0"}


def test_a_node_whose_only_landing_another_would_take_goes_first() -> None:
    """The hotter node's pod would go to the ssd too, and leave no room for the one that needs it."""
    workloads = [
        a_workload("free", ["hotter"], cpu="3500m"),
        a_workload("pinned", ["hot"], cpu="3400m", spec={"nodeSelector": {"disk": "ssd"}}),
        a_workload("other", ["hdd"], cpu="400m"),
    ]
    nodes = [
        a_node("hotter"),
        a_node("hot"),
        a_node("ssd", cpu=8, labels={"disk": "ssd"}),
        a_node("hdd", cpu=8),
    ]
    assert moved(plan_of(planning_inputs(nodes, workloads))) == {"free-0": "hdd", "pinned-0": "ssd"}


def test_by_default_no_pod_is_restarted_for_less_than_a_point_of_excess() -> None:
    """A node that stays hot whatever moves: fourteen restarts would remove a point each."""
    pinned = a_workload(
        "pinned", ["a"], cpu="8500m", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    )
    small, larger = a_workload("small", ["a"] * 14, cpu="100m"), a_workload("larger", ["a"] * 7, cpu="200m")
    nodes = [a_node(name, cpu=10) for name in "abc"]
    assert moved(plan_of(planning_inputs(nodes, [pinned, small]))) == {}
    assert len(moved(plan_of(planning_inputs(nodes, [pinned, larger])))) == 7
    eager = a_policy(planning={"aggressiveness": 4})
    assert moved(plan_of(planning_inputs(nodes, [pinned, small], policy=eager)))


HELD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
NO_LIMITS = {"perRun": 1000, "perNode": 1000, "perNamespace": 1000, "perWorkload": "100%"}


def small_pods(pods: int, points: float, held: float = 0.0, **planning: Any) -> Plan:
    """A node of 100 cores with small pods, and a protected one; three idle nodes."""
    nodes = [a_node(name, cpu=100, pods=2000) for name in "abcd"]
    workloads = [a_workload("small", ["a"] * pods, cpu=f"{round(points * 1000)}m")]
    if held:
        workloads.append(a_workload("held", ["a"], cpu=f"{round(held * 1000)}m", annotations=HELD))
    policy = a_policy(limits=NO_LIMITS, planning=planning)
    return plan_of(planning_inputs(nodes, workloads, policy=policy))


@pytest.mark.parametrize(
    ("pods", "points", "held", "cools"),
    [(9, 10, 0, True), (100, 0.9, 0, True), (100, 0.1, 75, False), (14, 0.8, 79, True), (9, 0.7, 84, False)],
)
def test_small_pods_are_moved_where_together_they_cool_their_node(
    pods: int, points: float, held: float, cools: bool
) -> None:
    plan = small_pods(pods, points, held)
    assert bool(plan.moves) == cools
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == (0 if cools else 1)


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("most", [60, 110])
def test_a_rule_of_pods_per_node_cools_a_node_at_every_position_of_the_dial(level: int, most: int) -> None:
    rule = {"utilization": {"pods": 85}, "coolTo": {"pods": 70}}
    policy = a_policy(
        hotNodes={"forRuns": 1, "any": [rule]}, limits=NO_LIMITS, planning={"aggressiveness": level}
    )
    nodes = [a_node(name, cpu=100, pods=most) for name in "abcd"]
    crowd = [a_workload(f"web{number}", ["a"] * (most // 10), cpu="200m") for number in range(9)]
    plan = plan_of(planning_inputs(nodes, crowd, policy=policy))
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == 0


def test_pods_that_are_small_beside_the_others_of_their_node_stay() -> None:
    crumbs = a_workload("crumb", ["a"] * 40, cpu="100m")
    nodes = [a_node(name, cpu=100, pods=2000) for name in "abcd"]
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["a"] * 9, cpu="9.7"), crumbs]))
    assert {name.split("-")[0] for name in moved(plan)} == {"web"}


def test_a_pod_that_is_not_worth_its_cost_keeps_no_other_from_moving() -> None:
    """The larger one would be tried first, and is too dear for what it removes."""
    dear = a_workload("dear", ["a"], cpu="160m", spec={"priority": 100})
    pinned = a_workload("held", ["a"], cpu="8500m", annotations=HELD)
    nodes = [a_node(name, cpu=10) for name in "abc"]
    plan = plan_of(planning_inputs(nodes, [dear, pinned, a_workload("cheap", ["a"] * 3, cpu="150m")]))
    assert set(moved(plan)) == {"cheap-0", "cheap-1", "cheap-2"}
    assert "planning.leastRelief 1 asks for" in because(plan, "dear-0")


def test_moves_that_a_later_one_makes_needless_are_left_out() -> None:
    """The large pod of a finds room only once b has lost its own; until then small pods relieve a."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("idle", cpu=20)]

    def only_on(node: str) -> dict[str, Any]:
        return {"nodeSelector": {"kubernetes.io/hostname": node}}

    workloads = [
        a_workload("large", ["a"], cpu="3", spec=only_on("b")),
        a_workload("small", ["a", "a"], cpu="500m"),
        a_workload("held-a", ["a"] * 4, cpu="1300m", spec=only_on("a")),
        a_workload("loading", ["b"], cpu="6"),
        a_workload("held-b", ["b"] * 2, cpu="1100m", spec=only_on("b")),
    ]
    plan = plan_of(planning_inputs(nodes, workloads, policy=a_policy()))

    assert moved(plan) == {"loading-0": "idle", "large-0": "b"}
    assert {kept(plan)[f"small-{number}"] for number in range(2)} == {"NotNeeded"}
    assert plan.benefit is not None
    assert plan.benefit.excess.after == 0
