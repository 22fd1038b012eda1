"""Each policy that is shipped moves pods on a cluster that it fits, and warns on one that it does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from rebalancer.planning import Plan
from rebalancer.policy import RebalancePolicy, load_policy
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling import default_configuration
from tests.builders import a_node
from tests.unit.planning.builders import a_workload, moved, plan_of, planning_inputs

POLICIES = {path.stem: path for path in (Path(__file__).parents[3] / "policies").glob("*.yaml")}
FOR_ANY_CLUSTER = ("balanced", "conservative", "default")
NEEDS_A_SOURCE = ("network-traffic", "prometheus")  # of figures that only Prometheus has
FOR_A_PROFILE = ("k3s-trimaran", "pods-per-node")


def shipped(name: str, **rules: Any) -> RebalancePolicy:
    policy = load_policy(POLICIES[name]).policy
    changed = policy.hot_nodes.model_copy(update={"for_runs": 1, **rules})
    return policy.model_copy(update={"hot_nodes": changed})


def configured(scheduler_name: str) -> SchedulerConfiguration:
    """The default configuration with its one profile under another name."""
    found = default_configuration()
    (profile,) = found.profiles
    return dataclasses.replace(found, profiles=(dataclasses.replace(profile, scheduler_name=scheduler_name),))


def planned(policy: RebalancePolicy, scheduler_name: str = "default-scheduler") -> Plan:
    """A node at 90 % cpu and full of pods beside three idle ones."""
    nodes = [a_node("a", cpu=10, memory="64Gi", pods=10), *(a_node(name, cpu=10, pods=110) for name in "bcd")]
    workloads = [
        a_workload(f"web{number}", ["a", "bcd"[number % 3]], cpu="1", spec={"schedulerName": scheduler_name})
        for number in range(9)
    ]
    configuration = configured(scheduler_name)
    return plan_of(planning_inputs(nodes, workloads, policy=policy, configuration=configuration))


def test_every_shipped_policy_is_tried_here() -> None:
    assert set(POLICIES) == {*FOR_ANY_CLUSTER, *NEEDS_A_SOURCE, *FOR_A_PROFILE}


@pytest.mark.parametrize("name", [*FOR_ANY_CLUSTER, *FOR_A_PROFILE])
def test_a_shipped_policy_moves_pods_on_a_cluster_that_it_fits(name: str) -> None:
    policy = shipped(name)
    scheduler_name = (policy.scheduler.profiles or ("default-scheduler",))[0]
    plan = planned(policy, scheduler_name)
    assert moved(plan)
    assert not any("scheduler.profiles" in warning for warning in plan.warnings)


@pytest.mark.parametrize("name", FOR_A_PROFILE)
def test_a_policy_for_a_profile_that_is_not_there_moves_nothing_and_names_the_setting(name: str) -> None:
    plan = planned(shipped(name))
    assert moved(plan) == {}
    assert any(
        warning.startswith("scheduler.profiles: ") and "which has default-scheduler" in warning
        for warning in plan.warnings
    )


def test_a_policy_for_a_profile_without_pods_names_the_setting() -> None:
    policy = shipped("k3s-trimaran")
    inputs = planning_inputs([a_node("a")], policy=policy, configuration=configured("trimaran"))
    assert (
        "scheduler.profiles: no pod has schedulerName trimaran: no pod is moved" in plan_of(inputs).warnings
    )


def test_a_score_rule_of_a_plugin_that_is_not_enabled_is_named() -> None:
    plan = planned(shipped("k3s-trimaran"), "trimaran")
    assert any("scores by TargetLoadPacking" in warning for warning in plan.warnings)


@pytest.mark.parametrize("name", FOR_ANY_CLUSTER)
def test_a_policy_for_any_cluster_warns_of_nothing(name: str) -> None:
    plan = planned(shipped(name))
    assert [warning for warning in plan.warnings if ": no " in warning] == []
