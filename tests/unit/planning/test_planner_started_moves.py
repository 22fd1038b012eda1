"""A pod that somebody else still moves keeps its place in the limits: nothing leaves in its stead."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

NODES = [a_node("hot"), a_node("cool", cpu=40)]


def a_cluster(**changes: Any) -> PlanningInputs:
    """Two workloads on a hot node; one pod of the first was started to be moved ten minutes ago."""
    workloads = [a_workload("web", ["hot"], cpu="1800m"), a_workload("api", ["hot"], cpu="1800m")]
    started: dict[str, Any] = {
        "name": "web-0",
        "uid": workloads[0].pods[0]["metadata"]["uid"],
        "from_node": "hot",
        "to_node": "",
        "landed_at": None,
        "result": "Started",
    }
    state = RunState(moves=(a_past_move(**(started | changes)),))
    return planning_inputs(NODES, workloads, state=state)


def test_nothing_else_leaves_a_node_while_somebody_moves_a_pod_away_from_it() -> None:
    plan = plan_of(a_cluster())
    assert moved(plan) == {}
    assert kept(plan)["api-0"] == "Settling"
    assert "default/web-0 is still being moved away from it" in because(plan, "api-0")


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": "its-predecessor"},
        {"from_node": "cool"},
        {"result": "Landed", "to_node": "cool"},
    ],
)
def test_a_pod_that_has_left_keeps_nothing_back(changes: dict[str, Any]) -> None:
    assert "api-0" in moved(plan_of(a_cluster(**changes)))


def test_a_pod_that_was_never_moved_keeps_others_back_for_no_longer_than_the_cooldown() -> None:
    assert "api-0" in moved(plan_of(a_cluster(evicted_at=NOW - 3600)))
