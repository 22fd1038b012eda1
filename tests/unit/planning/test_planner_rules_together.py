"""Rules of ``hotNodes.any`` stand beside one another: none that is added blocks what another one asks for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.cluster.arrays import FloatArray
from rebalancer.load.report import LoadReport, build_report
from rebalancer.load.usage import NodeUsage, PodUsage
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import observe
from rebalancer.planning.assemble import assemble
from rebalancer.planning.hotness import Hotness
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.policy.hotness import HotRule, ScoreRule
from rebalancer.policy.policy_file import load_policy, parse_policy, required_resources
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.scheduling.plugins.network_traffic import published_query
from tests.builders import a_node
from tests.conftest import ALL_EXAMPLES, examples
from tests.unit.planning.builders import a_policy, a_workload, moved, plan_of, planning_inputs

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
LINK = 125e6  # bytes a second
DISK = 100e9  # bytes

# examples/policy.yaml, for a scheduler that looks at traffic too.
POLICY = """
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
scheduler:
  version: "1.35"
  inline:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
    - schedulerName: default-scheduler
    - schedulerName: trimaran
      plugins:
        score:
          enabled:
          - {name: TargetLoadPacking, weight: 5}
          - {name: NetworkTraffic, weight: 1}
          disabled: [{name: NodeResourcesBalancedAllocation}]
      pluginConfig:
      - name: TargetLoadPacking
        args: {watcherAddress: "http://load-watcher.loadwatcher:2020", targetUtilization: 60}
      - name: NetworkTraffic
        args: {ip: "http://prometheus.monitoring:9090", deviceName: eth0, timeRange: 3}
  profiles: [trimaran, default-scheduler]
load:
  sources:
  - metricsServer: {}
  - prometheus: {address: "http://prometheus.monitoring:9090"}
  signals:
    disk: {query: node_filesystem_size_bytes, capacity: node_filesystem_size_bytes}
evictable: {minAge: 10m}
"""
LIFTED = {"perRun": 100, "perNode": 100, "perNamespace": 100, "perWorkload": "100%"}


def shipped_rules() -> list[HotRule]:
    """Every rule of the policies that are shipped, each once."""
    found: list[HotRule] = []
    for path in sorted((ROOT / "policies").glob("*.yaml")):
        found += [rule for rule in load_policy(path).policy.hot_nodes.any if rule not in found]
    return found


def tried_rules() -> Sequence[HotRule]:
    """Every shipped rule, or by ``make test`` three of them."""
    rules = shipped_rules()
    return rules if ALL_EXAMPLES else rules[:: len(rules) // 2]


def by(policy: RebalancePolicy, *rules: HotRule) -> RebalancePolicy:
    """The policy with these rules."""
    hot_nodes = policy.hot_nodes.model_copy(update={"any": rules, "for_runs": 1})
    return policy.model_copy(update={"hot_nodes": hot_nodes})


def with_traffic_and_disks(inputs: PlanningInputs) -> LoadReport:
    """The load of the example, and what it lacks: pods receive and store as they use cpu and memory."""
    policy, nodes, pods, load = inputs.policy, inputs.snapshot.nodes, inputs.snapshot.pods, inputs.load
    scored = [rule for rule in policy.hot_nodes.any if isinstance(rule, ScoreRule)]
    resources = ("cpu", "memory", "networkReceive", "networkTransmit", "disk")
    whole = {"networkReceive": LINK, "networkTransmit": LINK, "disk": DISK}
    likewise = {"networkReceive": 0, "networkTransmit": 0, "disk": 1}

    def more(usage: Any, allocatable: Any) -> Any:
        """(…, resources) with columns for what is measured besides."""
        columns = [usage[:, 0], usage[:, 1]]
        for name in resources[2:]:
            share = usage[:, likewise[name]] / allocatable[:, likewise[name]]
            columns.append(share * whole[name])
        return np.column_stack(columns)

    room = nodes.allocatable[:, :2].astype(np.float64)
    of_nodes = more(load.usage, room)
    figures = NodeUsage(
        "prometheus",
        of_nodes,
        np.full(of_nodes.shape, inputs.now),
        np.zeros(len(nodes)),
        resources=resources,
        capacity={name: np.full(len(nodes), whole[name]) for name in resources[2:]},
    )
    of_pods = more(load.pod_usage, room[np.maximum(pods.node, 0)])
    measured = PodUsage(of_pods, np.full(len(pods), inputs.now), resources=resources)
    return build_report(
        nodes,
        pods,
        [figures],
        measured,
        np.zeros((len(pods), 2)),
        now=inputs.now,
        max_age_seconds=180,
        resources=resources,
        required=required_resources(policy, ["networkReceive"] * len(scored)),
    )


def planned_by(limits: Mapping[str, Any]) -> tuple[Callable[..., Hotness], Callable[..., FloatArray]]:
    """By rules of hot nodes: which nodes of the example they find hot, and the percentages after a plan."""
    loaded = parse_policy(f"{POLICY}limits: {json.dumps(limits)}\n", "p.yaml")
    observation = observe(PlanOptions(source=EXAMPLES / "hot-cluster"), (loaded,), None)
    start = assemble(observation, loaded, None)
    arguments: Any
    (arguments,) = (
        profile.argument("NetworkTraffic")
        for profile in start.schedulers[0].configuration.profiles
        if profile.scheduler_name == "trimaran"
    )
    names = start.snapshot.nodes.names
    percent = start.load.percent[:, 0]
    traffic = {name: LINK * percent[row] / 100 for row, name in enumerate(names)}
    query = ("http://prometheus.monitoring:9090", published_query(arguments))
    start = start.with_views(lambda view: replace(view, queries={query: traffic}))

    def inputs_by(*rules: HotRule) -> PlanningInputs:
        inputs = replace(start, policy=by(start.policy, *rules))
        return replace(inputs, load=with_traffic_and_disks(inputs))

    def percent_after(*rules: HotRule) -> FloatArray:
        return Planner(inputs_by(*rules)).decided.scenarios.mean_percent()

    def hotness_by(*rules: HotRule) -> Hotness:
        return prepare(inputs_by(*rules)).hotness

    return hotness_by, percent_after


def relieved(hotness: Hotness, after: FloatArray) -> int:
    """How many nodes that some rules find hot they would not find hot at these percentages."""
    hot = np.flatnonzero(hotness.hot)
    return len(hot) - int(hotness.hot_at(hot, after[hot]).sum())


@pytest.mark.many_cases
def test_every_pair_of_shipped_rules_relieves_as_many_nodes_as_each_of_the_two_alone() -> None:
    hotness_by, percent_after = planned_by(LIFTED)
    rules = tried_rules()
    of_rule = [hotness_by(rule) for rule in rules]
    alone = [relieved(of_rule[at], percent_after(rule)) for at, rule in enumerate(rules)]
    assert sum(count > 0 for count in alone) > len(rules) / 2
    for one, other in itertools.combinations(range(len(rules)), 2):
        pair = (rules[one], rules[other])
        after = percent_after(*pair)
        assert relieved(of_rule[one], after) >= alone[one], pair
        assert relieved(of_rule[other], after) >= alone[other], pair
        assert relieved(hotness_by(*pair), after) >= max(alone[one], alone[other]), pair


@pytest.mark.many_cases
def test_under_limits_a_pair_of_shipped_rules_relieves_as_many_nodes_as_the_better_of_the_two_alone() -> None:
    """Each rule counts the nodes by its own threshold: few moves cannot also reach the lower one of two."""
    limits = yaml.safe_load((EXAMPLES / "policy.yaml").read_text())["limits"]
    hotness_by, percent_after = planned_by(limits)
    rules = tried_rules()
    of_rule = [hotness_by(rule) for rule in rules]
    alone = [relieved(of_rule[at], percent_after(rule)) for at, rule in enumerate(rules)]
    assert sum(count > 0 for count in alone) > len(rules) / 2
    for one, other in itertools.combinations(np.flatnonzero(alone).tolist(), 2):
        pair = (rules[one], rules[other])
        after = percent_after(*pair)
        together = max(relieved(of_rule[one], after), relieved(of_rule[other], after))
        assert together >= max(alone[one], alone[other]), pair


def test_a_rule_by_pods_does_not_keep_pods_on_a_node_that_is_hot_by_cpu() -> None:
    """The number of pods is above its mean too, and one pod is 0.9 points of it, less than minGain."""
    cpu = {"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}}
    pods = {"deviation": {"pods": 1}, "coolTo": {"pods": 0.5}}
    nodes = [a_node(name, cpu=10) for name in "abc"]
    work = [a_workload("web", [*["a"] * 9, "b"], cpu="1")]

    def plan(*rules: dict[str, Any]) -> Plan:
        return plan_of(
            planning_inputs(nodes, work, policy=a_policy(hotNodes={"forRuns": 1, "any": list(rules)}))
        )

    assert moved(plan(cpu, pods)).keys() >= moved(plan(cpu)).keys() != set()


def test_where_partial_relief_is_off_a_resource_that_stays_hot_keeps_no_pod_from_cooling_another() -> None:
    """What uses the memory belongs to a DaemonSet."""
    rules = [{"utilization": {"cpu": 80}}, {"utilization": {"memory": 80}}]
    policy = a_policy(hotNodes={"forRuns": 1, "any": rules}, planning={"partialRelief": False})
    nodes = [a_node("a", cpu=10, memory="10Gi"), a_node("b", cpu=10, memory="10Gi")]
    work = [
        a_workload("web", ["a"] * 9, cpu="1", memory="1Mi"),
        a_workload("cache", ["a"], cpu="0", memory="9Gi", kind="DaemonSet"),
    ]
    plan = plan_of(planning_inputs(nodes, work, policy=policy))
    (report,) = (node for node in plan.nodes if node.name == "a")
    assert report.after is not None
    assert report.after.load["cpu"] <= 80
    assert report.after.hot


RULES: list[dict[str, Any]] = [
    {"utilization": {"cpu": 80}, "coolTo": {"cpu": 60}},
    {"utilization": {"memory": 80}, "coolTo": {"memory": 60}},
    {"utilization": {"pods": 80}, "coolTo": {"pods": 60}},
    {"deviation": {"cpu": 30}, "coolTo": {"cpu": 20}, "floor": {"cpu": 60}},
    {"deviation": {"memory": 30}, "coolTo": {"memory": 20}},
    {"deviation": {"pods": 30}, "coolTo": {"pods": 20}},
]
_LEVEL = st.sampled_from([70.0, 85.0, 95.0])  # percent
_AMOUNT = st.sampled_from([10, 200, 1000, 3000])  # thousandths of a core, and MiB
_POD = st.tuples(_AMOUNT, _AMOUNT, st.booleans())


@settings(max_examples=examples(160), deadline=None)
@given(
    st.lists(st.tuples(_LEVEL, _LEVEL, st.lists(_POD, min_size=3, max_size=9)), min_size=1, max_size=2),
    st.permutations(RULES),
    st.sampled_from([2, 3, 5]),
    st.sampled_from([1, 5, 40]),
    st.sampled_from([(5.0, 5.0), (50.0, 5.0), (5.0, 50.0), (50.0, 50.0)]),
)
@example(
    [(70.0, 70.0, [(10, 10, False)] * 3), (70.0, 85.0, [(10, 200, False)] * 3)],
    [RULES[1], RULES[4], RULES[2], RULES[3], RULES[0], RULES[5]],
    2,
    1,
    (5.0, 5.0),
)
def test_a_rule_that_is_added_relieves_no_fewer_of_the_nodes_that_the_others_relieve(
    on_nodes: list[tuple[float, float, list[tuple[int, int, bool]]]],
    rules: list[dict[str, Any]],
    level: int,
    min_gain: float,
    elsewhere: tuple[float, float],
) -> None:
    """With limits lifted, and room for all pods on nodes that stay cool by every rule.

    Without that a rule may leave less: landings that it finds hot are none, and what it moves takes room.
    """
    nodes = [a_node(f"n{number}", cpu=10, memory="10Gi", pods=10) for number in range(len(on_nodes))]
    nodes += [a_node(name, cpu=1000, memory="1000Gi", pods=1000) for name in ("large", "larger")]
    work = [
        a_workload(
            f"w{number}-{at}",
            [f"n{number}"],
            cpu=f"{cpu}m",
            memory=f"{memory}Mi",
            kind="DaemonSet" if stays else "ReplicaSet",
        )
        for number, (_cpu, _memory, pods) in enumerate(on_nodes)
        for at, (cpu, memory, stays) in enumerate(pods)
    ]

    def planner_by(*chosen: dict[str, Any]) -> Planner:
        policy = a_policy(
            hotNodes={"forRuns": 1, "any": list(chosen)},
            planning={"aggressiveness": level, "minGain": min_gain},
        )
        load = {f"n{number}": (cpu, memory) for number, (cpu, memory, _pods) in enumerate(on_nodes)}
        load |= {"large": elsewhere, "larger": elsewhere}
        return Planner(planning_inputs(nodes, work, load=load, policy=policy))

    one, other = rules[:2]
    hotness = planner_by(one).prepared.hotness
    hot = np.flatnonzero(hotness.hot)
    alone = planner_by(one).decided.scenarios.mean_percent()
    together = planner_by(one, other).decided.scenarios.mean_percent()
    still_hot = hotness.hot_at(hot, together[hot]) & ~hotness.hot_at(hot, alone[hot])
    assert not still_hot.any()
