from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.profiles import (
    CATALOGUE,
    ExtensionPoint,
    Input,
    PluginDescription,
    Profile,
    SchedulerConfiguration,
    default_configuration,
    load_configuration,
)
from rebalancer.profiles.arguments import (
    InterPodAffinityArguments,
    NodeAffinityArguments,
    NodeResourcesFitArguments,
    PodTopologySpreadArguments,
    RawArguments,
    ScoringStrategyType,
)
from rebalancer.profiles.defaults import DEFAULTS
from rebalancer.profiles.load_arguments import (
    LoadVariationRiskBalancingArguments,
    LowRiskOverCommitmentArguments,
    NetworkTrafficArguments,
    PeaksArguments,
    TargetLoadPackingArguments,
)

SCORE = ExtensionPoint.SCORE
V1_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}

K3S_TRIMARAN = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
- schedulerName: trimaran
  plugins:
    score:
      enabled:
      - name: TargetLoadPacking
      disabled:
      - name: NodeResourcesBalancedAllocation
      - name: NodeResourcesLeastAllocated
  pluginConfig:
  - name: TargetLoadPacking
    args:
      watcherAddress: http://load-watcher.loadwatcher.svc.cluster.local:2020
"""

POD_CAPACITY = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: scheduler-plugins-scheduler
  plugins:
    score:
      enabled:
      - name: PodCapacityOfNode
"""

NETWORK_TRAFFIC = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /mnt/d/src/go_work/customScheduler/scheduler.conf
profiles:
- schedulerName: custom-scheduler
  plugins:
    score:
      enabled:
      - name: "NetworkTraffic"
      disabled:
      - name: "*"
  pluginConfig:
    - name: "NetworkTraffic"
      args:
        ip: "http://10.0.0.4:9090"
        deviceName: "eth0"
        timeRange: 60
"""


def text_of(*profiles: dict[str, Any], version: str = "v1", **more: Any) -> str:
    return json.dumps(
        {
            "apiVersion": f"kubescheduler.config.k8s.io/{version}",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
            **more,
        }
    )


def configured(*profiles: dict[str, Any], **options: Any) -> SchedulerConfiguration:
    return load_configuration(text_of(*profiles), "c.json", **options)


def with_plugins(version: str = "v1", **sets: Any) -> Profile:
    return load_configuration(text_of({"plugins": sets}, version=version), "c.json").profiles[0]


def with_args(name: str, args: Any, *, enable: bool = False) -> Any:
    plugins = {"score": {"enabled": [{"name": name}]}} if enable else {}
    profile = {"plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}
    return configured(profile).profiles[0].arguments[name]


def refusal(*profiles: dict[str, Any], **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_configuration(text_of(*profiles, **more), "c.json")
    return str(caught.value)


def plugins_refusal(version: str = "v1", **sets: Any) -> str:
    return refusal({"plugins": sets}, version=version)


def names(*listed: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in listed]


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
    assert Input.WATCHER in configuration.inputs
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
        "PodCapacityOfNode": 1,
    }


def test_network_traffic_is_the_only_score_of_its_scheduler() -> None:
    configuration = load_configuration(NETWORK_TRAFFIC, "c.yaml")
    profile = configuration.profiles[0]
    assert dict(profile.weights) == {"NetworkTraffic": 1}
    assert profile.argument("NetworkTraffic") == NetworkTrafficArguments(
        ip="http://10.0.0.4:9090", device_name="eth0", time_range_minutes=60
    )
    assert Input.PROMETHEUS in configuration.inputs


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


@pytest.mark.parametrize("version", list(DEFAULTS))
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
    assert "v1beta2 has no multiPoint" in plugins_refusal(
        "v1beta2", multiPoint={"enabled": names("ImageLocality")}
    )
    assert (
        with_plugins("v1beta3", multiPoint={"disabled": names("EBSLimits")}).weights["TaintToleration"] == 3
    )


def test_an_unknown_enabled_plugin_says_which_where_and_how_to_supply_it() -> None:
    text = K3S_TRIMARAN.replace("enabled:\n      - name: TargetLoadPacking", "enabled:\n      - name: Xyzzy")
    with pytest.raises(InputError) as caught:
        load_configuration(text, "scheduler-config.yaml")
    assert str(caught.value) == (
        "scheduler-config.yaml:11:15 profiles[1].plugins.score.enabled[0].name: unknown plugin Xyzzy "
        "(describe it through an entry point, or accept it as neutral with --assume-neutral Xyzzy)"
    )


def test_a_misspelt_plugin_is_suggested() -> None:
    assert "did you mean TargetLoadPacking?" in plugins_refusal(score={"enabled": names("TargetLoadPaking")})


def test_a_plugin_of_an_older_version_is_named_as_such() -> None:
    message = plugins_refusal(score={"enabled": names("NodeResourcesLeastAllocated")})
    assert "unknown to v1; it exists in v1beta1" in message


def test_a_plugin_assumed_neutral_is_accepted_and_recorded() -> None:
    sets = {"score": {"enabled": [{"name": "Mine", "weight": 3}]}, "permit": {"enabled": names("Gang")}}
    profile = {"plugins": sets, "pluginConfig": [{"name": "Mine", "args": {"a": 1}}]}
    configuration = configured(profile, assume_neutral=["Mine", "Gang", "Unused"])
    assert configuration.assumed_neutral == ("Gang", "Mine")
    assert configuration.profiles[0].weights["Mine"] == 3
    assert configuration.profiles[0].enabled(ExtensionPoint.PERMIT) == ("Gang",)
    assert configuration.profiles[0].argument("Mine") == RawArguments(values={"a": 1})
    assert any("Mine" in warning for warning in configuration.warnings)


def test_a_third_party_plugin_can_be_described() -> None:
    mine = PluginDescription("Mine", frozenset((SCORE,)), NodeAffinityArguments, frozenset((Input.SERVICES,)))
    profile = {"plugins": {"multiPoint": {"enabled": names("Mine")}}}
    configuration = configured(profile, extra_plugins=[mine])
    assert configuration.profiles[0].enabled(SCORE)[-1] == "Mine"
    assert configuration.profiles[0].argument("Mine") == NodeAffinityArguments()
    assert configuration.assumed_neutral == ()


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (
            {"filter": {"enabled": names("ImageLocality")}},
            "ImageLocality does not implement filter (it implements score)",
        ),
        (
            {"score": {"enabled": names("ImageLocality", "ImageLocality")}},
            "enabled[1].name: plugin ImageLocality is",
        ),
        ({"multiPoint": {"enabled": names("Peaks", "Peaks")}}, "plugin Peaks is enabled twice at multiPoint"),
        ({"bind": {"disabled": names("*")}}, "a bind plugin must be enabled"),
        ({"queueSort": {"disabled": names("*")}}, "exactly one queueSort plugin must be enabled, not none"),
        ({"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}, "weight: should be greater than"),
        ({"score": {"enabled": [{"name": "ImageLocality", "weight": 2**31}]}}, "weight: should be less than"),
        ({"score": {"enabled": names("*")}}, 'only disabled may list "*"'),
        ({"scores": {}}, "profiles[0].plugins.scores: unknown field (did you mean score?)"),
        ({"score": {"enable": []}}, "plugins.score.enable: unknown field (did you mean enabled?)"),
        ({"score": {"enabled": [{"weight": 1}]}}, "enabled[0].name: is required"),
    ],
)
def test_plugin_sets_the_scheduler_would_not_start_with_are_refused(
    sets: dict[str, Any], message: str
) -> None:
    assert message in plugins_refusal(**sets)


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        (
            [{"schedulerName": "a"}, {"schedulerName": "a"}],
            "profiles[1].schedulerName: schedulerName a is already taken",
        ),
        ([{"schedulerName": "a"}, {}], "profiles[1]: schedulerName is required"),
        (
            [{"percentageOfNodesToScore": 101}],
            "percentageOfNodesToScore: should be less than or equal to 100",
        ),
        (
            [{"pluginConfig": [{"name": "NodeName"}, {"name": "NodeName"}]}],
            "pluginConfig[1].name: NodeName is configured",
        ),
        ([{"pluginConfig": [{"name": "NodeName", "args": {"a": 1}}]}], "NodeName takes no arguments"),
        ([{"plugin": {}}], "profiles[0].plugin: unknown field (did you mean plugins?)"),
        ([{"plugins": {"score": {"enabled": names("NetworkTraffic")}}}], "ip: is required"),
    ],
)
def test_profiles_the_scheduler_would_not_start_with_are_refused(profiles: list[Any], message: str) -> None:
    assert message in refusal(*profiles)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a KubeSchedulerConfiguration"),
        (
            "kind: ConfigMap\n",
            "c:1:7 kind: should be KubeSchedulerConfiguration, not ConfigMap (give the text",
        ),
        (text_of(version="v1alpha1"), "kubescheduler.config.k8s.io/v1alpha1 is not a version we read"),
        (text_of(version="v2"), "did you mean kubescheduler.config.k8s.io/v1?"),
        (text_of(parallelism=0), "parallelism: should be greater than or equal to 1"),
        (text_of(percentageOfNodesToScore=-1), "percentageOfNodesToScore: "),
        (text_of(leaderElect=True), "leaderElect: unknown field (did you mean leaderElection?)"),
        (
            text_of(extenders=[{"urlPrefix": "x", "wieght": 1}]),
            "extenders[0].wieght: unknown field (did you mean weight?)",
        ),
    ],
)
def test_other_documents_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_configuration(text, "c")
    assert message in str(caught.value)


def test_nulls_are_absent_fields() -> None:
    text = text_of(
        {"schedulerName": "a", "plugins": None, "pluginConfig": None}, extenders=None, parallelism=None
    )
    assert dict(load_configuration(text, "c").profiles[0].weights) == V1_WEIGHTS


def test_extenders_are_kept() -> None:
    extender: dict[str, Any] = {
        "urlPrefix": "http://e",
        "filterVerb": "filter",
        "enableHTTPS": False,
        "httpTimeout": "1s",
    }
    extender |= {"managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}], "weight": 3}
    (found,) = load_configuration(text_of(extenders=[extender]), "c").extenders
    assert (found.url_prefix, found.filter_verb, found.weight) == ("http://e", "filter", 3)
    assert found.managed_resources[0].ignored_by_scheduler


def test_the_profile_percentage_is_kept_apart_from_the_global_one() -> None:
    configuration = load_configuration(
        text_of({"percentageOfNodesToScore": 30}, percentageOfNodesToScore=50), "c"
    )
    assert configuration.profiles[0].percentage_of_nodes_to_score == 30
    assert configuration.percentage_of_nodes_to_score == 50


def test_arguments_are_defaulted_field_by_field() -> None:
    fit = with_args("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}})
    assert isinstance(fit, NodeResourcesFitArguments)
    assert fit.strategy is ScoringStrategyType.MOST_ALLOCATED
    assert [(resource.name, resource.weight) for resource in fit.resources] == [("cpu", 1), ("memory", 1)]
    assert with_args("NodeResourcesFit", {}) == NodeResourcesFitArguments()
    assert with_args("InterPodAffinity", {}) == InterPodAffinityArguments(hard_pod_affinity_weight=1)
    assert default_configuration().profiles[0].argument("PodTopologySpread") == PodTopologySpreadArguments()


def test_a_resource_weight_of_zero_means_one_and_an_empty_list_the_default() -> None:
    resources = [{"name": "cpu", "weight": 0}, {"name": "nvidia.com/gpu", "weight": 5}]
    fit = with_args(
        "NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
    )
    assert [resource.weight for resource in fit.resources] == [1, 5]
    balanced = with_args("NodeResourcesBalancedAllocation", {"resources": []})
    assert [resource.name for resource in balanced.resources] == ["cpu", "memory"]


def test_requested_to_capacity_ratio_keeps_its_shape() -> None:
    ratio = {"shape": [{"utilization": 50, "score": 10}, {"utilization": 80, "score": 2}]}
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": ratio}
    fit = with_args(
        "NodeResourcesFit", {"scoringStrategy": strategy, "ignoredResources": ["example.com/foo"]}
    )
    assert [(point.utilization, point.score) for point in fit.shape] == [(50, 10), (80, 2)]
    assert fit.ignored_resources == ("example.com/foo",)


def test_added_affinity_and_default_constraints_are_kept() -> None:
    affinity: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    assert with_args("NodeAffinity", {"addedAffinity": affinity}).added_affinity == affinity
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = with_args("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [constraint]})
    assert spread.default_constraints[0].topology_key == "zone"
    assert with_args("PodTopologySpread", {"defaultingType": "List"}).default_constraints == ()


def test_arguments_may_state_their_type() -> None:
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "TargetLoadPackingArgs",
        "defaultRequests": {"cpu": "500m"},
        "defaultRequestsMultiplier": "1.25",
        "targetUtilization": 60,
        "watcherAddress": "http://127.0.0.1:9321/x",
    }
    found = with_args("TargetLoadPacking", args, enable=True)
    assert found.default_requests_cpu_milli == 500
    assert (found.default_requests_multiplier, found.target_utilization) == (1.25, 60)


def test_trimaran_replaces_silently_what_it_does_not_accept() -> None:
    assert with_args("TargetLoadPacking", {"targetUtilization": -5}).target_utilization == 40
    assert with_args("TargetLoadPacking", {"defaultRequests": {}}).default_requests_cpu_milli == 0
    assert with_args("TargetLoadPacking", {"defaultRequests": {"cpu": 2}}).default_requests_cpu_milli == 2000
    variation = with_args(
        "LoadVariationRiskBalancing", {"safeVarianceMargin": -1, "safeVarianceSensitivity": 0}
    )
    assert variation == LoadVariationRiskBalancingArguments(
        safe_variance_margin=1, safe_variance_sensitivity=0
    )
    risk = with_args("LowRiskOverCommitment", {"smoothingWindowSize": 0, "riskLimitWeights": {"cpu": 2}})
    assert isinstance(risk, LowRiskOverCommitmentArguments)
    assert risk.smoothing_window_size == 5
    assert risk.risk_limit_weights == {"cpu": 0.5, "memory": 0.5}


def test_peaks_has_keys_with_capitals() -> None:
    args = {"WatcherAddress": "http://w", "NodePowerModel": {"n": {"k1": 2.5, "k2": 1}}}
    peaks = with_args("Peaks", args)
    assert isinstance(peaks, PeaksArguments)
    assert peaks.node_power_model["n"].k1 == 2.5


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("NodeResourcesFit", {"scoringStrategy": {}}, "args.scoringStrategy.type: is required"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "LeastAlocated"}}, "did you mean LeastAllocated?"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "needs requestedToCapacity",
        ),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "a/b must be a group"),
        (
            "NodeResourcesFit",
            {"ignoredResource": []},
            "args.ignoredResource: unknown field (did you mean ignoredR",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "must be 1, not 2",
        ),
        ("NodeResourcesBalancedAllocation", {"resources": names("cpu", "cpu")}, "lists cpu twice"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "less than or equal to 100, not 101"),
        ("NodeAffinity", {"addedAffinity": {"required": {}}}, "addedAffinity: unknown field required"),
        ("TargetLoadPacking", {"defaultRequests": {"cpu": "1 core"}}, "is not a Kubernetes quantity"),
        ("TargetLoadPacking", {"defaultRequestsMultiplier": 1.5}, 'must be text; write "1.5"'),
        ("TargetLoadPacking", {"defaultRequestsMultiplier": "much"}, "'much' is not a number"),
        ("TargetLoadPacking", {"kind": "PeaksArgs"}, "args.kind: should be TargetLoadPackingArgs"),
        (
            "TargetLoadPacking",
            {"apiVersion": "v1"},
            "args.apiVersion: should be of kubescheduler.config.k8s.io",
        ),
        (
            "NetworkTraffic",
            {"ip": "x", "deviceName": "eth0", "timeRange": "60"},
            "args.timeRange: should be a valid",
        ),
    ],
)
def test_bad_arguments_are_refused_where_they_stand(name: str, args: dict[str, Any], message: str) -> None:
    found = refusal({"pluginConfig": [{"name": name, "args": args}]})
    assert "profiles[0].pluginConfig[0].args" in found
    assert message in found


@pytest.mark.parametrize(
    "shape",
    [[], [(50, 1), (50, 2)], [(60, 1), (50, 2)], [(101, 1)], [(-1, 1)], [(50, 11)], [(50, -1)]],
)
def test_bad_shapes_are_refused(shape: list[tuple[int, int]]) -> None:
    points = [{"utilization": utilization, "score": score} for utilization, score in shape]
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}}
    found = refusal({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]})
    assert "scoringStrategy.requestedToCapacityRatio" in found


@pytest.mark.parametrize(
    "change",
    [
        {"defaultingType": "System"},
        {
            "defaultConstraints": [
                {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
            ]
        },
        {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Never"}]},
        {
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
            ]
        },
        {
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]
            * 2
        },
    ],
)
def test_bad_default_constraints_are_refused(change: dict[str, Any]) -> None:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    args = {"defaultingType": "List", "defaultConstraints": [good], **change}
    assert "pluginConfig[0].args" in refusal({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]})


def test_target_load_packings_process_globals_are_those_of_the_last_profile() -> None:
    def profile(name: str, target: int) -> dict[str, Any]:
        args = {"targetUtilization": target, "watcherAddress": f"http://{name}"}
        return {
            "schedulerName": name,
            "plugins": {"score": {"enabled": names("TargetLoadPacking")}},
            "pluginConfig": [{"name": "TargetLoadPacking", "args": args}],
        }

    configuration = configured(profile("a", 30), profile("b", 60))
    first = configuration.profiles[0].argument("TargetLoadPacking")
    assert isinstance(first, TargetLoadPackingArguments)
    assert (first.target_utilization, first.watcher_address) == (60, "http://a")
    assert any("those of the last profile hold for all" in warning for warning in configuration.warnings)


def test_two_load_watchers_in_one_scheduler_are_warned_of() -> None:
    sets = {"score": {"enabled": names("TargetLoadPacking", "Peaks")}}
    (warning,) = configured({"plugins": sets}).warnings
    assert "panics with more than one" in warning
