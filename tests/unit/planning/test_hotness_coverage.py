"""Which nodes without a fresh figure keep a run from acting: those that pods may leave or land on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.errors import SafetyError
from rebalancer.planning.hotness import coverage_of
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, moved, plan_of, planning_inputs

VIRTUAL = {"key": "virtual-kubelet.io/provider", "value": "azure", "effect": "NoSchedule"}
UNKNOWN = float("nan")
TOLERATES = {"tolerations": [{"key": VIRTUAL["key"], "operator": "Exists"}]}


def beside(dark: Mapping[str, Any], *workloads: Any, **changes: Any) -> Any:
    """Three workers, one of them hot, and a node without a figure."""
    nodes = [*(a_node(name, cpu=10) for name in "abc"), dark]
    policy = a_policy(load={"minCoverage": "80%"})
    load = {"dark": float("nan")}
    web = a_workload("web", ["a"] * 9, **changes)
    return planning_inputs(nodes, [web, *workloads], policy=policy, load=load)


def test_a_virtual_node_that_no_pod_can_use_does_not_stop_a_run() -> None:
    inputs = beside(a_node("dark", cpu=1000, taints=[VIRTUAL]))
    assert len(moved(plan_of(inputs))) == 3
    assert coverage_of(inputs).share == 1.0


def test_a_daemon_on_it_changes_nothing() -> None:
    daemon = a_workload("agent", ["dark"], kind="DaemonSet", cpu="1m", spec=TOLERATES)
    assert coverage_of(beside(a_node("dark", taints=[VIRTUAL]), daemon)).counted == 3


@rows(
    "inputs",
    [
        beside(a_node("dark")),
        beside(a_node("dark", ready=False)),
        beside(a_node("dark", taints=[VIRTUAL]), spec=TOLERATES),
        beside(a_node("dark", taints=[VIRTUAL]), a_workload("job", ["dark"])),
        beside(a_node("dark", taints=[{**VIRTUAL, "effect": "PreferNoSchedule"}])),
    ],
)
def test_a_node_that_pods_may_leave_or_land_on_counts(inputs: Any) -> None:
    coverage = coverage_of(inputs)
    assert (coverage.with_figure, coverage.counted) == (3, 4)


def test_a_node_that_is_about_to_be_removed_does_not_count() -> None:
    leaving = {"key": "karpenter.sh/disrupted", "value": "", "effect": "NoSchedule"}
    assert coverage_of(beside(a_node("dark", taints=[leaving]), spec=TOLERATES)).counted == 3


def test_what_is_said_of_too_few_figures_counts_no_node_that_does_not_count() -> None:
    nodes = [a_node("dark"), a_node("virtual", taints=[VIRTUAL])]
    load = {"a": 50.0, "dark": UNKNOWN, "virtual": UNKNOWN}
    policy = a_policy(load={"minCoverage": "80%"})
    with pytest.raises(SafetyError) as caught:
        plan_of(planning_inputs([a_node("a"), *nodes], policy=policy, load=load))
    said = str(caught.value)
    assert "only 1 of 2 nodes that pods may leave or land on have a fresh load figure (50%)" in said
    assert "; no fresh figure of cpu of 1 node;" in said


def test_a_cluster_without_nodes_is_covered() -> None:
    inputs = planning_inputs([], [a_workload("waiting", [""])])
    assert coverage_of(inputs).share == 1.0
    assert plan_of(inputs).nodes == ()  # it has a plan, in which nothing moves


def test_a_resource_that_no_source_gives_is_named() -> None:
    nodes = [a_node("a"), a_node("b")]
    load = {"a": (50.0, float("nan")), "b": (50.0, float("nan"))}
    inputs = planning_inputs(nodes, load=load, policy=a_policy(load={"minCoverage": "80%"}))
    with pytest.raises(SafetyError, match="gives memory, without which a node is unknown") as caught:
        plan_of(inputs)
    assert caught.value.where == inputs.snapshot.source  # a source that answered is not to blame
    assert f"{', '.join(inputs.load.sources)} answered, and no source" in caught.value.message
