"""Load that leaves by itself: it makes no node hot, and counts wherever a pod may land."""

from __future__ import annotations

from typing import Any

from rebalancer.load.correction import end_times
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    Workload,
    a_policy,
    a_workload,
    at,
    kept,
    moved,
    plan_of,
    planning_inputs,
)


def ending(ends: float, count: int, *, nodes: str = "a") -> Workload:
    """Pods that are deleted and whose grace period ends so many seconds from now."""
    workload = a_workload("old", [nodes] * count, replicas=0)
    for pod in workload.pods:
        pod["metadata"] |= {"deletionTimestamp": at(ends), "deletionGracePeriodSeconds": 30}
    return workload


def three() -> list[dict[str, Any]]:
    return [a_node(name, cpu=10) for name in "abc"]


@rows(
    "ends, hot",
    [(25, False), (899, False), (901, True), (-25, False), (-901, True)],
)
def test_pods_that_terminate_before_the_next_run_do_not_make_their_node_hot(ends: float, hot: bool) -> None:
    plan = plan_of(planning_inputs(three(), [ending(ends, 3), a_workload("web", ["a"] * 6)]))
    assert bool(plan.hot_count) is hot
    assert bool(plan.moves) is hot


def test_the_node_and_a_warning_say_whose_load_does_not_count() -> None:
    plan = plan_of(planning_inputs(three(), [ending(25, 3), a_workload("web", ["a"] * 6)]))
    words = "30.0 points of cpu, of 3 pods that leave before the next run, do not make it hot"
    assert words in next(node for node in plan.nodes if node.name == "a").because
    assert f"a: {words}" in plan.warnings


def test_a_node_that_is_hot_without_them_loses_only_what_is_then_too_much() -> None:
    """100 % without the two that leave would be 80: 90 % is hot, and 25 points are 3 pods."""
    plan = plan_of(planning_inputs(three(), [ending(25, 1), a_workload("web", ["a"] * 9)]))
    assert len(plan.moves) == 3


def test_what_is_about_to_leave_counts_where_pods_may_land() -> None:
    """b has room for the pods of a only once its own are gone."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10)]
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["a"] * 9), ending(25, 8, nodes="b")]))
    assert moved(plan) == {}


def test_a_hot_node_is_no_landing_for_what_its_leaving_pods_will_free() -> None:
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10)]
    workloads = [a_workload("web", ["a"] * 9), ending(25, 9, nodes="b"), a_workload("api", ["b"] * 9)]
    assert not any(target == "b" for target in moved(plan_of(planning_inputs(nodes, workloads))).values())


def test_a_pod_whose_deadline_ends_before_the_next_run_is_left_alone() -> None:
    ends = a_workload("batch", ["a"] * 9, spec={"activeDeadlineSeconds": 600}, created=at(-590))
    plan = plan_of(planning_inputs(three(), [ends]))
    assert plan.hot_count == 0
    wish = a_workload("web", ["a"] * 8, cpu="1100m")
    one = a_workload("batch", ["a"], spec={"activeDeadlineSeconds": 600}, created=at(-590))
    assert kept(plan_of(planning_inputs(three(), [wish, one])))["batch-0"] == "Terminating"


def test_pods_of_a_job_end_with_it() -> None:
    job = a_workload("job", ["a"], kind="Job", created=at(-10))
    job.item["spec"]["activeDeadlineSeconds"] = 3600
    job.item["status"]["startTime"] = at(-3000)
    assert end_times(planning_inputs(three(), [job]).snapshot).tolist() == [NOW + 600]


def test_a_pod_that_nothing_ends_never_does() -> None:
    assert end_times(planning_inputs(three(), [a_workload("web", ["a"])]).snapshot).tolist() == [float("inf")]


def test_the_policy_says_when_the_next_run_is() -> None:
    policy = a_policy(hotNodes={"runInterval": "20s"})
    inputs = planning_inputs(three(), [ending(25, 3), a_workload("web", ["a"] * 6)], policy=policy)
    assert plan_of(inputs).hot_count == 1
