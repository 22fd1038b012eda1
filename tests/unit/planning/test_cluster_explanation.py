from __future__ import annotations

import pytest
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.errors import SafetyError
from rebalancer.planning.inputs import PlannerOptions
from rebalancer.planning.planner import Planner
from rebalancer.reporting.tables.plan import verdict
from tests.builders import a_node
from tests.unit.planning.builders import NOW, a_policy, a_workload, at, planning_inputs

NODES = (a_node("a", cpu=10), a_node("cool", cpu=100))
ONE_IS_ENOUGH = a_policy(load={"minCoverage": "50%"})
YOUNG = a_policy(evictable={"minAge": "10m"})


def test_a_cluster_without_a_hot_node_says_how_far_the_nearest_is() -> None:
    inputs = planning_inputs(NODES, load={"a": 74.0, "cool": 10.0})

    found = Planner(inputs).explain_cluster()

    assert found.verdict == "no node is hot: a is at 74.0 % cpu, hot above 80.0 %, 6.0 points more"
    assert [(item.node, item.load, item.hot_above) for item in found.nearest] == [
        ("a", 74.0, 80.0),
        ("cool", 10.0, 80.0),
    ]


def test_that_no_load_is_known_is_the_answer_and_not_that_nothing_is_hot() -> None:
    careful = a_policy(load={"minCoverage": "80%"})
    load = {"a": 99.0, "cool": 10.0}
    inputs = planning_inputs(NODES, load=load, measured_at=NOW - 7200, policy=careful)
    unknown = Planner(inputs, options=PlannerOptions(ignore_coverage=True))

    assert unknown.explain_cluster().verdict == (
        "the load of none of 2 nodes is known, so none can be called hot: the newest load figure is 2h old "
        f"at {times.render(NOW)}, and load.maxAge is 3m"
    )
    assert verdict(unknown.plan()) == "nothing to do: the load of none of 2 nodes is known"
    with pytest.raises(SafetyError, match="the newest load figure is 2h old") as caught:
        Planner(inputs).plan()
    assert caught.value.hint == ""
    with pytest.raises(SafetyError) as caught:
        Planner(replace(inputs, live=False)).plan()
    assert "to try a window at another time, write load: {maxAge: 24h}" in caught.value.hint


def test_nodes_of_unknown_load_are_part_of_the_answer() -> None:
    inputs = planning_inputs(NODES, load={"a": float("nan"), "cool": 10.0}, policy=ONE_IS_ENOUGH)

    said = "no node is hot (1 of 2 of unknown load)"
    assert Planner(inputs).explain_cluster().verdict.startswith(f"{said}: cool is at 10.0 % cpu")
    assert verdict(Planner(inputs).plan()) == f"nothing to do: {said}"


def test_an_unknown_node_is_not_said_to_be_near_to_anything() -> None:
    inputs = planning_inputs(NODES, load={"a": float("nan"), "cool": 10.0})

    assert [item.node for item in Planner(inputs).explain_cluster().nearest] == ["cool"]


def test_the_setting_that_holds_most_of_the_load_is_named_first() -> None:
    inputs = planning_inputs(NODES, [a_workload("fresh", ["a"] * 9, cpu="1", created=at(-60))], policy=YOUNG)

    found = Planner(inputs).explain_cluster()

    assert found.verdict == (
        "nothing is moved from 1 hot node: evictable.minAge keeps 100% of the movable load, "
        "e.g. default/fresh-2: is 1 min old, minAge 10 min; freed by evictable.minAge: 1m"
    )
    assert found.obstacles == Planner(inputs).plan().obstacles
    assert found.next_steps[0] == "rebalancer plan --diff OTHER_POLICY.yaml"


def test_a_cluster_whose_plan_moves_pods_says_so() -> None:
    inputs = planning_inputs(NODES, [a_workload("web", ["a"] * 9)])

    found = Planner(inputs).explain_cluster()

    assert (found.moves, found.obstacles) == (3, ())
    assert found.verdict.startswith("3 pods would be moved, and every hot node cools")


def test_pods_that_never_move_are_no_setting_s_fault() -> None:
    agents = a_workload("agent", ["a"], kind="DaemonSet", cpu="9")

    assert (
        "no pod there could ever move" in Planner(planning_inputs(NODES, [agents])).explain_cluster().verdict
    )


def test_what_other_strategies_move_off_cool_nodes_is_said_before_how_far_they_are_from_hot() -> None:
    policy = a_policy(strategies={"lifetime": {"maxAge": "1m"}})
    inputs = planning_inputs(NODES, [a_workload("web", ["a", "a", "a"])], policy=policy)

    assert (
        Planner(inputs)
        .explain_cluster()
        .verdict.startswith("1 pod would be moved by lifetime: see rebalancer plan; no node")
    )


def test_what_strategies_would_move_and_may_not_is_said_where_no_node_is_hot() -> None:
    """The answer was that no node is hot, whatever the strategies of the policy wished."""
    policy = a_policy(strategies={"lifetime": {"maxAge": "1m"}}, limits={"perNamespace": 0})
    inputs = planning_inputs(NODES, [a_workload("web", ["a", "a"])], policy=policy)
    because = "perNamespace 0 for default is reached"

    said = f"2 pods that strategies would move stay, 2 by Limit, e.g. default/web-0: {because}"
    assert Planner(inputs).explain_cluster().verdict.startswith(said)
    assert Planner(inputs).explain_cluster().next_steps[0] == "rebalancer plan"


def test_nothing_is_said_to_move_that_a_plan_which_closes_nodes_leaves() -> None:
    """While nothing is closed b could be emptied; once it is closed, the pods of a take its pod's room."""
    workloads = [
        a_workload("web", ["a", "a", "a"]),
        a_workload("busy", ["b"], cpu="100m"),
        a_workload("many", ["c", "c"], cpu="700m"),
    ]
    inputs = planning_inputs(
        [a_node(name) for name in "abc"],
        workloads,
        policy=a_policy(strategies={"consolidation": {"taintFor": "30m"}}),
        load={"a": 95.0, "b": 66.0, "c": 5.0},
        pod_load={"busy-0": 0.4},
    )
    assert Planner(inputs).explain_cluster().moves == len(Planner(inputs).plan().moves) == 0
