"""Two nodes that are hot by different resources swap pods, where it is certain that these land there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.planning.strategies.hot_nodes import drafts
from rebalancer.planning.strategies.hot_nodes import search as relief_search
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, kept, moved, plan_of, planning_inputs

RULE = {"utilization": {"cpu": 80, "memory": 85}, "coolTo": {"cpu": 65, "memory": 75}}
HOST = "kubernetes.io/hostname"
LIKELY: dict[str, Any] = {"aggressiveness": 5, "minGain": 5, "confidence": 0.95}


def hot_by_cpu_and_by_memory(per_run: int = 100, **planning: Any) -> PlanningInputs:
    """Each node would be cool with some pods of the other one, and has no room for any."""
    policy = a_policy(hotNodes={"forRuns": 1, "any": [RULE]}, planning=planning, limits={"perRun": per_run})
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


def test_with_a_higher_limit_a_plan_would_go_on_from_its_swaps() -> None:
    plan = plan_of(hot_by_cpu_and_by_memory(per_run=2, **LIKELY))
    assert [(move.pod.name[:3], bool(move.makes_room_for)) for move in plan.moves] == [
        ("mem", True),
        ("cpu", False),
    ]
    assert plan.raised_limit == "perRun 5 would bring 1 of 2 hot nodes down to coolTo, this plan 0"
    assert plan_of(hot_by_cpu_and_by_memory(per_run=5, **LIKELY)).unsolved.keys() == {"b"}


@given(
    cpu=st.lists(st.integers(9, 11), min_size=9, max_size=9),
    memory=st.lists(st.integers(9, 11), min_size=9, max_size=9),
    per_run=st.integers(2, 6),
)
def test_what_is_said_of_plans_that_swap_changes_none_of_their_moves(
    cpu: list[int], memory: list[int], per_run: int
) -> None:
    policy = a_policy(
        hotNodes={"forRuns": 1, "any": [RULE]}, planning=LIKELY, limits={"perRun": per_run, "perWorkload": 9}
    )
    workloads = [
        *(a_workload(f"cpu-{at}", ["a"], cpu=f"{size}00m", memory="200Mi") for at, size in enumerate(cpu)),
        *(a_workload(f"mem-{at}", ["b"], cpu="200m", memory=f"{size}00Mi") for at, size in enumerate(memory)),
    ]
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in "ab"]
    inputs = planning_inputs(nodes, workloads, policy=policy)
    plan = plan_of(inputs)
    assert plan.moves == plan_of(inputs, explains=False).moves
    assert len({move.pod.uid for move in plan.moves}) == len(plan.moves)


def test_no_pod_is_swapped_that_may_come_back_once_it_is_gone() -> None:
    """As soon as a pod is gone, the scheduler prefers its own node."""
    assert not plan_of(hot_by_cpu_and_by_memory()).moves


@pytest.mark.parametrize("most", [91, 93])
def test_the_first_pod_of_a_swap_fills_no_node_above_max_after(most: float) -> None:
    """With it node a is at 92 % cpu until its own pod has left."""
    plan = plan_of(hot_by_cpu_and_by_memory(**LIKELY, maxAfter={"cpu": most}))
    assert bool(plan.moves) == (most > 92)


def test_a_swap_holds_when_it_is_looked_at_again_and_not_without_its_second_pod() -> None:
    inputs = hot_by_cpu_and_by_memory(**LIKELY)
    moves = plan_of(inputs).moves
    assert all(isinstance(found, Move) for found in Planner(inputs).recheck(moves).values())
    other = replace(moves[1], from_node="b")
    verdicts = Planner(inputs).recheck((moves[0], other))
    assert verdicts[moves[0].pod.uid] == "NotNeeded: the pod for which it would make room does not move"


def each_to_the_other(
    held: tuple[str, str], of_a: tuple[int, str, str], of_b: tuple[str, str], rule: dict[str, Any] = RULE
) -> PlanningInputs:
    """Nodes a and b, each with a pod that stays, of so much memory, and pods that belong on the other."""

    def on(node: str) -> dict[str, Any]:
        return {"nodeSelector": {HOST: node}}

    count, cpu, memory = of_a
    most = {"maxAfter": {"cpu": 100, "memory": 100}}
    return planning_inputs(
        [a_node(name, cpu=10, memory="100Gi") for name in "ab"],
        [
            a_workload("held-a", ["a"], cpu="6", memory=held[0], spec=on("a")),
            a_workload("held-b", ["b"], cpu="100m", memory=held[1], spec=on("b")),
            a_workload("from-a", ["a"] * count, cpu=cpu, memory=memory, spec=on("b")),
            a_workload("from-b", ["b"], cpu=of_b[0], memory=of_b[1], spec=on("a")),
        ],
        policy=a_policy(hotNodes={"forRuns": 1, "any": [rule]}, planning={**LIKELY, **most}),
    )


def test_several_pods_that_make_room_fill_a_node_by_no_more_than_the_last_one_takes_away() -> None:
    """One of them after the other would fill b from 65 to 86 % memory, and then 10 points leave it."""
    rule = {"utilization": {"cpu": 64, "memory": 50}, "coolTo": {"cpu": 49, "memory": 40}}
    inputs = each_to_the_other(("10Gi", "55Gi"), (3, "800m", "7Gi"), ("300m", "10Gi"), rule)
    for node in plan_of(inputs).nodes:
        assert node.after is None or node.after.load["memory"] <= node.load["memory"]


def test_no_first_pod_of_a_swap_leaves_more_excess_by_making_a_node_hot_in_something_else() -> None:
    """Node a would be at 88 % memory, and hot by it, had the run to end before its own pod leaves."""
    inputs = each_to_the_other(("72Gi", "81Gi"), (1, "3", "4Gi"), ("1", "12Gi"))
    assert [move.pod.name for move in plan_of(inputs).moves] == ["from-a-0", "from-b-0"]


def full_by_use_and_empty_by_requests() -> PlanningInputs:
    """The scheduler sends every pod to c, which is nearly hot, until more is requested there than on d."""
    nodes = [a_node(name, cpu=10) for name in "acd"]
    workloads = [
        a_workload("held-a", ["a"], cpu="6", spec={"nodeSelector": {HOST: "a"}}),
        a_workload("big", ["a"] * 3, cpu="100m"),
        a_workload("middle", ["a"], cpu="50m"),
        a_workload("small", ["a"] * 3, cpu="400m"),
        a_workload("held-c", ["c"], cpu="3", spec={"nodeSelector": {HOST: "c"}}),
        a_workload("held-d", ["d"], cpu="3300m", spec={"nodeSelector": {HOST: "d"}}),
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
        ("small", "d"),
        ("small", "c"),
        ("big", "d"),
    ]
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == 0
    monkeypatch.setattr(drafts, "_CELLS", 0)
    monkeypatch.setattr(relief_search, "_ROOM_CELLS", 0)
    assert moved(plan_of(full_by_use_and_empty_by_requests())) == {"middle-0": "c"}
