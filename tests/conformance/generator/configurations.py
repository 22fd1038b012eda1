"""Scheduler configurations: plugins off or weighted anew, and every argument that changes a number."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.conformance.generator import constraints
from tests.conformance.generator.draws import GPU, HOSTNAME, ZONE, Draws, Object, without_empty

SCORES = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "PodTopologySpread",
    "InterPodAffinity",
    "ImageLocality",
)
FILTERS = (
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "InterPodAffinity",
)
NEEDED = ("PrioritySort", "DefaultBinder")  # without which no scheduler starts
TRIMARAN = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")
_ALLOCATABLE = "NodeResourcesAllocatable"
WATCHER = "http://127.0.0.1:9321/watched"


def _resources(draws: Draws, weighted: bool) -> list[Object]:
    names = draws.some(("cpu", "memory", "ephemeral-storage", GPU, "pods"), 4, 1)
    return [{"name": name, "weight": draws.one((1, 2, 100), 3) if weighted else 1} for name in names]


def _allocatable(draws: Draws) -> Object:
    names = draws.some(("cpu", "memory", "ephemeral-storage", GPU, "pods"), 3, 1)
    resources = [{"name": name, "weight": draws.one((1, 1 << 20, 7))} for name in names]
    return without_empty(
        {"mode": draws.one(("Least", "Most", "")), "resources": resources if draws.chance(0.6) else []}
    )


def _shape(draws: Draws) -> list[Object]:
    """Points of a function; a 0 is written or left out."""
    steps = sorted({0, 100, *(draws.number(1, 99) for _ in range(draws.few(3)))})
    points = [{"utilization": step, "score": draws.number(0, 10)} for step in steps]
    if draws.chance(0.2):
        return [{key: value for key, value in point.items() if value} for point in points]
    return points


def _fit(draws: Draws) -> Object:
    kind = draws.one(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Object = {"type": kind, "resources": _resources(draws, weighted=True)}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": _shape(draws)}
    arguments: Object = {"scoringStrategy": strategy}
    if draws.chance(0.15):
        arguments["ignoredResources"] = [GPU]
    if draws.chance(0.1):
        arguments["ignoredResourceGroups"] = ["nvidia.com"]
    return arguments


def _default_constraints(draws: Draws) -> Object:
    if draws.chance(0.1):
        return {"defaultingType": ""}
    kinds = draws.some(("ScheduleAnyway", "DoNotSchedule"), 2, 1) if draws.chance(0.8) else []
    constraints = [
        without_empty(
            {
                "maxSkew": draws.number(1, 3),
                "topologyKey": draws.one((ZONE, HOSTNAME, "disk", "missing"), 4, 2, 2),
                "whenUnsatisfiable": kind,
                "minDomains": draws.one((None, 1, 4), 5) if kind == "DoNotSchedule" else None,
                "nodeAffinityPolicy": draws.one((None, "Honor", "Ignore"), 5),
                "nodeTaintsPolicy": draws.one((None, "Honor", "Ignore"), 5),
            }
        )
        for kind in kinds
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}


def _trimaran_arguments(draws: Draws, plugin: str) -> Object:
    if plugin == "TargetLoadPacking":
        return {
            "watcherAddress": WATCHER,
            "targetUtilization": draws.one((40, 1, 100, 70), 2),
            "defaultRequests": {"cpu": draws.one(("1000m", "0", "250m"))},
            "defaultRequestsMultiplier": draws.one(("1.5", "1", "2.25")),
        }
    if plugin == "LoadVariationRiskBalancing":
        return {
            "watcherAddress": WATCHER,
            "safeVarianceMargin": draws.one((1, 0, 2.5)),
            "safeVarianceSensitivity": draws.one((1, 0, 2)),
        }
    if plugin == "Peaks":
        return {"WatcherAddress": WATCHER, "NodePowerModel": _power_models(draws)}
    return {
        "watcherAddress": WATCHER,
        "smoothingWindowSize": draws.one((5, 1, 20)),
        "riskLimitWeights": {"cpu": draws.one((0.5, 0, 1)), "memory": draws.one((0.5, 0.25, 1))},
    }


def _power_models(draws: Draws) -> Object:
    """Models of some nodes, by their names; the others have none."""
    return {
        f"node-{index:02}": {
            "k0": draws.one((0, 400.5)),
            "k1": draws.one((-90.25, 0, 120)),
            "k2": draws.one((-0.07, 0, 0.02)),
        }
        for index in range(12)
        if draws.chance(0.8)
    }


def _plugin_arguments(draws: Draws, emphasis: frozenset[str]) -> dict[str, Object]:
    arguments: dict[str, Object] = {}
    changed = "config" in emphasis
    if draws.chance(0.6 if changed else 0.1):
        arguments["NodeResourcesFit"] = _fit(draws)
    if draws.chance(0.5 if changed else 0.1):
        arguments["NodeResourcesBalancedAllocation"] = {"resources": _resources(draws, weighted=False)}
    if draws.chance(0.4 if changed or "interpod" in emphasis else 0.05):
        arguments["InterPodAffinity"] = {
            "hardPodAffinityWeight": draws.one((0, 1, 100, 37)),
            "ignorePreferredTermsOfExistingPods": draws.chance(0.5),
        }
    if draws.chance(0.3 if changed or "spread" in emphasis else 0.05):
        arguments["PodTopologySpread"] = _default_constraints(draws)
    if draws.chance(0.25 if changed or "nodeaffinity" in emphasis else 0.02):
        added = constraints.node_affinity(draws, valid=True)
        if "profiles" in emphasis and draws.chance(0.2):
            _spoil(draws, added)
        arguments["NodeAffinity"] = {"addedAffinity": added}
    return arguments


def _spoil(draws: Draws, affinity: Object) -> None:
    """Add a term that does not parse: the scheduler refuses to start, unless nothing looks at the term."""
    wrong = draws.one(
        (
            {"key": "gen", "operator": "Gt", "values": ["x"]},
            {"key": "disk", "operator": "In"},
            {"key": "disk", "operator": "Near", "values": ["ssd"]},
            {"key": "-disk", "operator": "Exists"},
        )
    )
    preferred = affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    preferred.append({"weight": draws.one((0, 5), 1, 3), "preference": {"matchExpressions": [wrong]}})


def _score_plugins(draws: Draws, emphasis: frozenset[str]) -> Object:
    changed = "config" in emphasis
    disabled = draws.some(SCORES, 3, 1) if draws.chance(0.4 if changed else 0.05) else []
    if disabled and draws.chance(0.15):
        disabled = ["*"]
    enabled = draws.some(SCORES, 2, 1) if draws.chance(0.5 if changed else 0.05) else []
    if disabled != ["*"]:
        disabled = sorted({*disabled, *enabled})
    return without_empty(
        {
            "disabled": [{"name": name} for name in disabled],
            "enabled": [{"name": name, "weight": draws.number(1, 7)} for name in enabled],
        }
    )


def _some_disabled(draws: Draws, names: Sequence[str], probability: float) -> Object:
    """A plugin set that disables one or two of these."""
    disabled = draws.some(names, 2, 1) if draws.chance(probability) else []
    return without_empty({"disabled": [{"name": name} for name in disabled]})


def _multi_point(draws: Draws, probability: float) -> Object:
    """Plugins off, or weighted anew, at every extension point; what a point itself says counts more."""
    if draws.chance(0.3 * probability):  # nothing by default
        names = [*NEEDED, *draws.some(tuple(dict.fromkeys((*SCORES, *FILTERS))), 8)]
        draws.random.shuffle(names)
        enabled = [{"name": name, "weight": draws.number(0, 3)} for name in names]
        return {"disabled": [{"name": "*"}], "enabled": enabled}
    found = _some_disabled(draws, SCORES, probability)
    if draws.chance(probability):
        found["enabled"] = [{"name": name, "weight": draws.number(1, 9)} for name in draws.some(SCORES, 2, 1)]
    return found


def _profile(draws: Draws, emphasis: frozenset[str], name: str) -> Object:
    arguments = _plugin_arguments(draws, emphasis)
    score = _score_plugins(draws, emphasis)
    often = 0.25 if "config" in emphasis else 0.02
    filters = _some_disabled(draws, FILTERS, often)
    multi_point = _multi_point(draws, often)
    if "config" in emphasis and draws.chance(0.2):
        arguments[_ALLOCATABLE] = _allocatable(draws)
        score.setdefault("enabled", []).append({"name": _ALLOCATABLE, "weight": draws.number(1, 5)})
    if emphasis & {"trimaran", "peaks"}:
        plugin = "Peaks" if "peaks" in emphasis else draws.one(TRIMARAN)
        arguments[plugin] = _trimaran_arguments(draws, plugin)
        score.setdefault("enabled", []).append({"name": plugin, "weight": draws.number(1, 5)})
    plugins = without_empty({"score": score, "filter": filters, "multiPoint": multi_point})
    if "profiles" in emphasis and draws.chance(0.1):  # the default, which all profiles must write or none
        plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}
    return without_empty(
        {
            "schedulerName": name,
            "plugins": plugins,
            "pluginConfig": [{"name": name, "args": given} for name, given in arguments.items()],
        }
    )


def configuration(draws: Draws, emphasis: frozenset[str], schedulers: Sequence[str]) -> str:
    """A v1 configuration with a profile for each scheduler name, as JSON."""
    profiles = [_profile(draws, emphasis, name) for name in schedulers]
    document: Object = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    if "large" in emphasis:
        # All nodes are compared here; where the scheduler samples, its landings are compared, not its scores.
        document["percentageOfNodesToScore"] = 100
    return json.dumps(document)
