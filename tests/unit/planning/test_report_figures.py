"""The figures of a move are of that move, and plan, explanation and report say the same of it."""

from __future__ import annotations

import pytest

from bench.random_clusters import random_inputs
from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import Subject
from tests.builders import a_node
from tests.conftest import some_of
from tests.rows import rows
from tests.unit.planning.builders import a_workload, planning_inputs

SEEDS = range(6)


@pytest.mark.many_cases
@rows("seed", some_of(SEEDS))
def test_what_a_move_gains_is_the_load_of_its_node_less_that_of_the_landing_after_it(seed: int) -> None:
    plan = Planner(random_inputs(seed, 0.6, nodes=6)).plan()
    for move in plan.moves:
        for name, gain in move.gain.items():
            left = move.from_load[name]
            after = [landing.load[name].after for landing in move.landings]
            assert left.after <= left.before
            assert gain <= left.before - min(after) + 0.11
            if len(after) == 1 and not move.risk:
                assert gain == pytest.approx(left.before - after[0], abs=0.11)


@pytest.mark.many_cases
@rows("seed", some_of(SEEDS))
def test_the_scores_of_a_move_are_those_of_its_moment_and_explain_its_chances(seed: int) -> None:
    planner = Planner(random_inputs(seed, 0.6, nodes=6))
    plan = planner.plan()
    tables = planner.scheduling_tables(len(plan.moves))
    for move, planned in some_of(list(zip(plan.moves, planner.decided.moves, strict=True))):
        pod = planned.candidate.row
        explained = planner.explain(Subject("pod", row=pod))
        assert isinstance(explained, PodExplanation)
        assert explained.table is not None
        shown = {node.node: node.probability for node in explained.table.nodes if node.probability}
        assert shown == pytest.approx(move.chances)
        assert {landing.node: landing.probability for landing in explained.landings} == move.chances
        assert tables[move.pod.uid] == explained.table
        best = max(node.total for node in explained.table.nodes)
        assert any(node.total == best and node.probability for node in explained.table.nodes)


def test_of_many_landings_the_likeliest_alone_say_what_they_do_to_their_nodes() -> None:
    nodes = [a_node(f"node-{number:02}", cpu=10) for number in range(30)]
    workloads = [a_workload("large", ["node-00"], cpu="2"), a_workload("rest", ["node-00"], cpu="7")]
    plan = Planner(planning_inputs(nodes, workloads)).plan()

    landings = plan.moves[0].landings
    assert len(landings) > 20
    assert [bool(landing.load) for landing in landings] == [True] * 20 + [False] * (len(landings) - 20)
    assert landings[0].load["cpu"].after > landings[0].load["cpu"].before
