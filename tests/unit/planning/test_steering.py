"""A soft taint on hot nodes is part of the plan: what gets it, and what it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.planning.planner import advised, make_plan
from rebalancer.planning.steering import KARPENTER_LABEL, TAINT_KEY, left_behind, nodes_to_steer, steered
from rebalancer.policy.schema import Execution
from tests.builders import a_node, a_snapshot
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs

STEER = Execution(steer="softTaint")
OURS = {"key": TAINT_KEY, "value": "5f0c9a1e.run.1", "effect": "PreferNoSchedule"}


def hot(*which: bool) -> Any:
    return np.array(which)


def steered_nodes(nodes: Sequence[Mapping[str, Any]], *which: bool, execution: Execution = STEER) -> set[str]:
    return set(nodes_to_steer(a_snapshot(nodes=nodes), hot(*which), execution))


def test_hot_nodes_get_the_taint_only_where_the_policy_says_so() -> None:
    nodes = [a_node("a"), a_node("b")]

    assert steered_nodes(nodes, True, False) == {"a"}
    assert steered_nodes(nodes, True, False, execution=Execution()) == set()


def test_never_all_nodes_of_a_pool_get_it() -> None:
    def of(name: str, pool: str, **more: Any) -> Mapping[str, Any]:
        return a_node(name, labels={"cloud.google.com/gke-nodepool": pool}, **more)

    assert steered_nodes([of("a", "x"), of("b", "x"), of("c", "y")], True, True, False) == set()
    assert steered_nodes([of("a", "x"), of("b", "x"), of("c", "x")], True, True, False) == {"a", "b"}
    cordoned = of("c", "x", unschedulable=True)
    assert steered_nodes([of("a", "x"), of("b", "x"), cordoned], True, True, False) == set()
    gpu = a_node("c", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    assert steered_nodes([a_node("a"), a_node("b"), gpu], True, True, False) == set()


def test_nodes_that_take_no_pods_do_not_get_it() -> None:
    assert steered_nodes([a_node("a", unschedulable=True), a_node("b")], True, False) == set()
    assert steered_nodes([a_node("a", ready=False), a_node("b")], True, False) == set()


def test_nodes_of_karpenter_get_it_only_where_the_policy_says_so() -> None:
    nodes = [a_node(name, labels={KARPENTER_LABEL: "general"}) for name in "ab"]

    assert steered_nodes(nodes, True, False) == set()
    allowed = Execution(steer="softTaint", steer_karpenter=True)
    assert steered_nodes(nodes, True, False, execution=allowed) == {"a"}


def test_only_our_taints_are_taken_away() -> None:
    theirs = {"key": "team", "value": "x", "effect": "PreferNoSchedule"}
    snapshot = a_snapshot(nodes=[a_node("a", taints=[theirs, OURS]), a_node("b", taints=[theirs])])

    assert left_behind(snapshot) == ("a",)
    bare = steered(snapshot, ())
    assert [[taint.key for taint in node.spec.taints or ()] for node in bare.nodes.records] == [["team"]] * 2
    assert steered(bare, ()) is bare


def crowded(**execution: Any) -> Any:
    """Two hot nodes, a cool one that is almost full by requests, and pods that would come back."""
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in "abc"]
    web = a_workload("web", ["a", "a", "a", "b", "b", "b"], cpu="100m")
    full = a_workload("full", ["c"], cpu="6")
    load = {**{f"web-{index}": 3.0 for index in range(6)}, "full-0": 1.0}
    return planning_inputs(nodes, [web, full], pod_load=load, policy=a_policy(execution=execution))


def test_a_plan_that_steers_is_made_with_the_taints() -> None:
    without, with_taints = make_plan(crowded()), make_plan(crowded(steer="softTaint"))

    assert without.moves == ()
    assert with_taints.tainted == ("a", "b")
    assert {landing.node for move in with_taints.moves for landing in move.landings} == {"c"}


def test_taints_that_a_run_left_behind_count_as_gone() -> None:
    inputs = crowded()
    left = steered(inputs.snapshot, ["c"])

    assert make_plan(replace(inputs, snapshot=left)).moves == make_plan(inputs).moves


def test_while_a_run_lasts_its_taints_are_what_they_are() -> None:
    inputs = replace(crowded(steer="softTaint"), tainted=())

    assert make_plan(inputs).moves == ()


@pytest.mark.parametrize("steer", ["none", "softTaint"])
def test_a_plan_advises_what_the_other_way_would_do(steer: str) -> None:
    inputs = crowded(steer=steer)
    first, *others = advised(make_plan(inputs), inputs).advice

    assert first.startswith("with execution.steer: softTaint 2 pods would move, 0 of 2 hot nodes stay hot, ")
    assert "without it 0 pods would move" in first or "without it no pod moves" in first
    assert others == ["the taint on a lets 1 pod more leave it", "the taint on b lets 1 pod more leave it"]
