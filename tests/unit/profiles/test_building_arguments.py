from __future__ import annotations

from typing import Any

import pytest

from rebalancer.scheduling.plugins.inter_pod_affinity import InterPodAffinityArguments
from rebalancer.scheduling.plugins.node_resources.fit import NodeResourcesFitArguments, ScoringStrategyType
from rebalancer.scheduling.plugins.pod_topology_spread import PodTopologySpreadArguments
from rebalancer.scheduling.plugins.trimaran.load_variation_risk_balancing import (
    LoadVariationRiskBalancingArguments,
)
from rebalancer.scheduling.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitmentArguments
from rebalancer.scheduling.plugins.trimaran.peaks import PeaksArguments
from rebalancer.scheduling.plugins.trimaran.target_load_packing import TargetLoadPackingArguments
from rebalancer.scheduling.registry import default_configuration
from tests.rows import rows
from tests.unit.profiles.builders import configured, names, refusal, with_args


def test_arguments_are_defaulted_field_by_field() -> None:
    fit = with_args("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}})
    assert isinstance(fit, NodeResourcesFitArguments)
    assert fit.scoring_strategy.type is ScoringStrategyType.MOST_ALLOCATED
    resources = [(resource.name, resource.weight) for resource in fit.scoring_strategy.resources]
    assert resources == [("cpu", 1), ("memory", 1)]
    assert with_args("NodeResourcesFit", {}) == NodeResourcesFitArguments()
    assert with_args("InterPodAffinity", {}) == InterPodAffinityArguments(hard_pod_affinity_weight=1)
    assert default_configuration().profiles[0].argument("PodTopologySpread") == PodTopologySpreadArguments()


def test_a_resource_weight_of_zero_means_one_and_an_empty_list_the_default() -> None:
    resources = [{"name": "cpu", "weight": 0}, {"name": "nvidia.com/gpu", "weight": 5}]
    fit = with_args(
        "NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
    )
    assert [resource.weight for resource in fit.scoring_strategy.resources] == [1, 5]
    balanced = with_args("NodeResourcesBalancedAllocation", {"resources": []})
    assert [resource.name for resource in balanced.resources] == ["cpu", "memory"]


def test_requested_to_capacity_ratio_keeps_its_shape() -> None:
    ratio = {"shape": [{"utilization": 50, "score": 10}, {"utilization": 80, "score": 2}]}
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": ratio}
    fit = with_args(
        "NodeResourcesFit", {"scoringStrategy": strategy, "ignoredResources": ["example.com/foo"]}
    )
    assert [
        (point.utilization, point.score) for point in fit.scoring_strategy.requested_to_capacity_ratio.shape
    ] == [(50, 10), (80, 2)]
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


def test_what_is_left_out_of_a_shape_is_0_and_no_defaulting_type_is_system() -> None:
    shape = [{"score": 10}, {"utilization": 100}]
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}
    fit = with_args("NodeResourcesFit", {"scoringStrategy": strategy})
    assert isinstance(fit, NodeResourcesFitArguments)
    ratio = fit.scoring_strategy.requested_to_capacity_ratio
    assert ratio is not None
    assert [(point.utilization, point.score) for point in ratio.shape] == [(0, 10), (100, 0)]
    assert with_args("PodTopologySpread", {"defaultingType": ""}).defaulting_type == "System"


def test_peaks_has_keys_with_capitals() -> None:
    args = {"WatcherAddress": "http://w", "NodePowerModel": {"n": {"k1": 2.5, "k2": 1}}}
    peaks = with_args("Peaks", args)
    assert isinstance(peaks, PeaksArguments)
    assert peaks.node_power_model["n"].k1 == 2.5


@rows(
    "name, args, message",
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
            "TargetLoadPacking",
            {"apiVersion": "kubescheduler.config.k8s.io/v2"},
            "args.apiVersion: v2 is not a version of it (write kubescheduler.config.k8s.io/v1)",
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
    ("name", "version", "warns"),
    [
        ("NodeResourcesFit", "v1", False),
        ("NodeResourcesFit", "v1beta3", True),
        ("ImageLocality", "v1beta3", False),  # no arguments are registered for it, so none are decoded
    ],
)
def test_arguments_of_another_version_than_the_configuration_are_a_warning(
    name: str, version: str, warns: bool
) -> None:
    args = {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": f"{name}Args"}
    warnings = configured({"pluginConfig": [{"name": name, "args": args}]}).warnings
    assert [f"arguments of {version} in a configuration of v1" in text for text in warnings] == [True] * warns


@rows(
    "shape",
    [[], [(50, 1), (50, 2)], [(60, 1), (50, 2)], [(101, 1)], [(-1, 1)], [(50, 11)], [(50, -1)]],
)
def test_bad_shapes_are_refused(shape: list[tuple[int, int]]) -> None:
    points = [{"utilization": utilization, "score": score} for utilization, score in shape]
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}}
    found = refusal({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]})
    assert "scoringStrategy.requestedToCapacityRatio" in found


@rows(
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
