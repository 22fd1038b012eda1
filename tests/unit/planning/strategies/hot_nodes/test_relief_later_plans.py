"""What a later plan of a run may do to nodes that were hot when the run began."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bench.crowded_cycles import crowded_inputs
from bench.points import points_at
from rebalancer.planning.inputs import FRESH_RUN, PlannerOptions, PlanningInputs, RunSoFar
from rebalancer.planning.landing.scenarios import LandingDraws
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.state.run_state import RunState
from rebalancer_lab.simulation.cycles import SimulatedRun
from rebalancer_lab.simulation.world import LoadShape, SimulatedCluster
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, because, moved, plan_of, planning_inputs

PROTECTED = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
B_WAS_HOT = RunSoFar(hot={"b": {"cpu": 65.0}})


def one_landing(cpu_of_a: int, cpu_of_b: int = 65) -> PlanningInputs:
    """a is hot, and the one pod that may leave it, of 10 points, may only land on b, which is not."""
    workloads = [
        a_workload("held-a", ["a"], cpu=f"{cpu_of_a - 10}00m", annotations=PROTECTED),
        a_workload("held-b", ["b"], cpu=f"{cpu_of_b}00m", annotations=PROTECTED),
        a_workload("web", ["a"], cpu="1"),
    ]
    return planning_inputs([a_node("a", cpu=10), a_node("b", cpu=10)], workloads, policy=a_policy())


@pytest.mark.parametrize(("cpu_of_a", "pays"), [(81, False), (90, True)])
def test_a_node_that_the_run_has_cooled_is_filled_again_only_where_that_pays(
    cpu_of_a: int, pays: bool
) -> None:
    """b gets 10 points above its coolTo; a loses 11 or 20, those above its threshold counted twice."""
    inputs = one_landing(cpu_of_a)
    later = plan_of(inputs, B_WAS_HOT)

    assert moved(plan_of(inputs)) == {"web-0": "b"}
    assert moved(later) == ({"web-0": "b"} if pays else {})
    assert [node.name for node in later.nodes if node.hot] == ["a"]
    assert (
        pays
        or because(later, "web-0")
        == "another node that is hot, or was in this run, would be that much warmer"
    )


def test_the_benefit_of_a_later_plan_counts_what_it_adds_to_nodes_that_the_run_has_cooled() -> None:
    """a loses 20 points, and b, which is not hot any more, gets 10."""
    benefit = plan_of(one_landing(90), B_WAS_HOT).benefit

    assert benefit is not None
    assert (benefit.excess.before, benefit.excess.after) == (35.0, 25.0)
    assert (benefit.hot_nodes.before, benefit.hot_nodes.after) == (1, 0)


def test_a_node_that_the_run_has_cooled_takes_pods_up_to_its_cool_to() -> None:
    assert moved(plan_of(one_landing(81, cpu_of_b=55), B_WAS_HOT)) == {"web-0": "b"}


def test_a_node_that_is_hot_again_is_relieved_by_a_later_plan() -> None:
    assert moved(plan_of(one_landing(90, cpu_of_b=50), RunSoFar(hot={"a": {"cpu": 65.0}}))) == {"web-0": "b"}


def test_a_node_that_is_hot_again_has_the_level_that_its_reason_names() -> None:
    """What the rules say of it now, and not what they said when the run began."""
    (node,) = (
        node for node in plan_of(one_landing(90), RunSoFar(hot={"a": {"cpu": 40.0}})).nodes if node.hot
    )

    assert node.levels["cpu"].cool_to == 65.0
    assert node.because == ("cpu 90.0 %: hot above 80 %, cool at 65 %",)


def test_each_plan_hands_on_which_nodes_were_hot_in_the_run() -> None:
    inputs = one_landing(90)

    assert Planner(inputs).hot_in_run == {"a": {"cpu": 65.0}}
    assert Planner(inputs, B_WAS_HOT).hot_in_run == {"a": {"cpu": 65.0}, "b": {"cpu": 65.0}}
    assert Planner(inputs, RunSoFar(hot={"removed": {"cpu": 65.0}})).hot_in_run == {"a": {"cpu": 65.0}}


def test_a_level_that_the_rules_have_raised_or_dropped_since_is_as_the_run_found_it() -> None:
    """By a mean or a score it changes from plan to plan."""
    assert Planner(one_landing(90), RunSoFar(hot={"b": {"cpu": 40.0}})).hot_in_run["b"] == {"cpu": 40.0}


@pytest.mark.parametrize(("so_far", "holds"), [(FRESH_RUN, True), (B_WAS_HOT, False)])
def test_what_is_looked_at_again_is_held_to_what_was_hot_when_the_run_began(
    so_far: RunSoFar, holds: bool
) -> None:
    """A pod that is where it must not be may land on b only, which its own run has cooled to 60 %."""
    ssd = {"nodeSelector": {"disk": "ssd"}}
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10, labels={"disk": "ssd"})]
    workloads = [
        a_workload("held-b", ["b"], cpu="6", annotations=PROTECTED),
        a_workload("web", ["a"], cpu="1", spec=ssd),
    ]
    policy = a_policy(strategies={"misplaced": True})
    inputs = planning_inputs(nodes, workloads, policy=policy)
    (move,) = plan_of(inputs).moves
    verdict = Planner(inputs, so_far).recheck([move])[move.pod.uid]

    assert isinstance(verdict, Move) == holds
    words = "b would be at 70.0 % cpu; it was hot in this run, and may be filled up to 65.0 % only"
    assert holds or words in str(verdict)


@pytest.mark.parametrize(("load", "seed"), [(75, 1), (75, 3)])
def test_no_later_plan_of_a_run_leaves_more_points_than_it_found_by_the_measure_of_the_first(
    load: int, seed: int
) -> None:
    """Each landing of these later plans is the only one possible: what they leave is what they promise."""
    number = 3 * seed + (55, 65, 75).index(load)
    _, _, inputs = crowded_inputs(number)
    random = np.random.default_rng((0, load, seed, 1))
    cluster = SimulatedCluster(inputs, LoadShape(), random)
    planner = Planner(cluster.inputs(RunState()), options=PlannerOptions(explains=False))
    prepared = planner.prepared
    run = SimulatedRun(cluster, RunState(), random, LandingDraws(random))
    made: list[Move] = []
    points: list[float] = []
    for carried_out in run.plan_by_plan(planner, planner.plan()):
        made += [outcome.move for outcome in carried_out.outcomes]
        points.append(points_at(prepared, cluster.percent(), made))

    assert len(points) > 1
    assert all(after <= before + 1e-6 for before, after in pairwise(points)), points
