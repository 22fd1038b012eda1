"""A change and the plans before and after it: no taint of a run counts, and no plan changes by itself."""

from __future__ import annotations

from rebalancer_lab.what_if.changed_cluster import WhatIf, what_if
from rebalancer_lab.what_if.changes import parse_changes
from tests.builders import a_node
from tests.unit.planning.builders import Workload, a_policy, a_workload, moved, plan_of, planning_inputs


def drained(
    *workloads: Workload, cpu: int = 4, load: dict[str, float] | None = None, **sections: object
) -> WhatIf:
    """Node b is drained; a has so many cores, the others 4."""
    nodes = [a_node("a", cpu=cpu), *(a_node(name, cpu=4) for name in "bcd")]
    policy = a_policy(**sections)  # type: ignore[arg-type]
    return what_if(
        planning_inputs(nodes, workloads, load=load, policy=policy), parse_changes(["b"], [], [], [])
    )


def landings(answer: WhatIf) -> list[str]:
    return [landing.node for item in answer.pods for landing in item.landings]


def test_a_drained_pod_lands_on_a_node_that_a_plan_would_close_to_empty_it() -> None:
    workloads = a_workload("few", ["a"]), a_workload("many", ["b", "b", "c", "c"])
    closing = drained(*workloads, strategies={"consolidation": {"taintFor": "30m"}})

    assert landings(closing) == landings(drained(*workloads)) == ["d", "d", "a"]
    assert closing.moves[0] > 0, "a plan would empty a node, and close those where nothing may land"


def test_a_drained_pod_lands_on_a_node_that_a_run_would_give_the_soft_taint() -> None:
    workloads, load = (a_workload("web", ["a", "b"]), a_workload("many", ["c", "d"], cpu="2")), {"a": 90.0}
    steering = drained(*workloads, cpu=16, load=load, execution={"steer": "softTaint"})

    assert landings(steering) == landings(drained(*workloads, cpu=16, load=load)) == ["a"]


def test_the_plans_before_and_after_give_the_nodes_their_taints() -> None:
    """Draining d changes nothing: the plan still closes the node that it empties."""
    nodes = [a_node(name) for name in "abcd"]
    workloads = [a_workload("few", ["a"]), a_workload("many", ["b", "b", "c", "c"])]
    policy = a_policy(strategies={"consolidation": {"taintFor": "30m"}})
    inputs = planning_inputs(nodes, workloads, policy=policy)

    assert list(moved(plan_of(inputs))) == ["few-0"]
    assert what_if(inputs, parse_changes(["d"], [], [], [])).moves == (1, 1)


def test_a_cordon_that_moves_no_pod_changes_no_plan_either() -> None:
    """Also where pods use more than their node reports: landings are held to the larger then too."""
    nodes = [a_node("a", cpu=4), a_node("b", cpu=4), a_node("c", cpu=1)]
    web, api = (a_workload(name, ["a"], cpu="2") for name in ("web", "api"))
    use = {"web-0": 3.0, "api-0": 3.0}
    inputs = planning_inputs(nodes, [web, api], load={"a": 85.0, "b": 10.0}, pod_load=use)

    assert what_if(inputs, parse_changes([], ["c"], [], [])).moves == (0, 0)
