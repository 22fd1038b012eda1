"""A soft taint on hot nodes, or on all that are not cool, is part of the plan: who gets it, and why."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.planning.planner import advised, make_plan
from rebalancer.planning.prepared import prepare
from rebalancer.planning.steering import (
    KARPENTER_LABEL,
    TAINT_KEY,
    advice,
    left_behind,
    nodes_to_steer,
    steered,
)
from rebalancer.policy.schema import Execution
from tests.builders import a_node, a_snapshot
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs

STEER = Execution(steer="softTaint")
WIDER = Execution(steer="softTaint", steer_nodes="aboveCoolTo")
OURS = {"key": TAINT_KEY, "value": "5f0c9a1e.run.1", "effect": "PreferNoSchedule"}


GPU = [{"key": "gpu", "effect": "NoSchedule"}]
POOLS: list[tuple[str, list[dict[str, str]]]] = [
    *((name, []) for name in "abc"),
    *((name, GPU) for name in "de"),
]


def hot(*which: bool) -> Any:
    return np.array(which)


def steered_nodes(nodes: Sequence[Mapping[str, Any]], *which: bool, execution: Execution = STEER) -> set[str]:
    return set(nodes_to_steer(a_snapshot(nodes=nodes), hot(*which), hot(*[False] * len(which)), execution))


def wider(nodes: Sequence[Mapping[str, Any]], levels: str, execution: Execution = WIDER) -> str:
    """The names of nodes that get the taint where ``levels`` says h for hot, w for warm and c for cool."""
    are_hot, are_warm = (hot(*(level == of for level in levels)) for of in "hw")
    return "".join(nodes_to_steer(a_snapshot(nodes=nodes), are_hot, are_warm, execution))


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


def test_nodes_that_are_not_cool_get_it_too_only_where_the_policy_says_so() -> None:
    nodes = [a_node(name) for name in "abc"]

    assert Execution().steer_nodes == "hot"
    assert wider(nodes, "hwc") == "ab"
    assert wider(nodes, "hwc", STEER) == "a"
    assert wider(nodes, "hwc", Execution(steer_nodes="aboveCoolTo")) == ""
    assert wider(nodes, "cwc") == "", "nothing leaves a hot node"


def test_in_a_pool_without_a_cool_node_the_hot_ones_alone_get_it() -> None:
    def pool(name: str, of: str, **more: Any) -> Mapping[str, Any]:
        return a_node(name, labels={"cloud.google.com/gke-nodepool": of}, **more)

    both = [pool("a", "x"), pool("b", "x"), pool("c", "y"), pool("d", "y")]
    assert wider(both, "hwwc") == "ac"
    assert wider(both, "hhwc") == "c"
    assert wider(both, "hwww") == "a"
    assert wider(both[:1], "h") == wider(both[:1], "w") == ""
    cordoned = pool("d", "x", unschedulable=True)
    assert wider([*both[:2], cordoned], "hwc") == "a", "a cool node that takes no pods is no way out"


def test_in_no_cluster_of_two_pools_all_nodes_of_one_get_it_nor_a_cool_one() -> None:
    nodes = [a_node(name, taints=taints) for name, taints in POOLS]
    for levels in map("".join, itertools.product("hwc", repeat=len(nodes))):
        found, narrow = wider(nodes, levels), wider(nodes, levels, STEER)

        assert set(narrow) <= set(found)
        assert not any(set(pool) <= set(found) for pool in ("abc", "de"))
        assert {levels["abcde".index(name)] for name in found} <= {"h", "w"}


def test_a_later_plan_gives_it_to_further_nodes_and_takes_it_from_none() -> None:
    def further(levels: str, before: str, execution: Execution = WIDER) -> str:
        are_hot, are_warm = (hot(*(level == of for level in levels)) for of in "hw")
        snapshot = a_snapshot(nodes=[a_node(name) for name in "abcd"[: len(levels)]])
        return "".join(nodes_to_steer(snapshot, are_hot, are_warm, execution, tuple(before)))

    assert further("hwcc", "c") == "cab"
    assert further("hwcc", "c", STEER) == "ca"
    assert further("cccc", "c") == "c", "nothing leaves a hot node any more"
    assert further("hwc", "c") == "ca", "one node of a pool is left without it"
    assert further("hhw", "c") == "c"
    assert further("hc", "ab") == "ab", "a node that had none has gone since"


def test_nodes_that_take_no_pods_do_not_get_it() -> None:
    assert steered_nodes([a_node("a", unschedulable=True), a_node("b")], True, False) == set()
    assert steered_nodes([a_node("a", ready=False), a_node("b")], True, False) == set()


def test_nodes_of_karpenter_get_none() -> None:
    nodes = [a_node(name, labels={KARPENTER_LABEL: "general"}) for name in "ab"]

    assert steered_nodes(nodes, True, False) == set()
    assert wider([*nodes, a_node("c"), a_node("d")], "wchc") == "c"


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


def beside_a_warm_node(**execution: Any) -> Any:
    """A hot node whose pods would go to the one with the least requested, which soon would be hot itself."""
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in ("hot", "warm", "cool")]
    web, full = a_workload("web", ["hot"] * 3, cpu="100m"), a_workload("full", ["cool"], cpu="6")
    busy = a_workload("busy", ["warm"], cpu="10m")
    load = {**{f"web-{index}": 3.0 for index in range(3)}, "full-0": 1.0, "busy-0": 7.0}
    policy = a_policy(execution={"steer": "softTaint", **execution})
    return planning_inputs(nodes, [web, full, busy], pod_load=load, policy=policy)


def test_pods_pass_by_nodes_that_would_soon_be_hot_themselves() -> None:
    without, wide = beside_a_warm_node(), beside_a_warm_node(steerNodes="aboveCoolTo")

    assert make_plan(without).moves == ()
    plan = make_plan(wide)
    assert plan.tainted == ("hot", "warm")
    assert {landing.node for move in plan.moves for landing in move.landings} == {"cool"}
    keys = [[taint.key for taint in node.spec.taints or ()] for node in prepare(wide).nodes.records]
    assert keys == [[], [TAINT_KEY], [TAINT_KEY]], "cool, hot, warm: the same taint, so these two tie"


def test_the_same_plan_is_made_where_only_hot_nodes_get_it_as_without_the_setting() -> None:
    inputs = beside_a_warm_node(steerNodes="hot")

    assert inputs.policy == beside_a_warm_node().policy
    assert make_plan(crowded(steerNodes="aboveCoolTo")).tainted == ()


def test_a_plan_says_that_the_setting_does_nothing_where_nothing_steers() -> None:
    said = "execution.steerNodes does nothing without execution.steer: softTaint"

    assert said in make_plan(beside_a_warm_node(steer="none", steerNodes="aboveCoolTo")).warnings
    for quiet in ({"steerNodes": "aboveCoolTo"}, {"steer": "none"}, {}):
        assert not any("steerNodes" in text for text in make_plan(beside_a_warm_node(**quiet)).warnings)


def test_nodes_that_have_become_warm_since_get_no_taint_while_a_plan_is_carried_out() -> None:
    inputs = replace(beside_a_warm_node(steerNodes="aboveCoolTo"), tainted=("hot",))

    assert prepare(inputs).tainted == ("hot",)
    assert make_plan(inputs).moves == ()
    assert prepare(replace(inputs, steers_further=True)).tainted == ("hot", "warm"), "by its next plan"


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
    first, *others = advised(make_plan(inputs), inputs).notes

    assert first.startswith("with execution.steer: softTaint 2 pods would move, 0 of 2 hot nodes stay hot, ")
    assert "without it 0 pods would move" in first or "without it no pod moves" in first
    assert others == ["the taint on a lets 1 pod more leave it", "the taint on b lets 1 pod more leave it"]


def test_a_plan_is_not_said_to_change_nothing_where_taints_would_let_fewer_pods_move() -> None:
    moving = replace(make_plan(beside_a_warm_node(steerNodes="aboveCoolTo")), tainted=())
    still = replace(moving, moves=(), benefit=None)
    nothing = ("execution.steer: softTaint would change nothing: no pod that stays would move with it",)

    assert advice(moving, moving, moving) == advice(still, still, still) == nothing
    assert advice(moving, still, still) == (
        "with execution.steer: softTaint no pod moves; without it 1 pod would move, "
        "0 of 1 hot node stays hot, 0 of 35 points are left",
    )


@pytest.mark.parametrize(
    "execution", [{"steer": "none"}, {"steerNodes": "hot"}, {"steerNodes": "aboveCoolTo"}], ids=str
)
def test_a_plan_advises_what_more_taints_would_do(execution: dict[str, str]) -> None:
    inputs = beside_a_warm_node(**execution)
    stays = "0 pods would move, 1 of 1 hot node stays hot, 35 of 35 points are left"

    assert advised(make_plan(inputs), inputs).notes == (
        f"with execution.steer: softTaint {stays}; without it {stays}",
        "with execution.steerNodes: aboveCoolTo as well, 1 pod would move, 0 of 1 hot node stays hot, "
        "0 of 35 points are left",
    )
