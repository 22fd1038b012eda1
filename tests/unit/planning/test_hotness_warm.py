"""Which nodes are neither hot nor known to be cool."""

from __future__ import annotations

from typing import Any

from rebalancer.planning.prepared import prepare
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs

UNKNOWN = float("nan")


def warm(load: dict[str, Any], **hot_nodes: Any) -> set[str]:
    nodes = [a_node(name, labels={"pool": name[0]}) for name in load]
    inputs = planning_inputs(nodes, policy=a_policy(hotNodes=hot_nodes), load=load)
    return {inputs.snapshot.nodes.names[row] for row in prepare(inputs).hotness.warm.nonzero()[0]}


def test_above_cool_to_and_not_above_the_threshold() -> None:
    assert warm({"a": 64.9, "b": 65, "c": 65.1, "d": 80, "e": 80.1}) == {"c", "d"}


def test_in_any_resource_of_a_rule_and_in_no_other() -> None:
    rule = {"utilization": {"cpu": 80, "memory": 80}, "coolTo": {"cpu": 65, "memory": 65}}

    assert warm({"a": (10, 70), "b": (70, 10), "c": (10, 10)}, any=[rule]) == {"a", "b"}
    assert warm({"a": (10, 70), "b": (70, 10), "c": (10, 10)}) == {"b"}


def test_a_node_of_unknown_load_is_not_taken_for_cool() -> None:
    assert warm({"a": UNKNOWN, "b": 10, "c": 90}) == {"a"}


def test_a_node_that_is_never_hot_by_the_policy_is_not_warm() -> None:
    load = {"a": 70.0, "b": 70.0, "bad": UNKNOWN, "c": 95.0}

    assert warm(load, nodeSelector={"matchLabels": {"pool": "a"}}) == {"a"}
    pool = {"name": "quiet", "nodeSelector": {"matchLabels": {"pool": "b"}}}
    assert warm(load, pools=[pool]) == {"a"}
    rule = {"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}}
    assert warm(load, any=[], pools=[{**pool, "any": [rule]}]) == {"b", "bad"}
    assert warm({"a": UNKNOWN, "b": 90}, any=[]) == set()


def test_a_node_that_keeps_away_every_pod_that_may_move_is_not_warm() -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    nodes = [
        a_node("control", taints=[taint]),
        a_node("gpu", taints=[{**taint, "key": "gpu"}]),
        a_node("plain"),
    ]
    pods = [a_workload("train", ["plain"], tolerations=[{"key": "gpu", "operator": "Exists"}])]
    inputs = planning_inputs(nodes, pods, load=dict.fromkeys(("control", "gpu", "plain"), UNKNOWN))

    assert {inputs.snapshot.nodes.names[row] for row in prepare(inputs).hotness.warm.nonzero()[0]} == {
        "gpu",
        "plain",
    }


def test_by_a_rule_of_pressure_a_busy_node_where_nobody_waits_is_warm() -> None:
    rule = {"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}, "pressure": {"cpu": 20}}

    assert warm({"a": 95.0, "b": 60.0}, any=[rule]) == {"a"}
