"""How the scheduler rates nodes for a plain pod: plugin by plugin, and what that makes of hot nodes."""

from __future__ import annotations

import pytest

from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.plan import NodeReport
from rebalancer.policy.policy_file import parse_policy, to_yaml
from rebalancer.scheduling.registry import load_configuration
from tests.builders import a_node
from tests.unit.planning.builders import NOW, a_policy, a_workload, plan_of, planning_inputs

CONFIGURATION = load_configuration(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 5}, {name: PodCapacityOfNode}]}}
  pluginConfig: [{name: TargetLoadPacking, args: {watcherAddress: "http://w"}}]
""",
    "test",
)


def seen(**percent: float) -> SchedulerView:
    nodes = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in percent.items()}
    return SchedulerView({"http://w": WatcherMetrics(nodes, NOW, NOW - 900, NOW, "test")})


def reports(**rule: object) -> dict[str, NodeReport]:
    policy = a_policy(hotNodes={"any": [{"score": {"below": 50, **rule}}]})
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        [a_workload("web", ["busy", "busy", "free"], cpu="100m")],
        configuration=CONFIGURATION,
        view=seen(busy=90, free=30),
        load={"busy": 90, "free": 30},
        policy=policy,
    )
    return {node.name: node for node in plan_of(inputs).nodes}


def test_a_node_is_rated_plugin_by_plugin_and_the_mean_is_weighted() -> None:
    busy = reports()["busy"]
    assert set(busy.scores) >= {"TargetLoadPacking", "PodCapacityOfNode", "NodeResourcesFit"}
    weights = CONFIGURATION.profiles[0].weights
    total = sum(weights[name] for name in busy.scores)
    mean = sum(weights[name] * score for name, score in busy.scores.items()) / total
    assert busy.score == pytest.approx(mean, abs=0.01)


def test_the_plugin_that_pulls_a_node_down_is_named() -> None:
    found = reports()
    assert found["busy"].pulled_down_by == "TargetLoadPacking"
    assert found["free"].pulled_down_by == ""


def test_a_score_rule_without_plugins_takes_those_that_look_at_load_or_pod_counts() -> None:
    sentence = reports()["busy"].because[0]
    scores = reports()["busy"].scores
    mean = (5 * scores["TargetLoadPacking"] + scores["PodCapacityOfNode"]) / 6
    assert sentence.startswith(
        f"score {mean:.0f} of 100 by TargetLoadPacking, PodCapacityOfNode, hot below 50"
    )


def test_a_score_rule_without_such_plugins_makes_no_node_hot() -> None:
    policy = a_policy(hotNodes={"any": [{"score": {"below": 100}}]})
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        [a_workload("web", ["busy"], cpu="100m")],
        load={"busy": 90, "free": 30},
        policy=policy,
    )
    plan = plan_of(inputs)
    assert plan.hot_count == 0
    assert (
        "hotNodes: a score rule names no plugins, and no profile has one that looks at load" in plan.warnings
    )


def test_a_policy_whose_score_rule_names_no_plugins_reads_back_as_printed() -> None:
    text = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nhotNodes: {any: [{score: {below: 20}}]}\n"
    policy = parse_policy(text, "p.yaml").policy
    assert parse_policy(to_yaml(policy), "printed").policy == policy
