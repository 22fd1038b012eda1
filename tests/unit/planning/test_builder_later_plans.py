"""Limits hold over all plans of a run together; no workload that one of them moved is moved by another."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.plan import Move
from tests.builders import a_node
from tests.conftest import examples
from tests.unit.planning.builders import a_policy, a_workload, because, plan_of, planning_inputs

APPS = [f"app-{number}" for number in range(8)]


def a_cluster(**limits: object) -> PlanningInputs:
    """Two hot nodes with three pods of each of eight workloads in two namespaces, and room elsewhere."""
    nodes = [a_node("a", cpu=12), a_node("b", cpu=12), a_node("cool", cpu=100)]
    workloads = [
        a_workload(name, ["a", "b", "ab"[number % 2]], namespace=("default", "shop")[number % 2])
        for number, name in enumerate(APPS)
    ]
    return planning_inputs(nodes, workloads, policy=a_policy(limits=limits))


def plans_of(inputs: PlanningInputs, how_many_are_made: list[int]) -> list[tuple[Move, ...]]:
    """The moves that are made of each plan: the first so many of it; the others were skipped."""
    made: list[tuple[Move, ...]] = []
    for count in how_many_are_made:
        before = tuple(move for moves in made for move in moves)
        made.append(plan_of(inputs, RunSoFar(made=before)).moves[:count])
    return made


@settings(max_examples=examples(25))
@given(
    per_run=st.integers(0, 6),
    per_node=st.integers(1, 4),
    per_namespace=st.integers(1, 5),
    made=st.lists(st.integers(0, 3), min_size=2, max_size=4),
)
def test_what_all_plans_of_a_run_move_is_within_each_limit(
    per_run: int, per_node: int, per_namespace: int, made: list[int]
) -> None:
    limits = {"perRun": per_run, "perNode": per_node, "perNamespace": per_namespace, "perWorkload": "100%"}
    plans = plans_of(a_cluster(**limits), made)
    moves = [move for plan in plans for move in plan]
    assert len(moves) <= per_run
    assert max(Counter(move.from_node for move in moves).values(), default=0) <= per_node
    assert max(Counter(move.pod.namespace for move in moves).values(), default=0) <= per_namespace
    of_plans = [{(move.pod.namespace, move.pod.workload) for move in plan} for plan in plans]
    assert sum(map(len, of_plans)) == len(set().union(*of_plans))


def test_a_pod_of_a_workload_that_this_run_has_moved_says_so() -> None:
    inputs = a_cluster(perWorkload="100%")
    (first, *_) = plan_of(inputs).moves
    later = plan_of(inputs, RunSoFar(made=(first,)))
    left = next(item.pod.name for item in later.kept if item.pod.workload == first.pod.workload)
    assert "was moved by this run, which moves it only once" in because(later, left)


def test_without_earlier_plans_a_plan_is_as_ever() -> None:
    inputs = a_cluster()
    assert plan_of(inputs, RunSoFar(made=())) == plan_of(inputs)
