"""The strategy that moves pods which their nodes would not admit any more."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.planning.plan import Plan
from rebalancer.planning.revalidation import revalidate_moves
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, kept, moved, plan_of, planning_inputs
from tests.unit.planning.eviction.protected_pods import LEAVING

SSD = {"nodeSelector": {"disk": "ssd"}}
EXCLUDED = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}
ON = a_policy(strategies={"misplaced": True})


def tainted(key: str) -> list[dict[str, str]]:
    return [{"key": key, "value": "", "effect": "NoSchedule"}]


def planned_with(spec: dict[str, Any], *, policy: Any = ON, on: tuple[str, ...] = ("a",), **a: Any) -> Plan:
    """Pods on node a, which is cool; b has an ssd."""
    nodes = [a_node("a", **a), a_node("b", labels={"disk": "ssd"})]
    return plan_of(planning_inputs(nodes, [a_workload("web", list(on), spec=spec)], policy=policy))


def test_it_is_off_unless_asked_for() -> None:
    assert planned_with(SSD, policy=a_policy()).moves == ()


def test_a_pod_whose_node_lost_a_label_it_selects_moves_where_it_is() -> None:
    plan = planned_with(SSD)
    assert moved(plan) == {"web-0": "b"}
    assert plan.moves[0].because.startswith("a would not admit it any more (NodeAffinity: ")


def test_a_pod_that_does_not_tolerate_its_node_any_more_moves() -> None:
    plan = planned_with({}, taints=tainted("dedicated"))
    assert moved(plan) == {"web-0": "b"}
    assert "taint dedicated" in plan.moves[0].because


@pytest.mark.parametrize("key", ["node.kubernetes.io/unschedulable", "node.kubernetes.io/disk-pressure"])
def test_taints_that_speak_of_the_node_itself_do_not_count(key: str) -> None:
    assert planned_with({}, taints=tainted(key)).moves == ()


@pytest.mark.parametrize("key", LEAVING)
def test_a_node_that_is_about_to_be_removed_is_not_drained(key: str) -> None:
    assert planned_with({}, taints=tainted(key)).moves == ()


@pytest.mark.parametrize("key", LEAVING)
def test_a_pod_misplaced_for_another_reason_waits_for_whoever_removes_its_node(key: str) -> None:
    plan = planned_with(SSD, taints=tainted(key))
    assert kept(plan) == {"web-0": "NodeLeaving"}
    assert key in plan.kept[0].because


@pytest.mark.parametrize(
    ("excluded", "moves"),
    [
        (["dedicated"], 0),
        (["dedicated=batch"], 0),
        (["dedicated=web"], 1),
        (["dedicated/*"], 1),
        ([], 1),
    ],
)
def test_the_policy_names_taints_that_make_no_pod_misplaced(excluded: list[str], moves: int) -> None:
    policy = a_policy(strategies={"misplaced": {"excludedTaints": excluded}})
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    assert len(planned_with({}, policy=policy, taints=taints).moves) == moves


def test_a_prefix_names_all_taints_below_it() -> None:
    policy = a_policy(strategies={"misplaced": {"excludedTaints": ["example.com/*"]}})
    assert planned_with({}, policy=policy, taints=tainted("example.com/batch")).moves == ()
    assert len(planned_with({}, policy=policy, taints=tainted("example.community/batch")).moves) == 1


def test_a_cordon_is_no_reason_to_move() -> None:
    assert planned_with({}, unschedulable=True).moves == ()


def test_of_two_pods_that_must_be_apart_one_moves() -> None:
    web = a_workload("web", ["a", "a"], spec=EXCLUDED)
    plan = plan_of(planning_inputs([a_node(name) for name in "abcd"], [web], policy=ON))
    assert len(plan.moves) == 1


def test_pods_that_are_not_spread_as_they_must_be_move() -> None:
    assert len(planned_with(SPREAD, on=("a", "a", "a")).moves) >= 1


def test_pods_that_want_the_same_port_of_their_node_are_parted() -> None:
    container = {"name": "main", "image": "app:v1", "ports": [{"hostPort": 80, "containerPort": 80}]}
    assert len(planned_with({"containers": [container]}, on=("a", "a")).moves) == 1


def test_a_pod_that_would_be_feasible_nowhere_else_stays() -> None:
    plan = planned_with({"nodeSelector": {"disk": "tape"}})
    assert kept(plan) == {"web-0": "NoLanding"}


def test_a_protected_pod_stays_however_misplaced() -> None:
    policy = a_policy(strategies={"misplaced": True}, evictable={"protect": ["SingleReplica"]})
    plan = planned_with(SSD, policy=policy)
    assert kept(plan) == {"web-0": "SingleReplica"}
    assert "misplaced: NodeAffinity" in plan.kept[0].because


def test_limits_hold_for_misplaced_pods_too() -> None:
    policy = a_policy(strategies={"misplaced": True}, limits={"perRun": 2})
    plan = planned_with(SSD, policy=policy, on=("a", "a", "a"))
    assert len(plan.moves) == 2
    assert sorted(kept(plan).values()) == ["Limit"]


def test_a_pod_that_is_where_it_belongs_stays() -> None:
    plan = planned_with(SSD, on=("b",))
    assert (plan.moves, plan.kept) == ((), ())


def test_a_misplaced_pod_is_not_sent_where_it_would_make_a_node_hot() -> None:
    nodes = [a_node("a"), a_node("b", labels={"disk": "ssd"})]
    web = a_workload("web", ["a"], spec=SSD)
    plan = plan_of(planning_inputs(nodes, [web], policy=ON, load={"b": 70}))
    assert kept(plan) == {"web-0": "NoBetterLanding"}


def test_a_misplaced_move_still_holds_before_its_wave_although_its_node_is_cool() -> None:
    inputs = planning_inputs(
        [a_node("a"), a_node("b", labels={"disk": "ssd"})], [a_workload("web", ["a"], spec=SSD)], policy=ON
    )
    moves = plan_of(inputs).moves
    assert list(revalidate_moves(inputs, moves).verdicts.values()) == list(moves)
