"""The figures of an explanation agree with each other and with the move that they explain."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.random_clusters import random_inputs
from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import find_subject
from tests.conftest import examples
from tests.unit.planning.builders import a_policy

_ROUNDED = 0.011  # figures have two digits


def _hot_cluster(seed: int, filled: float | None) -> PlanningInputs:
    """A cluster in which several pods move, the later ones after landings that are uncertain."""
    rule = {"utilization": {"cpu": 70, "memory": 70}, "coolTo": {"cpu": 55, "memory": 55}}
    policy = a_policy(
        hotNodes={"forRuns": 1, "any": [rule]}, planning={"minGain": 5}, limits={"perWorkload": "100%"}
    )
    return replace(random_inputs(seed, filled, nodes=5), policy=policy)


def _explained(planner: Planner, move: Move) -> PodExplanation:
    found = planner.explain(find_subject(planner.inputs.snapshot, f"pod/{move.pod.full_name}"))
    assert isinstance(found, PodExplanation)
    return found


@settings(max_examples=examples(24), deadline=None)
@given(st.integers(0, 500), st.sampled_from([None, 0.55, 0.65]))
@example(477, 0.65)  # a pod that makes room for one of another hot node fills that above its level
def test_what_is_said_of_a_pod_that_moves_contradicts_neither_itself_nor_the_plan(
    seed: int, filled: float | None
) -> None:
    planner = Planner(_hot_cluster(seed, filled))
    for move in planner.plan().moves[:6]:
        explained = _explained(planner, move)
        staying = explained.staying
        table = explained.table
        assert staying is not None
        assert table is not None

        # A mean is not below the least.
        for resource, least in move.gain.items():
            assert staying.forgone[resource] >= least - _ROUNDED, resource

        # A landing that carries no risk is not refused in the next line.
        if explained.unacceptable == 0.0:
            assert {node.node for node in table.nodes if node.probability and node.unacceptable} == set()

        # Where it comes back to its own node, that stays as it is.
        for node in table.nodes:
            if node.node == explained.node:
                assert node.after == pytest.approx(staying.load, abs=_ROUNDED)
