"""A real scheduler's decisions are as computed; where it decides by another configuration, that is found."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.conftest import SUMMARY
from tests.e2e import assets
from tests.e2e.agreement_scene import Object, Scene, agreement, churning, described
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landing_clusters import DISK, DISKS

pytestmark = pytest.mark.safety  # what is agreed with is what is planned with

DECISIONS = 200
LIMIT = "900s"  # it ends with that many decisions; a busy machine needs long
LEAST_SHARE = 0.995


def configured(plugins: Object) -> Object:
    """A scheduler's configuration with these plugins."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }


def followed(control_plane: ControlPlane, scene: Scene) -> Object:
    """What the command finds while a scene happens."""
    with churning(control_plane, scene) as running:
        return agreement(control_plane, running, scene, DECISIONS, LIMIT)


def test_a_real_scheduler_decides_as_computed(
    control_plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", 21)
    found = followed(control_plane, Scene(21))
    record_property(SUMMARY, f"agreement: {described(found)}")
    (control_plane.folder / "agreement.json").write_text(json.dumps(found))
    assert found["decisions"] == DECISIONS
    assert found["landed"] >= LEAST_SHARE * found["decisions"], described(found)
    assert found["inAnotherOrder"] <= 0.2 * found["decisions"]


@pytest.mark.parametrize(
    ("plugin", "weight", "nodes"),
    [
        ("PodTopologySpread", 0, 24),
        ("NodeResourcesBalancedAllocation", 9, 24),
        ("NodeResourcesBalancedAllocation", 9, 130),  # of which the scheduler compares a sample
    ],
)
def test_a_scheduler_with_another_weight_is_found_and_the_plugin_named(
    control_plane: ControlPlane,
    record_property: Callable[[str, object], None],
    plugin: str,
    weight: int,
    nodes: int,
) -> None:
    scores: Object = {"disabled": [{"name": plugin}]}
    if weight:
        scores["enabled"] = [{"name": plugin, "weight": weight}]
    configuration = configured({"score": scores})
    found = followed(control_plane, Scene(22, nodes, configuration=configuration))
    record_property(SUMMARY, f"agreement: with {plugin} {weight}, {nodes} nodes: {described(found)}")
    assert found["landed"] < LEAST_SHARE * found["decisions"]
    assert found["suspects"][0]["what"] == plugin, described(found)


def test_a_scheduler_of_another_minor_than_told_is_found_and_the_minor_named(
    control_plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    told = "1.36" if assets.MINOR != "1.36" else "1.34"  # NodeResourcesBalancedAllocation differs
    found = followed(control_plane, Scene(23, told={"version": told}))
    record_property(SUMMARY, f"agreement: told {told}: {described(found)}")
    assert found["landed"] < LEAST_SHARE * found["decisions"]
    assert assets.MINOR in found["suspects"][0]["what"], described(found)


def without(plugin: str, point: str) -> Object:
    """A scheduler's configuration in which a plugin is off at an extension point."""
    return configured({point: {"disabled": [{"name": plugin}]}})


@pytest.mark.parametrize("plugin", ["NodeAffinity", "TaintToleration"])
def test_a_filter_that_is_on_there_and_off_in_the_configuration_that_is_told_is_named(
    control_plane: ControlPlane, record_property: Callable[[str, object], None], plugin: str
) -> None:
    found = followed(control_plane, Scene(24, told={"inline": without(plugin, "filter")}))
    record_property(SUMMARY, f"agreement: told that filter {plugin} is off: {described(found)}")
    assert found["landed"] < LEAST_SHARE * found["decisions"]
    assert found["suspects"][0]["what"] == plugin, described(found)


@pytest.mark.parametrize("plugin", ["NodeAffinity"])
def test_a_filter_that_is_off_there_and_on_in_the_configuration_that_is_told_is_named(
    control_plane: ControlPlane, record_property: Callable[[str, object], None], plugin: str
) -> None:
    found = followed(control_plane, Scene(25, configuration=without(plugin, "filter")))
    record_property(SUMMARY, f"agreement: filter {plugin} is off: {described(found)}")
    assert found["landed"] < LEAST_SHARE * found["decisions"]
    assert found["suspects"][0]["what"] == plugin, described(found)


def test_a_webhook_that_edits_pods_is_found_by_what_looks_at_them(
    control_plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    found = followed(control_plane, Scene(26, edited={"nodeSelector": {DISK: DISKS[0]}}))
    record_property(SUMMARY, f"agreement: a webhook edits pods: {described(found)}")
    assert found["landed"] >= LEAST_SHARE * found["decisions"], described(found)
    assert found["edits"][0]["what"] == "NodeAffinity", described(found)
