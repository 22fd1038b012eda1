"""The plan for a cluster in which a workload has been scaled: its controller wants that many pods then."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rebalancer.errors import InputError
from rebalancer_lab.what_if.changed_cluster import WhatIf, what_if
from rebalancer_lab.what_if.changes import parse_changes
from tests.builders import a_budget, a_node, owned_by
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs


def scaled(
    on: Sequence[str], replicas: int, used: float = 1.8, budget: int | None = None, **limits: str
) -> WhatIf:
    """Web has a pod on each of these nodes, and each uses so much; beside it a has a pod that never moves."""
    policy = a_policy(evictable={"protect": ["SingleReplica"]}, limits=limits)
    workloads = [a_workload("web", on), a_workload("big", ["a"])]
    budgets = [] if budget is None else [a_budget("web", labels={"app": "web"}, allowed=budget)]
    use = {f"web-{number}": used for number in range(len(on))} | {"big-0": 1.5}
    nodes = [a_node(name, cpu=10) for name in "abc"]
    inputs = planning_inputs(nodes, workloads, policy=policy, pod_load=use, poddisruptionbudgets=budgets)
    return what_if(inputs, parse_changes([], [], [], [f"replicaset/default/web={replicas}"]))


def test_pods_of_a_workload_that_has_grown_are_moved_as_before() -> None:
    """The controller was said to want 4 pods and to have 8, so that it would replace none of them."""
    assert scaled("aaaa", 4).moves == scaled("aaaa", 8).moves == (2, 2)


def test_a_limit_in_percent_of_a_workload_is_one_of_the_pods_that_it_has_then() -> None:
    assert scaled("aaaa", 4, perWorkload="25%").moves == (1, 1)
    assert scaled("aaaa", 8, perWorkload="25%").moves == (1, 2)


def test_the_only_pod_of_a_workload_that_has_shrunk_is_protected() -> None:
    assert scaled("ba", 2, used=7.0).moves == (1, 1)
    assert scaled("ba", 1, used=7.0).moves == (1, 0)


def test_a_workload_of_which_some_pods_fit_nowhere_is_short_of_ready_ones() -> None:
    answer = scaled("aaaa", 40)
    assert answer.pending[1] > 0
    assert answer.moves == (2, 0)


def test_a_replica_set_is_not_scaled_alone_as_its_deployment_would_scale_it_back() -> None:
    of_deployment = a_workload("web-1", ["a"])
    of_deployment.item["metadata"]["ownerReferences"] = [owned_by("Deployment", "web")]
    inputs = planning_inputs([a_node("a")], [of_deployment])

    with pytest.raises(
        InputError, match=r"would scale its ReplicaSet web-1 back \(scale deployment/default/web\)"
    ):
        what_if(inputs, parse_changes([], [], [], ["rs/web-1=3"]))


def test_the_answer_says_that_budgets_are_those_of_now() -> None:
    said = "disruption budgets are taken to allow what they allow now"
    assert said in scaled("aaaa", 8, budget=1).notes
    assert said not in scaled("aaaa", 8).notes
