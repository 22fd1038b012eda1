"""Where the scheduler looks at a sample of the nodes, a whole run holds with the policy's confidence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.prepared import prepare
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, because, plan_of, planning_inputs, searched
from tests.unit.planning.landing.alike_nodes import alike

UNKNOWN = float("nan")
BAD = 5


def a_cluster(
    others: int,
    bad: int,
    *,
    confidence: float = 0.95,
    percentage: int = 0,
    seed: int = 0,
    apps: Sequence[str] = ("web",),
) -> PlanningInputs:
    """One hot node, which takes none back, and others; ``bad`` of them are unknown."""
    names = [f"n{number:03}" for number in range(others)]
    nodes = [a_node("hot", cpu=10), *(a_node(name, cpu=10, labels={"pool": "x"}) for name in names)]
    selecting = {"nodeSelector": {"pool": "x"}}
    pods = [a_workload(app, ["hot"] * (10 // len(apps)), spec=selecting) for app in apps]
    return planning_inputs(
        nodes,
        pods,
        load=dict.fromkeys(names[:bad], UNKNOWN),
        configuration=alike(percentage),
        seed=seed,
        policy=a_policy(planning={"confidence": confidence}),
    )


def test_below_a_hundred_nodes_every_landing_must_be_acceptable() -> None:
    plan = plan_of(a_cluster(90, 1, confidence=0.5))
    assert plan.moves == ()
    assert "may land (2%) where it must not: n000 has no fresh load figure" in because(plan, "web-0")


def test_where_all_nodes_are_looked_at_every_landing_must_be_acceptable() -> None:
    assert plan_of(a_cluster(99, 1, confidence=0.5)).moves == ()
    assert plan_of(a_cluster(249, 1, confidence=0.5, percentage=100)).moves == ()


def test_a_sampled_landing_may_be_bad_within_the_confidence() -> None:
    assert len(plan_of(a_cluster(249, BAD, confidence=0.5)).moves) == 4


@rows("confidence, moves", [(0.975, 1), (0.955, 2), (0.935, 3), (1.0, 0)])
def test_the_confidence_is_of_the_whole_plan(confidence: float, moves: int) -> None:
    """Each move lands badly with a chance of 2 %: 98, 96 and 94 % that none does."""
    assert len(plan_of(a_cluster(249, BAD, confidence=confidence)).moves) == moves


@pytest.mark.parametrize(("confidence", "moves"), [(0.975, 0), (0.955, 1), (0.935, 2)])
def test_the_confidence_is_of_all_plans_of_a_run(confidence: float, moves: int) -> None:
    """What the moves of earlier plans risked is not there to be risked again."""
    inputs = a_cluster(249, BAD, confidence=confidence, apps=("api", "web"))
    first = plan_of(inputs).moves[0]
    later = plan_of(inputs, RunSoFar(made=(first,)))

    assert first.risk == pytest.approx(0.02, abs=0.001)
    assert len(later.moves) == moves
    assert {move.pod.workload for move in later.moves}.isdisjoint({first.pod.workload})


def test_chances_of_a_sampled_landing_sum_to_one() -> None:
    move = plan_of(a_cluster(249, BAD, confidence=0.5)).moves[0]
    assert sum(landing.probability for landing in move.landings) == pytest.approx(1, abs=1e-3)
    assert len(move.landings) == 249


def test_every_acceptable_landing_gives_the_least_gain() -> None:
    move = plan_of(a_cluster(249, 0)).moves[0]
    assert move.gain == {"cpu": 90.0}


def test_worlds_part_with_the_first_uncertain_landing_and_each_holds_its_own() -> None:
    found = searched(a_cluster(249, 0))
    places = {tuple(scenario.usage[:, 0].nonzero()[0].tolist()) for scenario in found.scenarios.all}
    assert len(found.scenarios.all) == 8
    assert len(places) > 1


def test_another_seed_draws_other_worlds_and_moves_as_many() -> None:
    both = [searched(a_cluster(249, 0, seed=seed)) for seed in range(2)]
    first, second = ([scenario.usage.tolist() for scenario in found.scenarios.all] for found in both)
    assert first != second
    assert [len(found.moves) for found in both] == [4, 4]


def test_a_move_is_followed_no_further_once_its_risk_is_more_than_any_plan_may_take() -> None:
    names = [f"n{number:03}" for number in range(249)]
    nodes = [
        a_node("hot", cpu=10),
        *(a_node(name, cpu=10, labels={"pool": "ab"[name > "n1"]}) for name in names),
    ]
    pods = [
        a_workload("web", ["hot"] * 5, spec={"nodeSelector": {"pool": "a"}}),
        a_workload("api", ["hot"] * 5, spec={"nodeSelector": {"pool": "b"}}),
    ]
    policy = a_policy(planning={"confidence": 0.5})
    load = dict.fromkeys(names[100:235], UNKNOWN)
    prepared = prepare(
        planning_inputs(nodes, pods, load=load, configuration=alike(10), seed=1, policy=policy)
    )
    api, web = (PodRow(prepared.pods.names.index(name)) for name in ("api-0", "web-0"))
    plan = PlanBuilder(prepared, ())
    assert plan.try_move(prepared.candidate(web)) is None
    plan.next_wave()
    candidate, evaluator = prepared.candidate(api), prepared.evaluator(())
    found = evaluator.evaluate(candidate, plan.scenarios)
    whole = evaluator.evaluate(candidate, plan.scenarios, complete=True)
    assert found.refused == whole.refused is not None
    assert whole.sampled
    assert len(found.by_scenario) < len(whole.by_scenario) == len(plan.scenarios.all)


@pytest.mark.parametrize(("tolerated", "placements"), [(0.0, 1), (0.012, 5), (1.0, 32)])
def test_scenarios_are_looked_at_in_one_state_each_before_any_is_in_a_second_one(
    tolerated: float, placements: int
) -> None:
    """Each of 8 is unacceptable with a chance of 2 %, so five of them with one of 1.25 %."""
    prepared = prepare(a_cluster(249, BAD, confidence=0.5))
    plan, evaluator = PlanBuilder(prepared, ()), prepared.evaluator(())
    first, second = (PodRow(prepared.pods.names.index(name)) for name in ("web-0", "web-1"))
    assert plan.try_move(prepared.candidate(first)) is None
    evaluator.placed = 0
    found = evaluator.evaluate(prepared.candidate(second), plan.scenarios, tolerated)
    assert found.refused is not None
    assert evaluator.placed == placements
    assert len(found.by_scenario) == 8 * (tolerated == 1.0)


def test_a_move_is_refused_by_the_one_scenario_in_which_all_nodes_are_looked_at() -> None:
    """Half of the nodes take one pod only: the scheduler has 100 nodes left, or a sample of 101."""
    names = [f"n{number:03}" for number in range(101)]
    nodes = [
        a_node("hot", cpu=10, memory="60Gi"),
        *(
            a_node(name, cpu=10, memory=("8Gi", "16Gi")[at % 2], labels={"pool": "x"})
            for at, name in enumerate(names)
        ),
    ]
    pods = [a_workload("web", ["hot"] * 10, memory="5Gi", spec={"nodeSelector": {"pool": "x"}})]
    load, policy = {names[1]: UNKNOWN}, a_policy(planning={"confidence": 0.5})
    inputs = planning_inputs(nodes, pods, load=load, configuration=alike(), seed=1, policy=policy)
    prepared = prepare(inputs)
    plan = PlanBuilder(prepared, ())
    web = [prepared.candidate(PodRow(prepared.pods.names.index(f"web-{number}"))) for number in range(2)]
    assert plan.try_move(web[0]) is None
    plan.next_wave()
    full = [bool(scenario.usage[:, 0].nonzero()[0][-1] % 2) for scenario in plan.scenarios.all]
    assert not full[0]
    assert any(full)
    refusal = plan.try_move(web[1])
    assert refusal is not None
    assert "has no fresh load figure" in refusal.message
