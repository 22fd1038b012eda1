"""Which sets of pods are tried, and in which order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.search.covering_sets import covering_sets
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.workloads.lookup import Workloads
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, at, moved, plan_of, planning_inputs


def sets(relief: list[list[float]], need: list[float], cost: list[float] | None = None) -> list[set[int]]:
    costs = np.array(cost or [0.0] * len(relief))
    return [set(item) for item in covering_sets(np.array(relief), np.array(need), costs)]


def test_one_pod_that_is_enough_comes_before_two() -> None:
    assert sets([[3], [5], [20]], [6])[0] == {2}


def test_of_single_pods_the_closest_fit_comes_first() -> None:
    assert sets([[40], [12], [11], [1]], [10])[:3] == [{2}, {1}, {0}]


def test_where_one_is_not_enough_two_small_ones_are_tried() -> None:
    assert sets([[6], [5], [4]], [9]) == [{1, 2}, {0, 2}, {0, 1}]


def test_no_set_holds_a_pod_that_could_stay() -> None:
    assert all(found in ({0}, {1, 2}) for found in sets([[10], [6], [5]], [10]))


def test_the_largest_pod_of_a_set_goes_first() -> None:
    assert next(covering_sets(np.array([[2.0], [9.0], [5.0]]), np.array([15.0]), np.zeros(3))) == (1, 2, 0)


def test_every_resource_counts() -> None:
    assert sets([[9, 0], [0, 9], [5, 5]], [8, 8])[0] == {0, 1}
    assert sets([[9, 0], [0, 9], [9, 9]], [8, 8])[0] == {2}


def test_a_resource_that_need_not_cool_does_not_count() -> None:
    assert sets([[9, 0], [0, 90]], [8, 0]) == [{0}]


def test_nothing_is_tried_where_all_pods_together_are_not_enough() -> None:
    assert sets([[3], [3]], [7]) == []


def test_of_equal_sets_the_cheaper_comes_first() -> None:
    assert sets([[10], [10]], [5], [0.5, 0.2])[0] == {1}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_the_first_set_is_as_small_as_any_that_is_enough(
    relief: list[tuple[int, int]], need: tuple[int, int]
) -> None:
    enough = [
        len(chosen)
        for size in range(1, len(relief) + 1)
        for chosen in itertools.combinations(relief, size)
        if all(sum(column) >= least for column, least in zip(zip(*chosen, strict=True), need, strict=True))
    ]
    found = sets([list(map(float, item)) for item in relief], list(map(float, need)))
    if not any(need) or not enough:
        assert found == []
    else:
        # Sets with up to two pods more than the bound of each resource alone are tried.
        assert not found or len(found[0]) == min(enough)
        assert all(
            sum(relief[at][column] for at in chosen) >= need[column] for chosen in found for column in (0, 1)
        )


def costs(weight: str, *workloads: Any) -> list[float]:
    nothing = dict.fromkeys(("fit", "priority", "podDeletionCost", "age", "replicas", "readiness"), 0)
    policy = a_policy(planning={"weights": {**nothing, weight: 1}})
    inputs = planning_inputs([a_node("hot")], list(workloads), policy=policy)
    rows = [PodRow(row) for row in range(len(inputs.snapshot.pods))]
    found = Disruption(inputs, Workloads(inputs.snapshot)).costs(rows)
    return [round(float(cost), 3) for cost in found]


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
    ],
)
def test_what_speaks_against_moving_a_pod_is_weighed(
    weight: str, first: dict[str, Any], second: dict[str, Any], told: list[float]
) -> None:
    assert costs(weight, a_workload("a", ["hot"], **first), a_workload("b", ["hot"], **second)) == told


def test_a_workload_short_of_ready_pods_is_dearer() -> None:
    short = a_workload("b", ["hot"], replicas=4)
    short.item["status"]["readyReplicas"] = 3
    assert costs("readiness", a_workload("a", ["hot"]), short) == [0.0, 0.25]


def test_weights_decide_between_sets_of_the_same_size() -> None:
    def chosen(**weights: float) -> set[str]:
        workloads = [
            a_workload("dear", ["hot"], cpu="1100m", spec={"priority": 100}),
            a_workload("cheap", ["hot"], cpu="2400m"),
        ]
        policy = a_policy(planning={"weights": weights})
        inputs = planning_inputs([a_node("hot"), a_node("cool", cpu=16)], workloads, policy=policy)
        return set(moved(plan_of(inputs)))

    assert chosen() == {"cheap-0"}
    assert chosen(priority=0) == {"dear-0"}


def test_two_pods_go_where_the_one_that_would_do_has_no_landing() -> None:
    workloads = [
        a_workload("big", ["hot"], cpu="2", spec={"nodeSelector": {"kubernetes.io/hostname": "hot"}}),
        a_workload("one", ["hot"], cpu="800m"),
        a_workload("two", ["hot"], cpu="700m"),
    ]
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=16)], workloads))
    assert set(moved(plan)) == {"one-0", "two-0"}


def test_a_node_whose_movable_pods_are_not_enough_loses_none() -> None:
    workloads = [
        a_workload("big", ["hot"], cpu="3400m", spec={"nodeSelector": {"kubernetes.io/hostname": "hot"}}),
        a_workload("small", ["hot"], cpu="100m"),
    ]
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=16)], workloads))
    assert plan.moves == ()
    assert {item.pod.name: item.reason for item in plan.kept} == {
        "big-0": "NoLanding",
        "small-0": "CannotCool",
    }


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
