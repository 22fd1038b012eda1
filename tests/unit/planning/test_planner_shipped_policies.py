"""Each policy that is shipped moves pods on a cluster that it fits, and warns on one that it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.load.report import build_report
from rebalancer.load.scheduler_view import EMPTY_VIEW, SchedulerView
from rebalancer.load.usage import NodeUsage, PodUsage
from rebalancer.planning.inputs import SchedulerFacts
from rebalancer.planning.plan import Plan
from rebalancer.planning.unmatched_settings import unmatched_names
from rebalancer.planning.warnings import sentences
from rebalancer.policy.policy_file import load_policy, measured_resources, required_resources
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.plugins.network_traffic import published_query
from rebalancer.scheduling.registry import default_configuration, load_configuration
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import NOW, a_workload, moved, plan_of, planning_inputs

POLICIES = {path.stem: path for path in (Path(__file__).parents[3] / "policies").glob("*.yaml")}
FOR_ANY_CLUSTER = ("balanced", "conservative", "consolidate")
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
    return replace(found, profiles=(replace(profile, scheduler_name=scheduler_name),))


def planned(policy: RebalancePolicy, scheduler_name: str = "default-scheduler") -> Plan:
    """A node at 90 % cpu and full of pods beside three idle ones."""
    nodes = [a_node("a", cpu=10, memory="64Gi", pods=10), *(a_node(name, cpu=10, pods=110) for name in "bcd")]
    workloads = [
        a_workload(f"web{number}", ["a", "bcd"[number % 3]], cpu="1", spec={"schedulerName": scheduler_name})
        for number in range(9)
    ]
    configuration = configured(scheduler_name)
    return plan_of(planning_inputs(nodes, workloads, policy=policy, configuration=configuration))


_NETWORK_PLUGIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: custom-scheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NetworkTraffic}]}}
  pluginConfig:
  - name: NetworkTraffic
    args: {ip: "http://prometheus.monitoring:9090", deviceName: eth0, timeRange: 3}
"""
_CAPACITY = 1000.0  # of each node, in the unit of what Prometheus measures
_SHARE = 0.1  # of it that each pod uses


def planned_with_prometheus(
    policy: RebalancePolicy,
    resource: str,
    configuration: SchedulerConfiguration = default_configuration(),
    view: SchedulerView = EMPTY_VIEW,
) -> Plan:
    """Nine pods of a, each of which uses a tenth of one resource that only Prometheus measures."""
    scored = (resource,)
    resources, required = measured_resources(policy, scored), required_resources(policy, scored)
    workloads = [
        a_workload(
            f"web{number}",
            ["a", "bcd"[number % 3]],
            cpu="100m",
            spec={"schedulerName": configuration.scheduler_names[0]},
        )
        for number in range(9)
    ]
    inputs = planning_inputs(
        [a_node(name, cpu=10) for name in "abcd"],
        workloads,
        policy=policy,
        configuration=configuration,
        view=view,
    )
    nodes, pods = inputs.snapshot.nodes, inputs.snapshot.pods
    extra = [name for name in resources if name not in ("cpu", "memory")]
    on_a = pods.node == nodes.row["a"]
    of_pods = np.full((len(pods), len(resources)), 1.0)
    of_pods[:, :2] = inputs.load.pod_usage
    of_pods[on_a, resources.index(resource)] = _SHARE * _CAPACITY
    of_nodes = np.full((len(nodes), len(resources)), 0.0)
    np.add.at(of_nodes, pods.node, of_pods)
    windows, now = np.zeros(len(nodes)), np.full(of_nodes.shape, NOW)
    capacity = {name: np.full(len(nodes), _CAPACITY) for name in extra}
    figures = NodeUsage("prometheus", of_nodes, now, windows, resources=resources, capacity=capacity)
    measured = PodUsage(of_pods, np.full(len(pods), NOW), resources=resources)
    report = build_report(
        nodes,
        pods,
        [figures],
        measured,
        of_pods[:, :2],
        now=NOW,
        max_age_seconds=180,
        resources=resources,
        required=required,
    )
    return plan_of(replace(inputs, load=report))


@pytest.mark.parametrize("resource", ["networkReceive", "networkTransmit", "disk"])
def test_the_policy_for_prometheus_cools_what_only_prometheus_measures(resource: str) -> None:
    plan = planned_with_prometheus(shipped("prometheus"), resource)
    assert {move.from_node for move in plan.moves} == {"a"}
    assert all(move.gain[resource] >= 5 for move in plan.moves)


def test_the_policy_for_network_traffic_cools_the_traffic_that_the_plugin_scores() -> None:
    configuration = load_configuration(_NETWORK_PLUGIN, "test")
    arguments: Any = configuration.profiles[0].argument("NetworkTraffic")
    traffic = {"a": 900.0, "b": 100.0, "c": 100.0, "d": 100.0}
    view = SchedulerView(queries={(arguments.ip, published_query(arguments)): traffic})
    plan = planned_with_prometheus(shipped("network-traffic"), "networkReceive", configuration, view)
    assert {move.from_node for move in plan.moves} == {"a"}
    assert all(move.gain["networkReceive"] >= 5 for move in plan.moves)


# As the article has it: v1beta1, every other score disabled, an hour of a counter's samples.
_ARTICLE = """
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/scheduler.conf}
profiles:
- schedulerName: custom-scheduler
  plugins: {score: {enabled: [{name: "NetworkTraffic"}], disabled: [{name: "*"}]}}
  pluginConfig:
  - name: "NetworkTraffic"
    args: {ip: "http://10.0.0.4:9090", deviceName: "eth0", timeRange: 60}
"""
_LINK = 125e6  # bytes a second


def on_the_articles_cluster(cpu: float, traffic: float) -> Plan:
    """Two nodes of which node_exporter says all that is known, and pods that request nothing.

    ``cpu`` is the percentage of the busy one, ``traffic`` what it receives, in bytes a second.
    """
    policy = shipped("network-traffic")
    configuration = load_configuration(_ARTICLE, "test")
    arguments: Any = configuration.profiles[0].argument("NetworkTraffic")
    seen = {"master-machine": 100 * traffic, "node01": traffic}
    inputs = planning_inputs(
        [a_node("master-machine", cpu=4), a_node("node01", cpu=4)],
        [
            a_workload(
                "nginx",
                [*["master-machine"] * 6, *["node01"] * 2],
                cpu="0",
                memory="0",
                spec={"schedulerName": "custom-scheduler"},
            )
        ],
        policy=policy,
        configuration=configuration,
        view=SchedulerView(queries={(arguments.ip, published_query(arguments)): seen}),
    )
    nodes, pods = inputs.snapshot.nodes, inputs.snapshot.pods
    resources = measured_resources(policy, ("networkReceive",))
    usage = {
        "cpu": [40 * cpu, 400.0],
        "memory": [4 * 2.0**30, 2.0**30],
        "networkReceive": [traffic, traffic / 100],
    }
    amounts = np.array([usage.get(name, [0.0, 0.0]) for name in resources]).T
    capacity = {name: np.full(2, _LINK) for name in resources if name.startswith("network")}
    figures = NodeUsage(
        "prometheus",
        amounts,
        np.full(amounts.shape, NOW),
        np.zeros(2),
        resources=resources,
        capacity=capacity,
    )
    report = build_report(
        nodes,
        pods,
        [figures],
        None,
        np.zeros((len(pods), 2)),
        now=NOW,
        max_age_seconds=180,
        resources=resources,
        required=required_resources(policy, ("networkReceive",)),
    )
    return plan_of(replace(inputs, load=report))


@rows(
    "cpu, traffic, hot",
    [
        (20.0, 60e6, {"networkReceive"}),
        (90.0, 300e3, {"cpu"}),  # the busiest link is as good as idle, and makes no node hot
        (90.0, 60e6, {"cpu", "networkReceive"}),
        (20.0, 300e3, set()),
    ],
)
def test_the_policy_for_network_traffic_moves_a_pod_on_the_articles_cluster(
    cpu: float, traffic: float, hot: set[str]
) -> None:
    plan = on_the_articles_cluster(cpu, traffic)
    busy = next(node for node in plan.nodes if node.name == "master-machine")
    assert busy.hot is bool(hot)
    assert all(any(f"{name} " in text for text in busy.because) for name in hot)
    assert {move.from_node for move in plan.moves} == ({"master-machine"} if hot else set())
    assert {move.likeliest.node for move in plan.moves} == ({"node01"} if hot else set())
    assert all(set(move.gain) == hot for move in plan.moves)
    assert all(set(move.load_methods.values()) == {"share"} for move in plan.moves)


def test_the_policy_for_pods_per_node_moves_pods_that_alone_cannot_cool_the_node() -> None:
    """Most pods of the full node are another scheduler's."""
    name = "scheduler-plugins-scheduler"
    workloads = [
        a_workload("other", ["a"] * 95, cpu="1m"),
        a_workload("ours", ["a"] * 4, cpu="1m", spec={"schedulerName": name}),
    ]
    inputs = planning_inputs(
        [a_node(node, cpu=10) for node in "abc"],
        workloads,
        policy=shipped("pods-per-node"),
        configuration=configured(name),
    )
    plan = plan_of(inputs)
    assert {move.pod.workload for move in plan.moves} == {"ReplicaSet/ours"}
    assert plan.benefit is not None
    assert plan.benefit.hot_nodes.after == 1


def test_every_shipped_policy_is_tried_here() -> None:
    assert set(POLICIES) == {*FOR_ANY_CLUSTER, *NEEDS_A_SOURCE, *FOR_A_PROFILE}


@rows("name", [*FOR_ANY_CLUSTER, *FOR_A_PROFILE])
def test_a_shipped_policy_moves_pods_on_a_cluster_that_it_fits(name: str) -> None:
    policy = shipped(name)
    scheduler_name = (policy.schedulers[0].profiles or ("default-scheduler",))[0]
    plan = planned(policy, scheduler_name)
    assert moved(plan)
    assert not any("scheduler.profiles" in warning for warning in plan.warnings)


@pytest.mark.parametrize("name", FOR_A_PROFILE)
def test_a_policy_for_a_profile_that_is_not_there_moves_nothing_and_names_the_setting(name: str) -> None:
    policy = shipped(name)
    snapshot = planning_inputs([a_node("a")]).snapshot
    scheduler = SchedulerFacts(default_configuration(), policy.schedulers[0])
    said = sentences(unmatched_names(policy, snapshot, (scheduler,)))
    assert moved(planned(policy)) == {}
    assert any(
        text.startswith("scheduler.profiles ")
        and text.endswith("(it has: default-scheduler): no pod of it is moved")
        for text in said
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


@rows("name", FOR_ANY_CLUSTER)
def test_a_policy_for_any_cluster_warns_of_nothing(name: str) -> None:
    plan = planned(shipped(name))
    assert [warning for warning in plan.warnings if ": no " in warning] == []
