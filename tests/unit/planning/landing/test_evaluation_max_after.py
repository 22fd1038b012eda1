"""planning.maxAfter guards every landing, whatever the rules of hotNodes name."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from rebalancer.planning.plan import Plan
from rebalancer.policy.schema import RebalancePolicy
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, because, moved, plan_of, planning_inputs


def crowded(policy: RebalancePolicy, other: tuple[float, float]) -> Plan:
    nodes = [a_node("a", cpu=10, memory="10Gi"), a_node("b", cpu=10, memory="10Gi")]
    web = a_workload("web", ["a"] * 9)
    return plan_of(planning_inputs(nodes, [web], policy=policy, load={"a": (90.0, 20.0), "b": other}))


def test_no_landing_fills_a_node_above_max_after_whatever_the_rules_name() -> None:
    plan = crowded(a_policy(), (10.0, 97.0))
    assert moved(plan) == {}
    assert because(plan, "web-0").endswith("b would be at 97.0 % memory, planning.maxAfter 90.0 %")


def test_naming_one_resource_in_max_after_leaves_the_others_guarded() -> None:
    policy = a_policy(planning={"maxAfter": {"cpu": 50}})
    assert policy.planning.max_after == {"cpu": 50, "memory": 90}
    assert moved(crowded(policy, (10.0, 97.0))) == {}


def test_a_higher_max_after_lets_a_pod_land() -> None:
    assert moved(crowded(a_policy(planning={"maxAfter": {"memory": 99}}), (10.0, 97.0)))


def test_a_landing_whose_level_of_a_guarded_resource_is_unknown_is_refused() -> None:
    policy = a_policy(planning={"maxAfter": {"disk": 50}})
    inputs = planning_inputs(
        [a_node("a", cpu=10), a_node("b", cpu=10)], [a_workload("web", ["a"] * 9)], policy=policy
    )
    nodes, pods = len(inputs.snapshot.nodes), len(inputs.snapshot.pods)
    load = replace(
        inputs.load,
        resources=("cpu", "memory", "disk"),
        usage=np.column_stack([inputs.load.usage, np.full(nodes, np.nan)]),
        pod_usage=np.column_stack([inputs.load.pod_usage, np.full(pods, np.nan)]),
        allocatable=np.column_stack([inputs.load.allocatable, np.full(nodes, 100.0)]),
        measured_at=np.column_stack([inputs.load.measured_at, np.full(nodes, np.nan)]),
        window_seconds=np.column_stack([inputs.load.window_seconds, np.zeros(nodes)]),
        source=np.column_stack([inputs.load.source, np.full(nodes, -1)]),
        pod_methods=np.column_stack([inputs.load.pod_methods, np.zeros(pods, np.int64)]),
        statistics=(("mean",) * 3,),
        deviation=None,
    )
    plan = plan_of(replace(inputs, load=load))
    assert moved(plan) == {}
    assert because(plan, "web-0").endswith("b would be at an unknown level of disk, planning.maxAfter 50.0 %")
