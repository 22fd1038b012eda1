"""What a run tells its later plans, and those that look again at its moves."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.plan import Progress
from rebalancer.planning.planner import Planner
from rebalancer.run import run
from rebalancer.run.memory import RunMemory
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs, with_scheduler

SSD = {"nodeSelector": {"disk": "ssd"}}
HELD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def a_cluster(cpu_of_b: str) -> PlanningInputs:
    """A pod of a is where it must not be; it may land on b only, whose one pod may leave it for c."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10, labels={"disk": "ssd"}), a_node("c", cpu=10)]
    workloads = [
        a_workload("held", ["b"], cpu="6", annotations=HELD),
        a_workload("db", ["b"], cpu=cpu_of_b),
        a_workload("web", ["a"], cpu="1", spec=SSD),
    ]
    inputs = planning_inputs(nodes, workloads, policy=a_policy(strategies={"misplaced": True}))
    return with_scheduler(inputs, version="1.33")


def a_replanner(first: PlanningInputs, second: PlanningInputs) -> Any:
    """A run that has planned for the first cluster, and finds the second when it reads again."""

    def read_again(_state: RunState | None, so_far: RunSoFar) -> Planner:
        return Planner(second, so_far)

    planned = replace(run._planned(Planner(first)), age=run.PlanAge(iter((0.0, 100.0)).__next__))
    return run._Replanner(planned, RunMemory(None, None), read_again)


def test_no_plan_of_a_run_fills_a_node_that_was_hot_when_the_run_began() -> None:
    again = a_cluster("100m")
    cooled = a_replanner(a_cluster("2500m"), again).plan_again((), 1)
    never_hot = a_replanner(again, again).plan_again((), 1)

    assert [move.pod.name for move in never_hot.moves] == ["web-0"]
    assert cooled.moves == ()


def test_no_move_holds_that_would_fill_a_node_which_was_hot_when_its_plan_was_made() -> None:
    again = a_cluster("100m")
    (move,) = run._planned(Planner(again)).plan.moves
    before = a_replanner(a_cluster("2500m"), again)
    never_hot = a_replanner(again, again)

    words = "b would be at 71.0 % cpu; it was hot in this run, and may be filled up to 65.0 % only"
    assert words in before.validate([move], Progress(left=[move]))[move.pod.uid]
    assert never_hot.validate([move], Progress(left=[move]))[move.pod.uid] == move
