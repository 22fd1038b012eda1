"""Load that processes outside pods cause is named, and nothing is advised that would not cool it."""

from __future__ import annotations

from rebalancer.planning.explanation import NodeExplanation
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import find_subject
from rebalancer.reporting.tables.explain import explain_table
from rebalancer.reporting.tables.nodes import node_listing, nodes_table
from rebalancer.reporting.tables.plan import plan_table
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs

NODES = (a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=10))
OF_NO_POD = "80 of 95 points of cpu belong to no pod: no eviction cools it"
LIMITED = a_policy(limits={"perRun": 1})


def test_every_answer_names_the_load_that_no_eviction_cools() -> None:
    inputs = planning_inputs(NODES, [a_workload("web", ["a"], cpu="1500m")], load={"a": 95.0})
    plan = Planner(inputs).plan()
    (node,) = [node for node in plan.nodes if node.name == "a"]
    explained = Planner(inputs).explain(find_subject(inputs.snapshot, "node/a"))

    assert isinstance(explained, NodeExplanation)
    assert node.of_no_pod["cpu"] == 80.0
    assert explained.of_no_pod == node.of_no_pod
    assert OF_NO_POD in node.because
    assert OF_NO_POD in plan.unsolved["a"]
    assert (
        Planner(inputs).explain_cluster().verdict
        == f"nothing is moved from 1 hot node: a {plan.unsolved['a']}"
    )
    assert "cpu 15.0 above 80 % (80 of no pod)" in nodes_table(node_listing(plan, plan.nodes)).plain
    for text in (plan_table(plan).plain, explain_table(explained).plain):
        assert OF_NO_POD in " ".join(text.split())


def test_where_what_no_pod_uses_is_above_cool_to_neither_steering_nor_limits_are_advised() -> None:
    web = a_workload("web", ["a"] * 3, cpu="500m")
    out_of_reach = Planner(planning_inputs(NODES, [web], load={"a": 95.0}, policy=LIMITED)).plan()

    assert (out_of_reach.obstacles, out_of_reach.raised_limit) == ((), "")


def test_a_node_that_evictions_can_cool_keeps_its_advice_beside_one_that_they_cannot() -> None:
    workloads = [a_workload("web", ["a"] * 2, cpu="500m"), a_workload("api", ["b"] * 9, cpu="1")]
    nodes = (*NODES, a_node("d", cpu=100))
    plan = Planner(planning_inputs(nodes, workloads, load={"a": 95.0, "b": 90.0}, policy=LIMITED)).plan()

    assert {item.example.split("-")[0] for item in plan.obstacles} == {"default/api"}
    assert "limits.perRun" in plan.obstacles[0].setting


def test_nothing_is_said_of_what_no_pod_uses_where_a_pod_is_not_measured_or_pods_use_most() -> None:
    unmeasured = planning_inputs(
        NODES,
        [a_workload("web", ["a"] * 2, cpu="500m")],
        load={"a": 95.0},
        pod_load={"web-0": float("nan")},
    )
    mostly_pods = planning_inputs(NODES, [a_workload("web", ["a"] * 7, cpu="1")], load={"a": 95.0})

    for inputs in (unmeasured, mostly_pods):
        (node,) = [node for node in Planner(inputs).plan().nodes if node.name == "a"]
        assert not any("no pod" in reason for reason in node.because)
