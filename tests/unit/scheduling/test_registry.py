"""The registry: every plugin that is enabled by default is modelled, and what classes must declare."""

from __future__ import annotations

import pytest

from rebalancer.profiles.types import Input
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.registry import (
    CATALOGUE,
    MODELLED,
    default_configuration,
    load_configuration,
    neutral_plugins,
)
from tests.rows import rows

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@rows("version", ["v1", "v1beta3", "v1beta2", "v1beta1"])
def test_every_plugin_that_is_enabled_by_default_is_modelled(version: str) -> None:
    configuration = load_configuration(V1.replace("v1\n", f"{version}\n"), "test")
    assert neutral_plugins(configuration, configuration.profiles[0]) == ()


def test_a_plugin_whose_pods_a_rule_of_versions_makes_unpredictable_is_not_called_neutral() -> None:
    enabled = "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeDeclaredFeatures}]}}}]\n"
    configuration = load_configuration(V1 + enabled, "test")

    assert "NodeDeclaredFeatures" in configuration.profiles[0].plugin_names
    assert neutral_plugins(configuration, configuration.profiles[0]) == ()


def test_a_class_that_normalizes_and_does_not_declare_by_what_is_refused() -> None:
    body = {"name": "Mine", "normalize": lambda self, raw, smallest, largest: raw}
    with pytest.raises(TypeError, match="Mine implements normalize and must declare its normalization"):
        type("Mine", (Plugin,), body)


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


@rows(
    "version, api_version",
    [
        ("1.19", "v1beta1"),
        ("1.21", "v1beta1"),
        ("1.22", "v1beta2"),
        ("1.24", "v1beta3"),
        ("1.25", "v1"),
        ("1.37", "v1"),
        ("", "v1"),
    ],
)
def test_without_a_configuration_a_scheduler_has_the_defaults_of_its_own_version(
    version: str, api_version: str
) -> None:
    assert default_configuration(version).api_version == f"kubescheduler.config.k8s.io/{api_version}"


def test_what_a_known_plugin_is_given_by_default_is_what_a_check_of_no_arguments_would_give_it() -> None:
    kinds = {plugin.name: plugin.arguments for plugin in CATALOGUE.values() if plugin.arguments is not None}
    without_required = {
        name: kind
        for name, kind in kinds.items()
        if not any(field.is_required() for field in kind.model_fields.values())
    }
    assert len(without_required) > 10
    for name, kind in without_required.items():
        assert kind.model_construct() == kind.model_validate_json("{}", strict=True), name
