"""Runs by landings that are drawn, many of them on the same cluster."""

from __future__ import annotations

from bench.replanned_runs import drawn_runs, just_made, summary, with_steering
from rebalancer.planning.inputs import PlanningInputs
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs


def _inputs() -> PlanningInputs:
    """A hot node that is cool without two of its pods, each of which may land on two nodes alike."""
    workloads = [a_workload(f"web-{number}", ["hot"], cpu="1") for number in range(4)]
    return planning_inputs([a_node(name) for name in ("hot", "a", "b")], workloads, policy=a_policy())


def test_every_run_lands_as_drawn_and_all_of_them_leave_the_cluster_as_it_was() -> None:
    runs = drawn_runs(_inputs(), 8)

    assert {run.hot for run in runs} == {0}
    assert len({run.elsewhere for run in runs}) > 1
    assert runs == drawn_runs(_inputs(), 8)
    assert runs[:3] == drawn_runs(_inputs(), 3)


def test_a_summary_says_in_how_many_runs_too_much_is_left() -> None:
    runs = drawn_runs(_inputs(), 2)

    assert summary(runs).split()[:3] == ["0.00", "0", "0%"]


def test_pods_made_just_now_cost_nothing_for_their_age() -> None:
    young = just_made(_inputs())

    assert (young.snapshot.pods.created == young.now).all()
    assert drawn_runs(young, 1)[0].hot == 0


def test_runs_steer_if_they_are_told_to_and_are_otherwise_as_they_were() -> None:
    inputs = _inputs()
    steered = with_steering(inputs, "softTaint").policy

    assert with_steering(inputs, "none").policy == inputs.policy
    assert steered.execution.steer == "softTaint"
    assert steered.model_copy(update={"execution": inputs.policy.execution}) == inputs.policy
