from __future__ import annotations

from rebalancer.profiles import ExtensionPoint, Input
from rebalancer.profiles.types import DEFAULTS
from rebalancer.scheduling.plugins.network_traffic import NetworkTrafficArguments
from rebalancer.scheduling.plugins.trimaran.target_load_packing import TargetLoadPackingArguments
from rebalancer.scheduling.registry import CATALOGUE, default_configuration, load_configuration
from tests.rows import rows
from tests.unit.profiles.builders import (
    K3S_TRIMARAN,
    NETWORK_TRAFFIC,
    POD_CAPACITY,
    SCORE,
    V1_WEIGHTS,
    names,
    plugins_refusal,
    text_of,
    with_plugins,
)


def test_without_configuration_the_defaults_of_v1_hold() -> None:
    configuration = default_configuration()
    assert configuration.scheduler_names == ("default-scheduler",)
    profile = configuration.profiles[0]
    assert dict(profile.weights) == V1_WEIGHTS
    assert profile.enabled(SCORE) == tuple(V1_WEIGHTS)
    assert profile.enabled(ExtensionPoint.FILTER)[:4] == (
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
    )
    assert profile.enabled(ExtensionPoint.BIND) == ("DefaultBinder",)
    assert (configuration.parallelism, configuration.percentage_of_nodes_to_score) == (16, 0)
    assert not configuration.warnings


def test_k3s_with_trimaran_adds_target_load_packing_and_drops_balanced_allocation() -> None:
    configuration = load_configuration(K3S_TRIMARAN, "scheduler-config.yaml")
    default, trimaran = configuration.profiles
    assert dict(default.weights) == V1_WEIGHTS
    expected = {**V1_WEIGHTS, "TargetLoadPacking": 1}
    del expected["NodeResourcesBalancedAllocation"]
    assert dict(trimaran.weights) == expected
    assert trimaran.enabled(SCORE)[-1] == "TargetLoadPacking"
    assert "NodeResourcesBalancedAllocation" in trimaran.enabled(ExtensionPoint.PRE_SCORE)
    arguments = trimaran.argument("TargetLoadPacking")
    assert isinstance(arguments, TargetLoadPackingArguments)
    assert arguments.watcher_address.endswith(":2020")
    assert Input.WATCHER in configuration.plugins["TargetLoadPacking"].inputs
    assert configuration.profile("trimaran") is trimaran
    assert configuration.profile("absent") is None


def test_disabling_a_name_the_version_does_not_know_is_a_warning_with_its_place() -> None:
    assert load_configuration(K3S_TRIMARAN, "scheduler-config.yaml").warnings == (
        "scheduler-config.yaml:14:15 profiles[1].plugins.score.disabled[1].name: NodeResourcesLeastAllocated "
        "is not a plugin of v1; disabling it does nothing",
    )


def test_pod_capacity_of_node_is_added_to_the_defaults_of_v1beta1() -> None:
    profile = load_configuration(POD_CAPACITY, "c.yaml").profiles[0]
    assert dict(profile.weights) == {
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "InterPodAffinity": 1,
        "NodeResourcesLeastAllocated": 1,
        "NodeAffinity": 1,
        "NodePreferAvoidPods": 10000,
        "PodTopologySpread": 2,
        "TaintToleration": 1,
        "SelectorSpread": 1,
        "PodCapacityOfNode": 1,
    }


def test_network_traffic_is_the_only_score_of_its_scheduler() -> None:
    configuration = load_configuration(NETWORK_TRAFFIC, "c.yaml")
    profile = configuration.profiles[0]
    assert dict(profile.weights) == {"NetworkTraffic": 1}
    assert profile.argument("NetworkTraffic") == NetworkTrafficArguments(
        ip="http://10.0.0.4:9090", device_name="eth0", time_range_minutes=60
    )
    assert Input.PROMETHEUS in configuration.plugins["NetworkTraffic"].inputs


def test_two_profiles_without_scores_filter_as_by_default() -> None:
    nothing = {"preScore": {"disabled": names("*")}, "score": {"disabled": names("*")}}
    text = text_of(
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "no-scoring-scheduler", "plugins": nothing},
        version="v1beta2",
    )
    default, silent = load_configuration(text, "c.json").profiles
    assert silent.enabled(SCORE) == silent.enabled(ExtensionPoint.PRE_SCORE) == ()
    assert silent.enabled(ExtensionPoint.FILTER) == default.enabled(ExtensionPoint.FILTER)
    assert not silent.weights


def test_disabling_all_scores_leaves_prescore_and_filter_untouched() -> None:
    profile = with_plugins(
        score={"disabled": names("*"), "enabled": [{"name": "ImageLocality", "weight": 4}]}
    )
    assert dict(profile.weights) == {"ImageLocality": 4}
    default = default_configuration().profiles[0]
    for point in (ExtensionPoint.PRE_SCORE, ExtensionPoint.FILTER):
        assert profile.enabled(point) == default.enabled(point)


def test_disabled_and_enabled_again_is_reweighted_at_the_end() -> None:
    profile = with_plugins(
        score={"disabled": names("NodeResourcesFit"), "enabled": [{"name": "NodeResourcesFit", "weight": 8}]}
    )
    assert profile.enabled(SCORE)[-1] == "NodeResourcesFit"
    assert profile.weights["NodeResourcesFit"] == 8


def test_an_override_at_a_point_comes_first() -> None:
    profile = with_plugins(score={"enabled": [{"name": "ImageLocality", "weight": 7}]})
    assert profile.enabled(SCORE)[0] == "ImageLocality"
    assert profile.weights == {**V1_WEIGHTS, "ImageLocality": 7}
    assert sorted(profile.enabled(SCORE)) == sorted(V1_WEIGHTS)


def test_listing_a_plugin_again_without_weight_lowers_it_to_one() -> None:
    assert with_plugins(score={"enabled": names("TaintToleration")}).weights["TaintToleration"] == 1
    assert with_plugins(multiPoint={"enabled": names("TaintToleration")}).weights["TaintToleration"] == 1


def test_a_multipoint_override_stays_in_its_place() -> None:
    profile = with_plugins(multiPoint={"enabled": [{"name": "NodeAffinity", "weight": 9}]})
    assert profile.enabled(SCORE) == tuple(V1_WEIGHTS)
    assert profile.weights["NodeAffinity"] == 9


def test_a_new_multipoint_plugin_is_appended_at_every_point_it_implements() -> None:
    profile = with_plugins(multiPoint={"enabled": [{"name": "LowRiskOverCommitment", "weight": 5}]})
    assert profile.enabled(SCORE)[-1] == "LowRiskOverCommitment"
    assert profile.enabled(ExtensionPoint.PRE_SCORE)[-1] == "LowRiskOverCommitment"
    assert "LowRiskOverCommitment" not in profile.enabled(ExtensionPoint.FILTER)


def test_the_weight_at_the_score_point_wins_over_multipoints() -> None:
    profile = with_plugins(
        multiPoint={"enabled": [{"name": "ImageLocality", "weight": 9}]},
        score={"enabled": [{"name": "ImageLocality", "weight": 2}]},
    )
    assert profile.weights["ImageLocality"] == 2


def test_disabling_at_multipoint_removes_a_plugin_everywhere() -> None:
    profile = with_plugins(multiPoint={"disabled": names("InterPodAffinity")})
    assert "InterPodAffinity" not in profile.plugin_names
    assert "InterPodAffinity" not in profile.arguments


def test_disabling_all_at_multipoint_needs_the_essentials_listed() -> None:
    essentials = names("PrioritySort", "DefaultBinder", "NodeName")
    profile = with_plugins(multiPoint={"disabled": names("*"), "enabled": essentials})
    assert profile.plugin_names == {"PrioritySort", "DefaultBinder", "NodeName"}
    assert profile.enabled(SCORE) == ()


@rows("version", list(DEFAULTS))
def test_the_defaults_of_every_version_are_plugins_that_version_knows(version: str) -> None:
    profile = load_configuration(text_of(version=version), "c.json").profiles[0]
    for point, listed in profile.plugins.items():
        for name in listed:
            assert point in CATALOGUE[name].points
    assert set(profile.weights) == set(profile.enabled(SCORE))


def test_v1beta2_replaces_in_place_and_v1beta1_refuses_a_default_listed_again() -> None:
    enabled = {"enabled": [{"name": "ImageLocality", "weight": 5}]}
    profile = with_plugins("v1beta2", score=enabled)
    assert profile.enabled(SCORE)[1] == "ImageLocality"
    assert profile.weights["ImageLocality"] == 5
    assert "plugin ImageLocality is enabled twice at score" in plugins_refusal("v1beta1", score=enabled)


def test_multipoint_is_unknown_before_v1beta3() -> None:
    assert "multiPoint: is not read in v1beta2" in plugins_refusal(
        "v1beta2", multiPoint={"enabled": names("ImageLocality")}
    )
    assert (
        with_plugins("v1beta3", multiPoint={"disabled": names("EBSLimits")}).weights["TaintToleration"] == 3
    )
