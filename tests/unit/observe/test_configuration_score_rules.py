"""A score rule cools what its plugin scores: somebody has to measure that, or the policy is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.observe.configuration import check_configuration, configuration_texts
from rebalancer.planning.scheduler_facts import configured_schedulers, scored_resources
from rebalancer.policy.policy_file import LoadedPolicy, measured_resources, parse_policy, required_resources

PROMETHEUS = {"prometheus": {"address": "http://prometheus:9090"}}
ARGUMENTS = {
    "NetworkTraffic": {"ip": "http://prometheus:9090", "deviceName": "eth0", "timeRange": 5},
    "TargetLoadPacking": {"watcherAddress": "http://watcher"},
}


def loaded(plugin: str, *, sources: Any = None, named: bool = True, **policy: Any) -> LoadedPolicy:
    """A policy with a score rule, and a configuration that enables one plugin only."""
    profile: dict[str, Any] = {
        "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}}
    }
    if plugin in ARGUMENTS:
        profile["pluginConfig"] = [{"name": plugin, "args": ARGUMENTS[plugin]}]
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    score = {"below": 20, **({"plugins": [plugin]} if named else {})}
    document = {
        "apiVersion": "rebalancer/v1alpha1",
        "kind": "RebalancePolicy",
        "scheduler": {"inline": configuration, **policy.pop("scheduler", {})},
        "hotNodes": {"any": [{"score": score}]},
        "load": {"sources": [*(sources or []), {"metricsServer": {}}], **policy.pop("load", {})},
    }
    return parse_policy(json.dumps(document), "p.yaml")


def a_mirror(**score: Any) -> dict[str, Any]:
    prometheus = {"address": "http://prometheus:9090", "query": "disk_busy", **score}
    return {"mirror": [{"plugin": "QuietDisks", "prometheusScore": prometheus}]}


@pytest.mark.parametrize("named", [True, False])
def test_a_plugin_that_scores_what_no_source_measures_is_refused_with_the_source_that_would(
    named: bool,
) -> None:
    with pytest.raises(InputError) as caught:
        check_configuration(loaded("NetworkTraffic", named=named))
    assert str(caught.value) == (
        "p.yaml hotNodes: a score rule goes by NetworkTraffic, which scores networkReceive: no load source "
        "measures it (add a prometheus source to load.sources)"
    )


def test_what_the_plugin_of_a_score_rule_scores_is_measured_and_required() -> None:
    policy = loaded("NetworkTraffic", sources=[PROMETHEUS])
    texts = configuration_texts(policy)
    scored = scored_resources(policy.policy, configured_schedulers(policy, texts, (), tuple))
    assert scored == ("networkReceive",)
    assert "networkReceive" in measured_resources(policy.policy, scored)
    assert "networkReceive" in required_resources(policy.policy, scored)


def test_plugins_that_score_cpu_and_the_number_of_pods_need_no_further_source() -> None:
    check_configuration(loaded("TargetLoadPacking"))
    check_configuration(loaded("PodCapacityOfNode"))


@pytest.mark.parametrize(
    ("plugin", "scheduler", "hint"),
    [
        ("NodeAffinity", {}, "name a plugin that scores load or the number of pods"),
        ("QuietDisks", a_mirror(), "name it as prometheusScore.resource under scheduler.mirror"),
    ],
)
def test_a_plugin_that_declares_no_resource_cannot_make_nodes_hot(
    plugin: str, scheduler: dict[str, Any], hint: str
) -> None:
    with pytest.raises(InputError, match="declares no resource that its score follows") as caught:
        check_configuration(loaded(plugin, scheduler=scheduler))
    assert hint in str(caught.value)


def test_a_mirror_declares_the_resource_that_its_score_follows() -> None:
    disk = {"signals": {"disk": {"query": "disk_busy"}}}
    check_configuration(
        loaded("QuietDisks", sources=[PROMETHEUS], scheduler=a_mirror(resource="disk"), load=disk)
    )


def test_a_mirror_of_a_resource_that_nobody_knows_is_refused_where_it_is_written() -> None:
    with pytest.raises(InputError, match=r"resource: disk is unknown; known: cpu, memory"):
        loaded("QuietDisks", scheduler=a_mirror(resource="disk"))
