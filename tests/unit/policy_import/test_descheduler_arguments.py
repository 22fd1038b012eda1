"""Each argument that plugins of descheduler v0.36 have is mapped, or known not to be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.errors import RebalancerError
from rebalancer.planning.strategies.misplaced import Misplaced, MisplacedSettings
from rebalancer.planning.strategies.topology_spread import TopologySpread, TopologySpreadSettings
from rebalancer.policy_import.mapping import KeyFate
from tests.rows import rows
from tests.unit.policy_import.test_descheduler_line_by_line import a_profile, imported

_SELECTOR = {"matchLabels": {"app": "web"}}
_COMMON = {"namespaces": {"exclude": ["monitoring"]}, "labelSelector": _SELECTOR}
# Source: sigs.k8s.io/descheduler v0.36.0 pkg/framework/plugins/*/types.go.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "LowNodeUtilization": {
        "useDeviationThresholds": True,
        "thresholds": {"cpu": 10},
        "targetThresholds": {"cpu": 20},
        "numberOfNodes": 3,
        "metricsUtilization": {"source": "KubernetesMetrics"},
        "evictableNamespaces": {"exclude": ["monitoring"]},
        "evictionLimits": {"node": 2},
    },
    "HighNodeUtilization": {
        "thresholds": {"cpu": 20},
        "numberOfNodes": 3,
        "evictionModes": ["OnlyThresholdingResources"],
        "evictableNamespaces": {"exclude": ["monitoring"]},
    },
    "PodLifeTime": {
        **_COMMON,
        "ownerKinds": {"exclude": ["Job"]},
        "maxPodLifeTimeSeconds": 60,
        "states": ["Running"],
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "x", "minTimeSinceLastTransitionSeconds": 5}
        ],
        "exitCodes": [1],
        "includingInitContainers": True,
        "includingEphemeralContainers": True,
    },
    "RemoveDuplicates": {"namespaces": {"exclude": ["monitoring"]}, "excludeOwnerKinds": ["StatefulSet"]},
    "RemoveFailedPods": {
        **_COMMON,
        "excludeOwnerKinds": ["Job"],
        "minPodLifetimeSeconds": 60,
        "reasons": ["Evicted"],
        "exitCodes": [1],
        "includingInitContainers": True,
    },
    "RemovePodsHavingTooManyRestarts": {
        **_COMMON,
        "podRestartThreshold": 5,
        "includingInitContainers": True,
        "states": ["CrashLoopBackOff"],
    },
    "RemovePodsViolatingInterPodAntiAffinity": _COMMON,
    "RemovePodsViolatingNodeAffinity": {
        **_COMMON,
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"],
    },
    "RemovePodsViolatingNodeTaints": {
        **_COMMON,
        "includePreferNoSchedule": True,
        "excludedTaints": ["a=b"],
        "includedTaints": ["c"],
    },
    "RemovePodsViolatingTopologySpreadConstraint": {
        **_COMMON,
        "constraints": ["ScheduleAnyway"],
        "topologyBalanceNodeFit": False,
    },
}
NOT_MAPPED = {
    "LowNodeUtilization": ["numberOfNodes"],
    "PodLifeTime": ["includingEphemeralContainers"],
    "RemovePodsViolatingTopologySpreadConstraint": ["topologyBalanceNodeFit"],
}


def dropped(plugin: str, arguments: dict[str, Any]) -> list[str]:
    point = "balance" if plugin in ("RemoveDuplicates", *NOT_MAPPED) else "deschedule"
    entry = json.dumps([{"name": plugin, "args": arguments}])
    _, found = imported(a_profile(f"{{{point}: {{enabled: [{plugin}]}}}}", entry))
    return [note.key for note in found.notes if note.fate is KeyFate.DROPPED]


@rows("plugin", ARGUMENTS)
def test_every_argument_is_mapped_or_known_not_to_be(plugin: str) -> None:
    assert dropped(plugin, ARGUMENTS[plugin]) == NOT_MAPPED.get(plugin, [])


@pytest.mark.parametrize(
    ("plugin", "argument", "nothing"),
    [
        ("PodLifeTime", "includingEphemeralContainers", False),
        ("LowNodeUtilization", "numberOfNodes", 0),
        ("HighNodeUtilization", "evictionModes", []),
    ],
)
def test_an_argument_that_does_nothing_there_is_no_difference(
    plugin: str, argument: str, nothing: Any
) -> None:
    assert argument not in dropped(plugin, {**ARGUMENTS[plugin], argument: nothing})


def test_an_argument_that_is_stated_empty_means_what_it_means_there() -> None:
    """No constraints are the default, no labels are all pods, and no source of metrics is an error."""
    entry = (
        "[{name: RemovePodsViolatingTopologySpreadConstraint, args: {constraints: [], labelSelector: {}}}, "
        "{name: LowNodeUtilization, args: {thresholds: {cpu: 1}, targetThresholds: {cpu: 9}, "
        "metricsUtilization: {}}}]"
    )
    enabled = "RemovePodsViolatingTopologySpreadConstraint, RemoveDuplicates, LowNodeUtilization"
    policy, found = imported(a_profile(f"{{balance: {{enabled: [{enabled}]}}}}", entry))

    assert TopologySpread.settings_in(policy) == TopologySpreadSettings()
    assert policy.evictable.pod_selector is None
    assert policy.hot_nodes.any == ()
    assert found.warning.endswith(": LowNodeUtilization not mapped, see the notes")


def test_a_plugin_that_empties_nodes_by_thresholds_that_cannot_be_said_here_is_left_out() -> None:
    assert dropped("HighNodeUtilization", {"thresholds": {"cpu": 20, "nvidia.com/gpu": 5}}) == []
    thresholds = {"cpu": 20, "ephemeral-storage": 5}
    assert dropped("HighNodeUtilization", {"thresholds": thresholds}) == ["HighNodeUtilization", "thresholds"]


def test_what_a_file_includes_and_excludes_at_once_leaves_a_valid_policy() -> None:
    both = {"includedTaints": ["a"], "excludedTaints": ["a"]}
    assert dropped("RemovePodsViolatingNodeTaints", both) == ["excludedTaints"]
    assert dropped("PodLifeTime", {"ownerKinds": {"include": ["Job"], "exclude": ["Job"]}}) == ["ownerKinds"]


@pytest.mark.parametrize(("stated", "included"), [("[c, a=b]", ("c", "a=b")), ("[]", ())])
def test_the_only_taints_that_count_there_are_the_only_ones_here(
    stated: str, included: tuple[str, ...]
) -> None:
    entry = f"[{{name: RemovePodsViolatingNodeTaints, args: {{includedTaints: {stated}}}}}]"
    policy, found = imported(a_profile("{deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}", entry))

    settings = Misplaced.settings_in(policy)
    assert (found.warning, isinstance(settings, MisplacedSettings)) == ("", True)
    assert getattr(settings, "included_taints", None) == included


@rows("plugin", ARGUMENTS)
@rows("wrong", [True, 7, -1, "x", [], [7], [{}], [None], {}, {"a": 1}])
def test_an_argument_of_another_form_is_a_note_or_one_line(plugin: str, wrong: Any) -> None:
    """As a number where a list of conditions belongs, and mappings where words do."""
    for argument in ARGUMENTS[plugin]:
        said = ""
        try:
            dropped(plugin, {**ARGUMENTS[plugin], argument: wrong})
        except RebalancerError as error:
            said = str(error)
        assert "\n" not in said
