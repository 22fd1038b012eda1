"""Where a replacement lands while pods that were evicted are still terminating."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.strategies.hot_nodes import drafts
from rebalancer.planning.strategies.hot_nodes import search as relief_search
from tests.builders import a_node
from tests.unit.planning.builders import (
    a_policy,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)
from tests.unit.planning.landing.hot_pods import hot_pod

ANTI_AFFINE = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
            ]
        }
    }
}


def zoned() -> list[dict[str, Any]]:
    return [a_node("hot", labels={"zone": "one"}), a_node("cool", cpu=8, labels={"zone": "one"})]


def test_a_replica_made_at_once_meets_the_evicted_pod_still_terminating() -> None:
    plan = plan_of(planning_inputs(zoned(), [hot_pod(spec=ANTI_AFFINE)]))
    assert kept(plan) == {"web-0": "NoLanding"}


def test_a_stateful_pod_is_made_again_only_after_it_is_gone() -> None:
    plan = plan_of(planning_inputs(zoned(), [hot_pod(kind="StatefulSet", spec=ANTI_AFFINE)]))
    assert moved(plan) == {"web-0": "cool"}


def lingering() -> PlanningInputs:
    """Of web and first on hot, web is drawn back to where it still is, if there is room."""
    beside_itself = {
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": {"app": "web"}},
            "topologyKey": "kubernetes.io/hostname",
        },
        "weight": 100,
    }
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [beside_itself]}}
    pods = [
        a_workload("agent", ["hot"], kind="DaemonSet", cpu="1600m"),
        a_workload("first", ["hot"]),
        a_workload("web", ["hot"], spec={"affinity": affinity}),
    ]
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    policy = a_policy(execution={"firstWave": 5, "waveSize": 5})
    return planning_inputs(nodes, pods, load={"hot": 98}, policy=policy)


def test_a_pod_may_linger_where_those_before_it_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both there is no room on hot, with none nothing draws it back, with web alone hot does.

    In one order only: in the other one, both can be moved.
    """
    monkeypatch.setattr(drafts, "_CELLS", 0)
    monkeypatch.setattr(relief_search, "_ROOM_CELLS", 0)
    plan = plan_of(lingering())
    assert moved(plan) == {"first-0": "cool"}
    assert "hot is the node it leaves" in because(plan, "web-0")


def test_the_order_in_which_both_can_be_moved_is_found() -> None:
    """The same cluster: web first, while first still takes its room on hot."""
    plan = plan_of(lingering())
    assert moved(plan) == {"web-0": "cool", "first-0": "cool"}
    assert [move.pod.name for move in plan.moves] == ["web-0", "first-0"]
