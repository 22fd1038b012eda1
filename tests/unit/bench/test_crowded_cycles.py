"""Runs on crowded clusters, and what counts as a kept promise and as a pod that comes back."""

from __future__ import annotations

from bench.crowded_clusters import LOADS
from bench.crowded_cycles import Eviction, crowded_inputs, differences, figures_of, run_cycles, sum_of
from rebalancer.planning.inputs import PlanningInputs
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs


def _inputs(*cool: str) -> PlanningInputs:
    """A hot node that is cool without two of its pods, which may land on any of the cool ones."""
    workloads = [a_workload(f"web-{number}", ["hot"], cpu="1") for number in range(4)]
    return planning_inputs([a_node(name) for name in ("hot", *cool)], workloads, policy=a_policy())


def test_a_plan_with_one_landing_for_each_move_leaves_what_it_promised() -> None:
    first, *later = run_cycles(_inputs("a"), 3, (0,))

    assert (first.hot_before, first.hot_after, first.newly_hot) == (1, 0, 0)
    assert first.moves > 0
    assert not list(differences([first, *later]))
    assert {run.moves for run in later} == {0}


def test_a_drawn_landing_is_on_a_course_that_the_plan_foresees() -> None:
    runs = [run for seed in range(4) for run in run_cycles(_inputs("a", "b"), 1, (seed,))]
    plans = [plan for run in runs for plan in run.plans]

    assert sum(plan.drawn for plan in plans) > 0
    assert sum(plan.unlisted for plan in plans) == 0
    assert not any(plan.is_apart for plan in plans)


def test_a_replica_comes_back_if_it_is_evicted_within_an_hour_of_its_last_eviction() -> None:
    first = Eviction(0, "default/web", "a", "b", at=0.0)
    soon = Eviction(0, "default/web", "b", "a", at=3600.0)
    late = Eviction(0, "default/web", "b", "a", at=3601.0)
    other_replica = Eviction(1, "default/web", "b", "a", at=600.0)
    same_run = Eviction(1, "default/web", "b", "a", at=0.0)

    assert soon.nodes_left([first]) == ["a"]
    assert late.nodes_left([first]) == []
    assert other_replica.nodes_left([first]) == []
    evictions = (soon, late, other_replica, same_run)
    assert [eviction.repeats_workload([first]) for eviction in evictions] == [True, False, True, False]


def test_figures_of_clusters_add_up() -> None:
    figures = figures_of(list(run_cycles(_inputs("a"), 2, (0,))))

    assert figures["moves"] == figures["first"] > 0
    assert sum_of([figures, figures])["moves"] == 2 * figures["moves"]


def test_clusters_take_mean_loads_by_turns_and_keep_their_cooldown_unless_told() -> None:
    clusters = [crowded_inputs(number) for number in range(4)]
    _, _, hurried = crowded_inputs(0, 600.0)

    assert [load for load, _, _ in clusters] == [*LOADS, LOADS[0]]
    assert [seed for _, seed, _ in clusters] == [0, 0, 0, 1]
    assert clusters[0][2].policy.planning.cooldown == 7200.0
    assert hurried.policy.planning.cooldown == 600.0
