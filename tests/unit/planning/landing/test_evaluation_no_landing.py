"""A replacement that no node admits: reported as Pending, or as preempting, and whom."""

from __future__ import annotations

from typing import Any

from tests.builders import a_node, a_pod
from tests.unit.planning.builders import a_workload, because, kept, plan_of, planning_inputs


def stuck(*pods: dict[str, Any], nodes: int = 1, **spec: Any) -> str:
    """Why a pod of 3 cores stays whose node is hot, and which fits nowhere else."""
    others = [a_node(f"other-{number}", cpu="4") for number in range(nodes)]
    wanted = a_workload("web", ["hot"], cpu="3", replicas=2, spec={"priority": 100, **spec})
    plan = plan_of(
        planning_inputs(
            [a_node("hot", cpu="4"), *others], [wanted], pods=pods, load={"hot": 95, "other-0": 10}
        )
    )
    assert kept(plan)["web-0"] == "NoLanding"
    return because(plan, "web-0")


def in_the_way(number: int = 0, priority: int = 0) -> dict[str, Any]:
    return a_pod(f"batch-{number}", node=f"other-{number}", cpu="2", priority=priority)


def test_without_pods_of_lower_priority_it_would_stay_pending() -> None:
    assert stuck(in_the_way(priority=100)) == (
        "no node is feasible for its replacement (2 Insufficient cpu): it would stay Pending"
    )


def test_a_node_that_lacks_several_things_counts_for_each_of_them() -> None:
    """As in the event that the scheduler writes, and as ``fit`` says it."""
    nodes = [a_node("hot", cpu="4"), a_node("full", cpu="2", pods=0)]
    web = a_workload("web", ["hot"], cpu="3", replicas=2)
    plan = plan_of(planning_inputs(nodes, [web], load={"hot": 95, "full": 10}))

    said = "no node is feasible for its replacement (2 Insufficient cpu, 1 Too many pods)"
    assert because(plan, "web-0").startswith(said)


def test_with_pods_of_lower_priority_it_would_preempt_and_says_whom() -> None:
    assert stuck(in_the_way()) == (
        "no node is feasible for its replacement (2 Insufficient cpu): it would preempt pods of lower "
        "priority on 1 node, e.g. on other-0 default/batch-0"
    )
    assert "on 2 nodes, e.g. on other-0 default/batch-0" in stuck(in_the_way(), in_the_way(1), nodes=2)


def test_a_pod_that_never_preempts_would_stay_pending() -> None:
    assert stuck(in_the_way(), preemptionPolicy="Never").endswith("it would stay Pending")


def test_pods_whose_going_is_not_enough_are_not_preempted() -> None:
    large = a_pod("large", node="other-0", cpu="2", priority=200)
    assert stuck(in_the_way(), large).endswith("it would stay Pending")
