"""The registry: every plugin that is enabled by default is modelled, and what classes must declare."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.profiles.types import Input
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.registry import CATALOGUE, MODELLED, load_configuration, neutral_plugins

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta2", "v1beta1"])
def test_every_plugin_that_is_enabled_by_default_is_modelled(version: str) -> None:
    configuration = load_configuration(V1.replace("v1\n", f"{version}\n"), "test")
    assert neutral_plugins(configuration, configuration.profiles[0]) == ()


def test_a_plugin_whose_pods_a_rule_of_versions_makes_unpredictable_is_not_called_neutral() -> None:
    enabled = "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeDeclaredFeatures}]}}}]\n"
    configuration = load_configuration(V1 + enabled, "test")

    assert "NodeDeclaredFeatures" in configuration.profiles[0].plugin_names
    assert neutral_plugins(configuration, configuration.profiles[0]) == ()


@pytest.mark.parametrize(
    ("body", "declaration"),
    [
        ({"fails": lambda self, state, pod_class, feasible: ""}, "may_fail = True"),
        ({"note": lambda self, raw: ""}, "has_notes = True"),
        ({"normalize": lambda self, raw, smallest, largest: raw}, "its normalization"),
    ],
)
def test_a_class_that_implements_what_it_does_not_declare_is_refused(
    body: dict[str, Any], declaration: str
) -> None:
    with pytest.raises(TypeError, match=f"Mine implements {next(iter(body))} and must declare {declaration}"):
        type("Mine", (Plugin,), {"name": "Mine", **body})


def test_the_catalogue_says_what_the_classes_declare() -> None:
    assert {name for name, plugin in CATALOGUE.items() if plugin.make is not None} == set(MODELLED)
    for name, plugin in MODELLED.items():
        described = CATALOGUE[name]
        assert (described.points, described.arguments) == (plugin.points, plugin.Arguments)
        assert described.scored_resources == plugin.scored_resources
        assert described.inputs == plugin.inputs | {Input.NODES, Input.PODS}


def test_score_plugins_name_the_resources_whose_use_they_follow() -> None:
    scored = {
        name: sorted(item.scored_resources) for name, item in CATALOGUE.items() if item.scored_resources
    }
    assert scored == {
        "LoadVariationRiskBalancing": ["cpu", "memory"],
        "LowRiskOverCommitment": ["cpu", "memory"],
        "NetworkTraffic": ["networkReceive"],
        "Peaks": ["cpu"],
        "PodCapacityOfNode": ["pods"],
        "TargetLoadPacking": ["cpu"],
    }
