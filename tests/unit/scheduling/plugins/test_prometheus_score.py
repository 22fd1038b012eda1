"""A score that is only YAML: declared in the policy, asked of Prometheus, scored as the plugin it mirrors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.errors import InputError
from rebalancer.load.plugin_sources import plugin_requests, read_view
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning import scheduler_facts
from rebalancer.policy.policy_file import LoadedPolicy, parse_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ConfigurationText, SchedulerConfiguration
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import make_scheduler, neutral_plugins, plugin_queries
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows
from tests.unit.planning.builders import (
    PERMISSIVE,
    a_policy,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

ADDRESS, QUERY = "http://prometheus:9090", "disk_busy"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: "*"}], enabled: [{name: QuietDisks, weight: 2}]}}
"""


def a_mirror(**score: Any) -> dict[str, Any]:
    asked = {"address": ADDRESS, "query": QUERY, "nodeLabel": "instance"}
    return {"mirror": [{"plugin": "QuietDisks", "prometheusScore": asked | score}]}


def configured(**score: Any) -> SchedulerConfiguration:
    policy = RebalancePolicy.model_validate({"scheduler": a_mirror(**score)})
    written = ConfigurationText(CONFIGURATION, "c.yaml")
    return scheduler_facts.configured(
        LoadedPolicy(policy, "p.yaml", ""), policy.schedulers[0], written, (), tuple
    )


def scored(values: Mapping[str, float], **score: Any) -> list[int]:
    configuration = configured(**score)
    snapshot = a_snapshot(nodes=[a_node(name) for name in ("n-1", "n-2", "n-3")], pods=[a_pod("p")])
    inputs = PluginInputs.of(snapshot, SchedulerView(queries={(ADDRESS, QUERY): values}))
    state = ClusterState.of(snapshot)
    placement = make_scheduler(configuration, configuration.profiles[0], inputs).place(state, 0)
    assert not placement.rejected
    weight_of_the_configuration = 2
    found: list[int] = (placement.scores["QuietDisks"] // weight_of_the_configuration).tolist()
    return found


VALUES = {"n-1": 10.0, "n-2": 35.9, "n-3": 60.0}


@rows(
    "score, expected",
    [
        ({}, [100, 50, 0]),
        ({"direction": "higher"}, [0, 50, 100]),
        ({"normalization": "maximum"}, [84, 42, 0]),
        ({"normalization": "maximum", "direction": "higher"}, [16, 58, 100]),
        ({"normalization": "none", "direction": "higher"}, [10, 35, 60]),
        ({"normalization": "none", "scale": 2}, [80, 29, 0]),
        ({"scale": 1000}, [100, 49, 0]),
    ],
)
def test_values_become_scores_as_declared(score: dict[str, Any], expected: list[int]) -> None:
    assert scored(VALUES, **score) == expected


def test_equal_values_score_alike() -> None:
    assert scored(dict.fromkeys(VALUES, 7.0), direction="higher") == [0, 0, 0]
    assert scored(dict.fromkeys(VALUES, 0.0), normalization="maximum") == [100, 100, 100]


@pytest.mark.parametrize("normalization", ["range", "maximum", "none"])
def test_a_node_without_a_value_scores_as_declared_and_changes_no_other(normalization: str) -> None:
    values = {"n-1": 100.0, "n-3": 0.0}
    assert scored(values, normalization=normalization, missingScore=20) == [0, 20, 100]


def test_it_mirrors_network_traffic_as_published() -> None:
    assert scored(
        {"n-1": 140_000.9, "n-2": 200_000.0, "n-3": 0.0}, normalization="maximum", direction="lower"
    ) == [30, 0, 100]


def test_a_mirrored_plugin_is_known_and_not_neutral() -> None:
    configuration = configured()
    profile = configuration.profiles[0]
    assert profile.weights == {"QuietDisks": 2}
    assert neutral_plugins(configuration, profile) == ()
    assert [(item.address, item.query) for item in plugin_queries(configuration)] == [(ADDRESS, QUERY)]


def test_a_mirror_that_no_profile_enables_is_a_warning() -> None:
    policy = RebalancePolicy.model_validate({"scheduler": a_mirror()})
    text = CONFIGURATION.replace("QuietDisks", "ImageLocality")
    configuration = scheduler_facts.configured(
        LoadedPolicy(policy, "p.yaml", ""), policy.schedulers[0], ConfigurationText(text, "c"), (), tuple
    )
    assert configuration.warnings == ("p.yaml: scheduler.mirror: no profile enables QuietDisks",)


ASKED = f"address: '{ADDRESS}', query: up"


@rows(
    "mirrors, complaint",
    [
        ("[{plugin: A}]", "scheduler.mirror[0]"),
        ("[{plugin: A, prometheusScore: {query: up}}]", "scheduler.mirror[0].prometheusScore"),
        (
            f"[{{plugin: A, prometheusScore: {{{ASKED}, direction: up}}}}]",
            "scheduler.mirror[0].prometheusScore.direction",
        ),
        (
            f"[{{plugin: A, prometheusScore: {{{ASKED}}}}}, {{plugin: A, prometheusScore: {{{ASKED}}}}}]",
            "scheduler.mirror: A is listed twice",
        ),
        (
            f"[{{plugin: A, prometheusScore: {{{ASKED}}}}}, "
            f"{{plugin: B, prometheusScore: {{{ASKED}, nodeLabel: host}}}}]",
            "B has the same query as another plugin, but a different nodeLabel",
        ),
    ],
)
def test_a_declaration_that_cannot_be_used_is_refused_where_it_is_wrong(mirrors: str, complaint: str) -> None:
    text = f"apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nscheduler:\n  mirror: {mirrors}\n"
    with pytest.raises(InputError) as failure:
        parse_policy(text, "p.yaml")
    assert str(failure.value).startswith("p.yaml:4:")
    assert complaint in str(failure.value)


def _answer(*values: tuple[str, float]) -> bytes:
    result = [{"metric": {"instance": instance}, "value": [1.0, str(value)]} for instance, value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def test_its_query_is_asked_and_series_find_their_nodes_by_name_and_address() -> None:
    node = a_node("n-2")
    node["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.2"}]
    snapshot = a_snapshot(nodes=[a_node("n-1"), node, a_node("n-3")])
    answer = _answer(("n-1:9100", 1.0), ("10.0.0.2:9100", 2.0), ("n-3", 3.0), ("n-3", 4.0), ("other", 5.0))
    configuration, responses = configured(), RecordedResponses()
    queries = plugin_queries(configuration)
    asked = list(plugin_requests(configuration, queries))
    for connection, query in asked:
        responses.keep(connection.address, query, lambda: answer)

    view = read_view(snapshot, RawFigures(prometheus=responses), {}, queries, 0.0)

    assert [query.query for _, query in asked] == [QUERY]
    assert view.queries[ADDRESS, QUERY] == {"n-1": 1.0, "n-2": 2.0}  # n-3 has two values: neither can be used


def _plan(view: SchedulerView, **score: Any) -> Any:
    nodes = [a_node("a", cpu="4"), a_node("b", cpu="8")]
    workloads = [a_workload("web", ["a"] * 4, cpu="900m")]
    policy = a_policy(**PERMISSIVE, scheduler=a_mirror(**score))
    return plan_of(
        planning_inputs(nodes, workloads, policy=policy, view=view, configuration=configured(**score))
    )


def test_pods_are_unpredictable_without_figures_and_say_why() -> None:
    unanswered = _plan(SchedulerView(missing={ADDRESS: "no answer within 10 s"}))
    assert kept(unanswered)["web-0"] == "Unpredictable"
    assert because(unanswered, "web-0") == "what QuietDisks sees is unknown: no answer within 10 s"
    nobody = _plan(SchedulerView(queries={(ADDRESS, QUERY): {}}))
    assert because(nobody, "web-0").endswith(f"Prometheus {ADDRESS} knows no node by instance")
    partly = _plan(SchedulerView(queries={(ADDRESS, QUERY): {"a": 1.0}}))
    assert because(partly, "web-0").endswith(f"Prometheus {ADDRESS} has no value of node b")


def test_pods_move_to_where_the_mirrored_plugin_would_have_them() -> None:
    values = {"a": 50.0, "b": 10.0}
    assert set(moved(_plan(SchedulerView(queries={(ADDRESS, QUERY): values}))).values()) == {"b"}
    partly = SchedulerView(queries={(ADDRESS, QUERY): {"a": 50.0}})
    assert set(moved(_plan(partly, missingScore=100, direction="higher")).values()) == {"b"}


def test_every_example_of_the_documentation_can_be_used() -> None:
    page = (Path(__file__).parents[4] / "docs" / "plugins" / "README.md").read_text()
    examples = [yaml.safe_load(part.split("```")[0]) for part in page.split("```yaml\n")[1:]]
    assert len(examples) == 2
    names = [
        mirror.plugin
        for example in examples
        for mirror in RebalancePolicy.model_validate(example).schedulers[0].mirror
    ]
    assert names == ["QuietDisks", "NetworkTraffic"]


def test_a_mirror_may_stand_for_a_known_plugin() -> None:
    score = {"address": ADDRESS, "query": "rate", "nodeLabel": "nodename", "normalization": "maximum"}
    mirror = {"mirror": [{"plugin": "NetworkTraffic", "prometheusScore": score}]}
    policy = RebalancePolicy.model_validate({"scheduler": mirror})
    text = CONFIGURATION.replace("QuietDisks", "NetworkTraffic") + (
        "  pluginConfig: [{name: NetworkTraffic, args: {ip: other, deviceName: eth0, timeRange: 3}}]\n"
    )
    configuration = scheduler_facts.configured(
        LoadedPolicy(policy, "p", ""), policy.schedulers[0], ConfigurationText(text, "c.yaml"), (), tuple
    )
    assert [(item.address, item.query) for item in plugin_queries(configuration)] == [(ADDRESS, "rate")]
