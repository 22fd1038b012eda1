"""Two nodes that are hot by different resources swap pods, where it is certain that these land there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.planning.revalidation import revalidate_moves
from rebalancer.planning.strategies.hot_nodes import search as relief_search
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, kept, moved, plan_of, planning_inputs

RULE = {"utilization": {"cpu": 80, "memory": 85}, "coolTo": {"cpu": 65, "memory": 75}}
LIKELY: dict[str, Any] = {"terminationRace": "likely"}


def hot_by_cpu_and_by_memory(**planning: Any) -> PlanningInputs:
    """Each node would be cool with some pods of the other one, and has no room for any."""
    policy = a_policy(hotNodes={"forRuns": 1, "any": [RULE]}, planning=planning)
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in "ab"]
    workloads = [
        a_workload("cpu", ["a"] * 9, cpu="1", memory="200Mi"),
        a_workload("mem", ["b"] * 9, cpu="200m", memory="1Gi"),
    ]
    return planning_inputs(nodes, workloads, policy=policy)


def test_two_hot_nodes_swap_pods_and_are_cool() -> None:
    plan = plan_of(hot_by_cpu_and_by_memory(**LIKELY))
    first, second = plan.moves[:2]
    assert (first.from_node, second.from_node) == ("b", "a")
    assert first.because.startswith("it makes room on b for default/cpu-0 of a; ")
    assert first.makes_room_for == second.pod.uid
    assert {landing.node for move in plan.moves for landing in move.landings} == {"a", "b"}
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == 0


def test_a_swapped_pod_does_not_stay_as_well() -> None:
    plan = plan_of(hot_by_cpu_and_by_memory(**LIKELY))
    assert not moved(plan).keys() & kept(plan).keys()
    assert len(moved(plan)) + len(kept(plan)) == 18


def test_no_pod_is_swapped_that_may_come_back_once_it_is_gone() -> None:
    """As soon as a pod is gone, the scheduler prefers its own node."""
    assert not plan_of(hot_by_cpu_and_by_memory(terminationRace="strict")).moves


@pytest.mark.parametrize("most", [91, 93])
def test_the_first_pod_of_a_swap_fills_no_node_above_max_after(most: float) -> None:
    """With it node a is at 92 % cpu until its own pod has left."""
    plan = plan_of(hot_by_cpu_and_by_memory(**LIKELY, maxAfter={"cpu": most}))
    assert bool(plan.moves) == (most > 92)


def test_a_swap_holds_when_it_is_looked_at_again_and_not_without_its_second_pod() -> None:
    inputs = hot_by_cpu_and_by_memory(**LIKELY)
    moves = plan_of(inputs).moves
    assert all(isinstance(found, Move) for found in revalidate_moves(inputs, moves).verdicts.values())
    other = replace(moves[1], from_node="b")
    verdicts = revalidate_moves(inputs, (moves[0], other)).verdicts
    assert verdicts[moves[0].pod.uid] == "NotNeeded: the pod for which it would make room does not move"


def full_by_use_and_empty_by_requests() -> PlanningInputs:
    """The scheduler sends every pod to c, which is nearly hot, until more is requested there than on d."""
    nodes = [a_node(name, cpu=10) for name in "acd"]
    workloads = [
        a_workload("held-a", ["a"], cpu="6", spec={"nodeSelector": {"kubernetes.io/hostname": "a"}}),
        a_workload("big", ["a"] * 3, cpu="100m"),
        a_workload("middle", ["a"], cpu="50m"),
        a_workload("small", ["a"] * 3, cpu="400m"),
        a_workload("held-c", ["c"], cpu="3", spec={"nodeSelector": {"kubernetes.io/hostname": "c"}}),
        a_workload("held-d", ["d"], cpu="3300m", spec={"nodeSelector": {"kubernetes.io/hostname": "d"}}),
    ]
    load = {"held-a-0": 3.9, "middle-0": 0.9, "held-c-0": 7.0, "held-d-0": 4.5}
    load |= {f"big-{number}": 1.2 for number in range(3)} | {f"small-{number}": 0.3 for number in range(3)}
    return planning_inputs(nodes, workloads, policy=a_policy(), pod_load=load)


def test_a_node_that_gets_every_pod_is_filled_first_with_what_requests_more_than_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(full_by_use_and_empty_by_requests())
    assert [(move.pod.name[:-2], move.landings[0].node) for move in plan.moves] == [
        ("small", "c"),
        ("big", "d"),
    ]
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == 0
    monkeypatch.setattr(relief_search, "_CELLS", 0)
    assert moved(plan_of(full_by_use_and_empty_by_requests())) == {"middle-0": "c"}
