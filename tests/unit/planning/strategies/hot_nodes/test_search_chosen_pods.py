"""Which pods of a hot node are chosen, and what is done where no choice is enough."""

from __future__ import annotations

from rebalancer.planning.planner import Planner
from tests.builders import a_node
from tests.unit.planning.builders import (
    a_policy,
    a_workload,
    moved,
    plan_of,
    planning_inputs,
)
from tests.unit.planning.landing.hot_pods import hot_pod, only


def test_a_crowd_is_not_sent_to_the_one_cool_node() -> None:
    nodes = [*(a_node(f"hot-{number}") for number in range(4)), a_node("cool", cpu=8)]
    pods = [a_workload("web", [f"hot-{number}" for number in range(4)], cpu="3500m")]
    plan = plan_of(planning_inputs(nodes, pods))
    assert list(moved(plan).values()) == ["cool"]
    assert not next(node for node in plan.nodes if node.name == "cool").after.hot  # type: ignore[union-attr]


def test_the_closest_single_pod_that_is_enough_goes() -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=40)]
    pods = [
        a_workload("small", ["hot"], cpu="1"),
        a_workload("enough", ["hot"], cpu="2700m"),
        a_workload("large", ["hot"], cpu="5300m"),
    ]
    assert moved(plan_of(planning_inputs(nodes, pods))) == {"enough-0": "cool"}


def test_pods_that_relieve_different_resources_are_taken_largest_first() -> None:
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 80}}]})
    nodes = [a_node("hot", cpu=10, memory="10Gi"), a_node("cool", cpu=40, memory="40Gi")]
    pods = [
        a_workload("a-little", ["hot"], cpu="500m", memory="0"),
        a_workload("cpu", ["hot"], cpu="2500m", memory="0"),
        a_workload("memory", ["hot"], cpu="0", memory="3Gi"),
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="6", memory="6Gi"),
    ]
    assert set(moved(plan_of(planning_inputs(nodes, pods, policy=policy)))) == {"cpu-0", "memory-0"}


def test_a_node_that_cannot_cool_is_relieved_as_far_as_it_goes() -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=40)]
    pods = [
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="8500m"),
        a_workload("web", ["hot"], cpu="1"),
    ]
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"web-0": "cool"}
    assert plan.unsolved == {"hot": "falls to 85.0 % cpu (coolTo 65); kept: 1 of a DaemonSet"}


def test_a_resource_that_cannot_cool_keeps_none_from_cooling() -> None:
    policy = a_policy(
        hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 85}, "coolTo": {"cpu": 65, "memory": 75}}]}
    )
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in ("hot", "b", "c")]
    database = a_workload("db", ["hot"], kind="DaemonSet", cpu="100m", memory="9Gi")
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["hot"] * 9), database], policy=policy))
    assert len(plan.moves) == 3
    [hot] = [node for node in plan.nodes if node.hot]
    assert hot.after is not None
    assert hot.after.load["cpu"] <= 65


def test_without_partial_relief_a_node_that_cannot_cool_loses_nothing() -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=40)]
    pods = [
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="8500m"),
        a_workload("web", ["hot"], cpu="1"),
    ]
    policy = a_policy(planning={"partialRelief": False})
    plan = plan_of(planning_inputs(nodes, pods, policy=policy))
    only("CannotCool", "its node would stay hot at 85.0 % cpu", plan)
    assert plan.unsolved == {
        "hot": "stays at 95.0 % cpu (coolTo 65); kept: 1 as CannotCool, 1 of a DaemonSet"
    }


def test_placements_are_left_out_of_the_state_they_were_tried_on() -> None:
    inputs = planning_inputs([a_node("hot"), a_node("cool")], [hot_pod()])
    planner = Planner(inputs)
    prepared = planner.prepared
    found = planner.decided
    scenario, before = found.scenarios.all[0], prepared.schedulers.state
    assert found.moves == ()
    for state in (scenario.while_terminating, scenario.after_termination):
        assert (state.requested == before.requested).all()
        assert list(state.node) == list(before.node)
        assert list(state.terminating) == list(before.terminating)
