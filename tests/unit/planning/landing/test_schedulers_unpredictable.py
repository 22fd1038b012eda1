"""Which pods the model cannot place: those that an extender, a DeviceClass or another admission concerns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster.malformed import Malformed
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.warnings import reuses_orders
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration, load_configuration
from rebalancer.scheduling.versions.release import FeatureGates, Release
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    Workload,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
)

GPU = "nvidia.com/gpu"


def configured(*, assume_neutral: tuple[str, ...] = (), **document: Any) -> SchedulerConfiguration:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return load_configuration(json.dumps(head | document), "test", assume_neutral=assume_neutral)


def workload_asking(
    requests: Mapping[str, str], limits: Mapping[str, str], *, init: bool = False
) -> Workload:
    workload = a_workload("web", ["hot", "hot"], cpu="3")
    for spec in (*(pod["spec"] for pod in workload.pods), workload.item["spec"]["template"]["spec"]):
        resources = {"requests": dict(requests), "limits": dict(limits)}
        if init:
            spec["initContainers"] = [{"name": "first", "image": "i", "resources": resources}]
        else:
            own = spec["containers"][0]["resources"]["requests"]
            spec["containers"][0]["resources"] = {"requests": {**own, **requests}, "limits": dict(limits)}
    return workload


def inputs_with(workload: Workload, **more: Any) -> PlanningInputs:
    nodes = [a_node(name, cpu=cpu, extra={GPU: "8"}) for name, cpu in (("hot", 7), ("cold", 100))]
    return planning_inputs(nodes, [workload], **more)


@rows(
    "managed, requests, limits, init, asked",
    [
        ([], {}, {}, False, True),
        ([GPU], {}, {}, False, False),
        ([GPU], {GPU: "1"}, {GPU: "1"}, False, True),
        (["example.com/memory", GPU], {}, {GPU: "1"}, True, True),
        ([GPU], {"example.com/other": "0"}, {}, False, False),
    ],
)
def test_an_extender_concerns_the_pods_that_ask_for_what_it_manages(
    managed: list[str], requests: dict[str, str], limits: dict[str, str], init: bool, asked: bool
) -> None:
    extender: dict[str, Any] = {"urlPrefix": "http://x/gpu", "filterVerb": "filter"}
    if managed:
        extender |= {"managedResources": [{"name": name} for name in managed]}
    inputs = inputs_with(
        workload_asking(requests, limits, init=init), configuration=configured(extenders=[extender])
    )
    plan = plan_of(inputs)

    if asked:
        assert because(plan, "web-0").startswith("extender http://x/gpu takes part in placing it, and")
    else:
        assert moved(plan) == {"web-0": "cold"}


def test_an_extender_without_an_address_is_one_whose_pods_stay() -> None:
    configuration = configured(extenders=[{"filterVerb": "filter"}])
    plan = plan_of(inputs_with(a_workload("web", ["hot", "hot"], cpu="3"), configuration=configuration))

    assert because(plan, "web-0").startswith("extender without a urlPrefix takes part in placing it, and")


def a_device_class(name: str, resource: str | None) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}


@rows(
    "version, classes, served",
    [
        ("1.35", [a_device_class("gpus", GPU)], False),
        ("1.36", [], False),
        ("1.36", [a_device_class("gpus", None), a_device_class("nics", "example.com/nic")], False),
        ("1.36", [a_device_class("gpus", GPU)], True),
        ("1.37", [a_device_class("gpus", GPU)], True),
        ("1.37", [], False),
    ],
)
def test_extended_resources_are_left_to_the_device_classes_that_name_them(
    version: str, classes: list[dict[str, Any]], served: bool
) -> None:
    inputs = inputs_with(workload_asking({GPU: "1"}, {GPU: "1"}), deviceclasses=classes)
    plan = plan_of(with_scheduler(inputs, version=version))

    if served:
        assert kept(plan) == {"web-0": "Unpredictable", "web-1": "Unpredictable"}
        assert f"(DeviceClass gpus serves {GPU})" in because(plan, "web-0")
    else:
        assert moved(plan) == {"web-0": "cold"}


def test_without_device_classes_read_only_pods_with_extended_resources_stay() -> None:
    plain, gpu = workload_asking({}, {}), workload_asking({GPU: "1"}, {GPU: "1"})
    plans = [
        plan_of(with_scheduler(inputs_with(workload, unread=["deviceclasses"]), version="1.36"))
        for workload in (plain, gpu)
    ]

    assert moved(plans[0]) == {"web-0": "cold"}
    assert "deviceclasses were not read: one of them may serve nvidia.com/gpu" in because(plans[1], "web-0")


def test_a_device_class_that_cannot_be_read_may_serve_anything() -> None:
    inputs = inputs_with(workload_asking({GPU: "1"}, {GPU: "1"}))
    recording = inputs.snapshot.recording
    listing = replace(
        recording.listings["deviceclasses"], malformed=(Malformed("DeviceClass", "", "gpus", "", "odd"),)
    )
    listings = {**recording.listings, "deviceclasses": listing}
    recording = replace(recording, listings=listings)
    snapshot = replace(inputs.snapshot, recording=recording)
    plan = plan_of(with_scheduler(replace(inputs, snapshot=snapshot), version="1.36"))

    assert kept(plan) == {"web-0": "Unpredictable", "web-1": "Unpredictable"}


def test_the_replacement_of_a_pod_that_kueue_admitted_waits_at_its_gate() -> None:
    workload = a_workload("web", ["hot", "hot"], cpu="3", labels={"kueue.x-k8s.io/managed": "true"})

    assert "Kueue admitted it" in because(plan_of(inputs_with(workload)), "web-0")


def permitting(plugin: str, *, assume_neutral: tuple[str, ...] = ()) -> SchedulerConfiguration:
    profile: dict[str, Any] = {"plugins": {"permit": {"enabled": [{"name": plugin}]}}}
    if plugin == "Coscheduling":
        profile["plugins"]["multiPoint"] = profile["plugins"].pop("permit")
        profile["plugins"]["queueSort"] = {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}
        profile["pluginConfig"] = [{"name": plugin, "args": {"permitWaitingTimeSeconds": 10}}]
    return configured(profiles=[profile], assume_neutral=assume_neutral)


@pytest.mark.parametrize("plugin", ["Coscheduling", "GangScheduling"])
def test_beside_a_plugin_of_gangs_only_pods_of_a_group_stay(plugin: str) -> None:
    label = {"scheduling.x-k8s.io/pod-group": "training"}
    alone, grouped = (
        plan_of(
            inputs_with(
                a_workload("web", ["hot", "hot"], cpu="3", labels=labels), configuration=permitting(plugin)
            )
        )
        for labels in ({}, label)
    )

    assert (moved(alone), alone.warnings) == ({"web-0": "cold"}, ())
    assert because(grouped, "web-0").startswith("it belongs to pod group training")


@rows(
    "named",
    [
        {"labels": {"scheduling.x-k8s.io/pod-group": "training"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "training"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "training"}},
        {"annotations": {"gang.scheduling.koordinator.sh/name": "training"}},
    ],
)
def test_a_pod_group_is_one_whatever_its_scheduler_is_known_to_run(named: dict[str, Any]) -> None:
    plan = plan_of(inputs_with(a_workload("web", ["hot", "hot"], cpu="3", **named)))

    assert kept(plan) == {"web-0": "Unpredictable", "web-1": "Unpredictable"}
    assert "training, whose pods are placed together" in because(plan, "web-0")


def test_coscheduling_of_koordinator_acts_after_binding_too() -> None:
    by_point = {point: {"enabled": [{"name": "Coscheduling"}]} for point in ("permit", "postBind")}
    workload = a_workload("web", ["hot", "hot"], cpu="3")
    plan = plan_of(inputs_with(workload, configuration=configured(profiles=[{"plugins": by_point}])))

    assert (moved(plan), plan.warnings) == ({"web-0": "cold"}, ())


def test_plugins_of_pod_groups_and_of_resizes_are_nothing_to_other_pods() -> None:
    named = ("TopologyPlacementGenerator", "PodGroupPodsCount", "DeferredPodScheduling", "GangScheduling")
    sets = {
        "multiPoint": {"enabled": [{"name": name} for name in named]},
        "placementGenerate": {"enabled": [{"name": named[0]}]},
        "placementFeasible": {"enabled": [{"name": "GangScheduling"}]},
        "rankNodes": {"disabled": [{"name": "DefaultPreemption"}]},
        "placementScore": {"enabled": [{"name": named[1], "weight": 2}]},
        "podGroupPostFilter": {"disabled": [{"name": "*"}]},
    }
    workload = a_workload("web", ["hot", "hot"], cpu="3")
    profile = {"percentageOfPlacementsToScore": 30, "plugins": sets}
    configuration = configured(profiles=[profile], percentageOfPlacementsToScore=10)
    plan = plan_of(inputs_with(workload, configuration=configuration))
    grouped = a_workload(
        "web", ["hot", "hot"], cpu="3", spec={"schedulingGroup": {"podGroupName": "training"}}
    )
    plan_of_a_group = plan_of(inputs_with(grouped, configuration=configuration))

    assert (moved(plan), plan.warnings) == ({"web-0": "cold"}, ())
    assert "it belongs to a pod group" in because(plan_of_a_group, "web-0")


def test_a_plugin_that_may_hold_back_any_pod_keeps_all_that_its_profile_places() -> None:
    configuration = permitting("Quorum", assume_neutral=("Quorum",))
    plan = plan_of(inputs_with(a_workload("web", ["hot", "hot"], cpu="3"), configuration=configuration))

    assert because(plan, "web-0") == "plugin Quorum may hold it back (permit)"


LIST = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
ZONES = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


@rows(
    "version, profile, gates, live",
    [
        ("1.35", {}, {}, False),
        ("1.34", {"pluginConfig": [LIST]}, {}, False),
        ("1.35", {"pluginConfig": [LIST]}, {}, True),
        ("1.36", {"pluginConfig": [LIST]}, {"OpportunisticBatching": False}, False),
        (
            "1.36",
            {"pluginConfig": [{**LIST, "args": {"defaultingType": "List", "defaultConstraints": [ZONES]}}]},
            {},
            False,
        ),
        ("1.36", {"plugins": {"multiPoint": {"disabled": [{"name": "PodTopologySpread"}]}}}, {}, True),
        (
            "1.36",
            {"pluginConfig": [LIST], "plugins": {"multiPoint": {"enabled": [{"name": "TargetLoadPacking"}]}}},
            {},
            False,
        ),
    ],
)
def test_opportunistic_batching_is_live_where_no_plugin_prevents_it(
    version: str, profile: dict[str, Any], gates: dict[str, bool], live: bool
) -> None:
    configuration = configured(profiles=[profile]) if profile else default_configuration()

    assert reuses_orders(configuration.profiles[0], Release.of(version, FeatureGates(gates))) is live
