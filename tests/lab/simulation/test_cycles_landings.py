from __future__ import annotations

import numpy as np
import pytest

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer_lab.simulation.cycles import SimulatedExecution, SimulationSettings, simulate
from rebalancer_lab.simulation.report import Cycle
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs

_HELD = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def _inputs(**execution: object) -> PlanningInputs:
    """A hot node whose three pods may land on two nodes alike, one wave each; what is held keeps it hot."""
    workloads = [a_workload(f"web-{number}", ["hot"], cpu="300m") for number in range(3)]
    held = a_workload("held", ["hot"], cpu="2900m", annotations=_HELD)
    policy = a_policy(execution={"firstWave": 1, "waveSize": 1, **execution})
    return planning_inputs([a_node(name) for name in ("hot", "a", "b")], [*workloads, held], policy=policy)


def _first_cycle(inputs: PlanningInputs) -> Cycle:
    return simulate([("test", inputs)], SimulationSettings(cycles=1)).runs[0].cycles[0]


@pytest.mark.parametrize(("replan", "plans"), [(True, 2), (False, 1)])
def test_a_cycle_plans_again_until_nothing_more_is_to_be_gained(replan: bool, plans: int) -> None:
    cycle = _first_cycle(_inputs(replan=replan))

    assert (cycle.plans, cycle.evictions) == (plans, 3)


@pytest.mark.parametrize(("steer", "hot"), [("none", 1), ("softTaint", 0)])
def test_a_node_cools_whose_pods_would_all_go_to_one_that_soon_takes_no_more(steer: str, hot: int) -> None:
    """Of what is requested the one that is not cool has the least, so the scheduler prefers it."""
    policy = a_policy(execution={"steer": steer})
    web, full = a_workload("web", ["hot"] * 3, cpu="100m"), a_workload("full", ["cool"], cpu="6")
    inputs = planning_inputs(
        [a_node(name, cpu=10, memory="10Gi") for name in ("hot", "warm", "cool")],
        [web, full, a_workload("busy", ["warm"], cpu="10m")],
        pod_load={**{f"web-{index}": 3.0 for index in range(3)}, "full-0": 1.0, "busy-0": 7.0},
        policy=policy,
    )
    run = simulate([("test", inputs)], SimulationSettings(cycles=1)).runs[0]

    assert (run.after.hot, run.evictions) == (hot, 1 - hot)


@pytest.mark.parametrize(("steer", "hot", "evictions"), [("none", 1, 2), ("softTaint", 0, 3)])
def test_the_next_plan_of_a_run_steers_past_the_node_that_the_first_has_filled(
    steer: str, hot: int, evictions: int
) -> None:
    """Of two cool nodes the one with the least requested takes two pods, and the third would make it hot."""
    policy = a_policy(execution={"steer": steer})
    web = [a_workload(f"web-{index}", ["hot"], cpu="100m") for index in range(6)]
    inputs = planning_inputs(
        [a_node(name, cpu=10, memory="10Gi") for name in ("hot", "first", "second")],
        [*web, a_workload("full", ["second"], cpu="6"), a_workload("light", ["first"], cpu="10m")],
        pod_load={**{f"web-{index}-0": 2.4 for index in range(6)}, "full-0": 3.0, "light-0": 3.0},
        policy=policy,
    )
    run = simulate([("test", inputs)], SimulationSettings(cycles=1)).runs[0]

    assert (run.after.hot, run.evictions) == (hot, evictions)


def test_moves_that_do_not_hold_after_a_landing_that_was_uncertain_are_skipped() -> None:
    inputs = _inputs()
    planner = Planner(inputs)
    plan = planner.plan()
    cool = planning_inputs(
        [a_node(name) for name in ("hot", "a", "b")],
        [a_workload(f"web-{number}", ["hot"], cpu="300m") for number in range(3)],
        policy=inputs.policy,
    )
    looked_at = SimulatedExecution(planner, np.random.default_rng(0), read_again=lambda _moved: Planner(cool))
    alone = SimulatedExecution(planner, np.random.default_rng(0))

    assert len(plan.moves[0].landings) == 2
    assert (len(list(looked_at.carry_out(plan))), looked_at.skipped) == (1, 2)
    assert (len(list(alone.carry_out(plan))), alone.skipped) == (3, 0)


def test_within_a_wave_moves_are_looked_at_in_the_cluster_as_the_waves_before_have_left_it() -> None:
    """The wave before landed where it alone could, so that until then nothing had to be read again."""
    only_c = {"nodeSelector": {"kubernetes.io/hostname": "c"}}
    nodes = [a_node(name) for name in ("hot", "a", "b", "c")]
    workloads = [a_workload(f"web-{number}", ["hot"], cpu="300m") for number in range(2)]
    held = a_workload("held", ["hot"], cpu="2800m", annotations=_HELD)
    policy = a_policy(execution={"firstWave": 1, "waveSize": 2})
    first = a_workload("first", ["hot"], cpu="600m", spec=only_c)
    inputs = planning_inputs(nodes, [first, *workloads, held], policy=policy)
    cool = planning_inputs(nodes, workloads, policy=policy)
    planner = Planner(inputs)
    plan = planner.plan()
    execution = SimulatedExecution(planner, np.random.default_rng(0), read_again=lambda _moved: Planner(cool))

    assert [(move.wave, len(move.landings)) for move in plan.moves] == [(1, 1), (2, 2), (2, 2)]
    assert (len(list(execution.carry_out(plan))), execution.skipped) == (2, 1)
