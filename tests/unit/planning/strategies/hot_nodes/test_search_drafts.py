"""What several searches find that one greedy search does not, and what they leave out at the end."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.planning.strategies.hot_nodes import drafts
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

PROTECTED = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def held(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def room_for_two_small_pods_or_one_large(**planning: Any) -> PlanningInputs:
    """The pod that removes most would take the room of two others, which remove more together."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=10), a_node("cool", cpu=10)]
    pods = [
        a_workload("large", ["a"], cpu="1500m"),
        a_workload("small", ["b"], cpu="1300m"),
        a_workload("tiny", ["c"], cpu="1200m"),
        *(a_workload(f"held-{name}", [name] * 8, spec=held(name)) for name in "abc"),
        a_workload("busy", ["cool"] * 5, cpu="1100m", spec=held("cool")),
    ]
    return planning_inputs(nodes, pods, policy=a_policy(planning=planning))


def test_two_small_moves_are_found_that_remove_more_than_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(moved(plan_of(room_for_two_small_pods_or_one_large()))) == {"small-0", "tiny-0"}
    monkeypatch.setattr(drafts, "_CELLS", 0)
    assert set(moved(plan_of(room_for_two_small_pods_or_one_large()))) == {"large-0"}


@pytest.mark.parametrize("stuck", [False, True])
def test_small_pods_stay_where_their_node_stays_hot_all_the_same(stuck: bool) -> None:
    """Together with a pod of 10 points they would cool it; that one has no landing, which the end shows."""
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in "abc"]
    workloads = [
        a_workload("small", ["a"] * 14, cpu="70m"),
        a_workload("protected", ["a"], cpu="7", annotations=PROTECTED),
    ]
    load = {**{f"small-{number}": 0.1 for number in range(14)}, "protected-0": 7.5}
    if stuck:
        workloads.append(a_workload("stuck", ["a"], cpu="1", spec=held("a")))
        load["stuck-0"] = 1.0
    plan = plan_of(planning_inputs(nodes, workloads, policy=a_policy(), pod_load=load))
    assert len(plan.moves) == (0 if stuck else 14)
    assert not stuck or {kept(plan)[f"small-{number}"] for number in range(14)} == {"LittleRelief"}


def room_on_a_cool_node(state: RunState | None = None, **planning: Any) -> PlanningInputs:
    """Pods of the hot node a may run on a and b only, and b has no room for one; its pods may go to c."""
    fast = {"disk": "ssd"}
    nodes = [
        a_node("a", cpu=10, labels=fast),
        a_node("b", cpu=10, labels=fast),
        a_node("c", cpu=10),
    ]
    workloads = [
        a_workload("big", ["a"] * 4, cpu="2250m", spec={"nodeSelector": fast}),
        a_workload("web", ["b"] * 7),
    ]
    return planning_inputs(nodes, workloads, policy=a_policy(planning=planning), state=state)


def test_pods_of_a_cool_node_make_room_for_one_of_a_hot_node() -> None:
    plan = plan_of(room_on_a_cool_node())
    assert moved(plan) == {"web-0": "c", "web-1": "c", "big-0": "b"}
    assert [move.pod.name for move in plan.moves] == ["web-0", "web-1", "big-0"]
    assert plan.moves[0].because.startswith("it makes room on b for default/big-0 of a;")
    assert {move.makes_room_for for move in plan.moves} == {plan.moves[2].pod.uid, ""}
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == 0


def test_room_is_not_made_for_less_than_it_costs() -> None:
    began = NOW - 3 * 86_400
    slow = a_past_move(workload="ReplicaSet/web", evicted_at=began, landed_at=began + 600)
    history = RunState(moves=(slow,))
    assert plan_of(room_on_a_cool_node(history)).moves
    assert not plan_of(room_on_a_cool_node(history, weights={"timeToReady": 100})).moves


def test_what_makes_room_moves_only_as_long_as_the_pod_does_for_which_it_does() -> None:
    inputs = room_on_a_cool_node()
    moves = plan_of(inputs).moves
    assert all(isinstance(found, Move) for found in Planner(inputs).recheck(moves).values())
    assert isinstance(Planner(inputs).recheck(moves[:1])[moves[0].pod.uid], Move)
    other = replace(moves[2], from_node="c")
    verdicts = Planner(inputs).recheck((*moves[:2], other))
    nobody = "NotNeeded: the pod for which it would make room does not move"
    assert [verdicts[move.pod.uid] for move in moves] == [nobody, nobody, "the pod runs on another node"]


@pytest.mark.parametrize(("small", "moves"), [("1", {"away-0", "small-0"}), ("50m", {"away-0"})])
def test_a_node_that_has_been_cooled_takes_pods_of_a_hotter_one_where_that_pays(
    small: str, moves: set[str]
) -> None:
    """The pod of a may run on a and b only; b is at 70 % once its own pod has left for c."""
    pool = {"pool": "one"}
    nodes = [a_node("a", cpu=10, labels=pool), a_node("b", cpu=10, labels=pool), a_node("c", cpu=10)]
    workloads = [
        a_workload("held-a", ["a"], cpu="8500m", annotations=PROTECTED),
        a_workload("held-b", ["b"], cpu="7", annotations=PROTECTED),
        a_workload("small", ["a"], cpu=small, spec={"nodeSelector": pool}),
        a_workload("away", ["b"], cpu="2500m"),
    ]
    plan = plan_of(planning_inputs(nodes, workloads, policy=a_policy()))

    assert set(moved(plan)) == moves
    assert moved(plan).get("small-0", "b") == "b"
