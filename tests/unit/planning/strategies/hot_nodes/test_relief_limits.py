"""What a plan says about the limits that stop it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.planning import builder
from rebalancer.planning.plan import Plan, UnmovedPod
from rebalancer.planning.strategies.hot_nodes import drafts, relief
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, plan_of, planning_inputs


def two_hot_nodes(**of_policy: Any) -> Plan:
    """Three pods would have to leave each of two hot nodes, and there is much room elsewhere."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("cool", cpu=100)]
    workloads = [a_workload("web", ["a"] * 9), a_workload("api", ["b"] * 9)]
    return plan_of(planning_inputs(nodes, workloads, policy=a_policy(limits=of_policy)))


def cool(plan: Plan) -> int:
    return sum(1 for node in plan.nodes if node.hot) - len(plan.unsolved)


@rows(
    "of_policy, words",
    [
        ({"perRun": 4}, "perRun 6"),
        ({"perNode": 2}, "perNode 3"),
        ({"perNamespace": 2}, "perNamespace 6"),
        ({"perWorkload": 1}, "perWorkload 3"),
        ({"perRun": 4, "perNamespace": 4}, "perRun 6 and perNamespace 6"),
    ],
)
def test_the_limit_that_binds_is_named_with_what_its_next_useful_value_would_give(
    of_policy: dict[str, int], words: str
) -> None:
    gives = "would bring 2 of 2 hot nodes down to coolTo (65 %), this plan 0"
    assert two_hot_nodes(**of_policy).raised_limit == f"{words} {gives}"


@pytest.mark.parametrize("of_policy", [{"perRun": 4}, {"perNode": 1}, {"perRun": 3, "perNamespace": 3}])
def test_a_plan_with_the_named_limits_does_what_was_said(of_policy: dict[str, int]) -> None:
    said = two_hot_nodes(**of_policy).raised_limit
    raised = {name: int(value) for name, value in re.findall(r"(per\w+) (\d+)", said)}
    assert f"bring {cool(two_hot_nodes(**{**of_policy, **raised}))} of 2" in said


def test_less_is_looked_for_in_a_large_cluster_and_what_is_said_of_it_is_as_true(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relief, "_CELLS", 0)  # placements times nodes: as if there were many
    monkeypatch.setattr(relief, "_FEWEST_PLACEMENTS", 8)
    said = two_hot_nodes(perRun=1).raised_limit
    raised = re.fullmatch(r"perRun (\d) would leave ([\d.]+) points of excess, not [\d.]+", said)
    assert raised is not None
    assert 1 < int(raised[1]) < 6  # what all that may move would need
    benefit = two_hot_nodes(perRun=int(raised[1])).benefit
    assert benefit is not None
    assert float(raised[2]) == benefit.excess.after


def test_where_no_limit_binds_none_is_named() -> None:
    assert two_hot_nodes().raised_limit == ""
    assert two_hot_nodes(perRun=6).raised_limit == ""


def test_a_limit_is_not_named_where_a_higher_one_would_not_help() -> None:
    nodes = [a_node("a", cpu=10), a_node("full", cpu=10)]
    workloads = [a_workload("web", ["a"] * 9), a_workload("api", ["full"] * 8)]
    plan = plan_of(planning_inputs(nodes, workloads, policy=a_policy(limits={"perRun": 0})))
    assert plan.kept
    assert plan.raised_limit == ""


def test_less_excess_is_named_where_no_further_node_would_be_cool() -> None:
    held = a_workload("held", ["a"] * 8, spec={"nodeSelector": {"kubernetes.io/hostname": "a"}})
    nodes = [a_node("a", cpu=10), a_node("cool", cpu=100)]
    workloads = [held, a_workload("web", ["a"], cpu="700m"), a_workload("api", ["a"], cpu="600m")]
    plan = plan_of(planning_inputs(nodes, workloads, policy=a_policy(limits={"perRun": 1})))
    assert plan.raised_limit == "perRun 2 would leave 15.0 points of excess, not 27.0"  # 80 % and 86 %


def test_where_little_relief_keeps_pods_the_next_bolder_value_is_named_with_its_moves() -> None:
    held = a_workload(
        "held", ["a"], cpu="8500m", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    )
    nodes = [a_node(name, cpu=10) for name in "abc"]
    workloads = [held, a_workload("small", ["a"] * 14, cpu="100m")]
    plan = plan_of(planning_inputs(nodes, workloads))
    assert plan.raised_limit == (
        "aggressiveness 4 and 14 further moves of 1 point each would leave 25.0 points of "
        "excess, not 53.0"  # 85 % and 99 %: those above 80 % count twice
    )
    bolder = plan_of(planning_inputs(nodes, workloads, policy=a_policy(planning={"aggressiveness": 4})))
    assert len(bolder.moves) == 14
    assert bolder.benefit is not None
    assert bolder.benefit.excess.after == 25.0


def test_a_plan_whose_words_nobody_reads_makes_the_same_moves() -> None:
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=100)]
    workloads = [a_workload("web", ["a"] * 9), a_workload("api", ["b"] * 9)]
    inputs = planning_inputs(nodes, workloads, policy=a_policy(limits={"perRun": 2}))
    plan, silent = plan_of(inputs), plan_of(inputs, explains=False)
    assert plan.raised_limit
    assert plan.obstacles
    assert silent.raised_limit == silent.strategies["hotNodes"].message == ""
    assert all(pod.remedy for pod in plan.kept)
    assert silent == replace(plan, obstacles=(), kept=without_remedies(plan), strategies=silent.strategies)


def without_remedies(plan: Plan) -> tuple[UnmovedPod, ...]:
    return tuple(replace(pod, remedy="") for pod in plan.kept)


@pytest.mark.parametrize("most", [20, 24, 30])
def test_what_is_said_of_limits_takes_no_placements_from_the_strategies_that_follow(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "_CELLS", 0)
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=100)]
    workloads = [
        a_workload("web", ["a"] * 9),
        a_workload("api", ["b"] * 9),
        *(a_workload(f"old-{at}", ["c"]) for at in range(20)),
    ]
    monkeypatch.setattr(builder, "MAX_PLACEMENTS", most)
    policy = a_policy(limits={"perNode": 2}, strategies={"lifetime": {"maxAge": "1h"}})
    inputs = planning_inputs(nodes, workloads, policy=policy)
    plan, silent = plan_of(inputs), plan_of(inputs, explains=False)
    assert plan.raised_limit
    assert (plan.moves, without_remedies(plan)) == (silent.moves, silent.kept)
