"""OpenShift's KubeDescheduler: named profiles instead of plugins, and a few customizations of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.documents.reading import Path
from rebalancer.policy_import.descheduler import NO_SETTING, protect, threshold_priority
from rebalancer.policy_import.mapping import Import, KeyFate

_UTILIZATION = {"Low": 30, "Medium": 50, "High": 70}  # the upper of the two thresholds, in percent
_DEVIATION = {
    f"{kind}{level}": points
    for kind in ("", "Asymmetric")
    for level, points in (("Low", 10), ("Medium", 20), ("High", 30))
}
_LOAD = (
    "LifecycleAndUtilization",
    "LongLifecycle",
    "KubeVirtRelieveAndMigrate",
    "DevKubeVirtRelieveAndMigrate",
)
_PLACEMENT = ("AffinityAndTaints",)
_PROTECTIONS = {"EvictPodsWithPVC": "PersistentVolumes", "EvictPodsWithLocalStorage": "LocalStorage"}
_OTHERS = {
    "TopologyAndDuplicates": "soft spreading is no load; hard constraints: strategies.misplaced",
    "SoftTopologyAndDuplicates": "soft spreading is no load; hard constraints: strategies.misplaced",
    "CompactAndScale": "it empties nodes, which is the opposite of relieving them; leave it to an autoscaler",
}


def operator_resource(work: Import, value: Mapping[str, Any]) -> None:
    """Map the spec of a KubeDescheduler."""
    work.seen |= {("apiVersion",), ("kind",), ("metadata",), ("status",), ("spec",)}
    spec = value.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    custom = spec.get("profileCustomizations")
    custom = custom if isinstance(custom, Mapping) else {}
    at: Path = ("spec", "profileCustomizations")
    work.seen |= {at, ("spec", "profiles")}
    profiles = spec.get("profiles")
    for index, name in enumerate(profiles if isinstance(profiles, list) else ()):
        _profile(work, str(name), ("spec", "profiles", index), custom, at)
    _customizations(work, custom, at)
    if isinstance(seconds := spec.get("deschedulingIntervalSeconds"), int) and not isinstance(seconds, bool):
        work.set(
            ("spec", "deschedulingIntervalSeconds"),
            "hotNodes.runInterval",
            f"{seconds}s",
            "set the schedule of the CronJob to the same",
        )
    if "mode" in spec:
        work.note(
            ("spec", "mode"),
            KeyFate.CHANGED,
            "Predictive is `rebalancer plan`, Automatic is `rebalancer run`",
        )
    if isinstance(limits := spec.get("evictionLimits"), Mapping):
        for theirs, ours in (("total", "limits.perRun"), ("node", "limits.perNode")):
            work.take(("spec", "evictionLimits"), limits, theirs, int, ours)
    work.rest(("spec",), spec, "the operator's own setting")
    work.rest(at, custom, NO_SETTING)


def _profile(work: Import, name: str, path: Path, custom: Mapping[str, Any], at: Path) -> None:
    if name in _LOAD:
        _load(work, path, custom, at)
    elif name in _PLACEMENT:
        work.set(path, "strategies.misplaced", True)
    elif name in _PROTECTIONS:
        protect(work, path, _PROTECTIONS[name], protected=False)
    else:
        work.drop(path, _OTHERS.get(name, "no strategy of ours has this aim"))


def _load(work: Import, path: Path, custom: Mapping[str, Any], at: Path) -> None:
    rules = work.policy.setdefault("hotNodes", {}).setdefault("any", [])
    if rules:
        work.note(path, KeyFate.MAPPED, "hotNodes.any")
        return
    for key, levels, rule in (
        ("devDeviationThresholds", _DEVIATION, "deviation"),
        ("devLowNodeUtilizationThresholds", _UTILIZATION, "utilization"),
    ):
        level = levels.get(str(custom.get(key)))
        if level is not None:
            rules.append({rule: {"cpu": level, "memory": level}, "coolTo": {"cpu": level, "memory": level}})
            work.note((*at, key), KeyFate.MAPPED, f"hotNodes.any[].{rule}")
            break
    else:
        rules.append({"utilization": {"cpu": 50, "memory": 50}, "coolTo": {"cpu": 50, "memory": 50}})
    work.note(
        path,
        KeyFate.CHANGED,
        "hotNodes.any: relieves nodes above the profile's upper threshold; age and restarts are "
        "no reasons to move a pod here",
    )


def _customizations(work: Import, custom: Mapping[str, Any], at: Path) -> None:
    namespaces = custom.get("namespaces")
    for theirs, ours in (("included", "include"), ("excluded", "exclude")):
        if isinstance(namespaces, Mapping) and isinstance(namespaces.get(theirs), list):
            work.add(
                (*at, "namespaces", theirs),
                f"evictable.namespaces.{ours}",
                [str(name) for name in namespaces[theirs]],
            )
    threshold_priority(work, custom, at)
    if custom.get("devActualUtilizationProfile"):
        work.set(
            (*at, "devActualUtilizationProfile"),
            "load.sources",
            [{"metricsServer": {}}],
            "cpu and memory of metrics-server; see docs/load.md for PromQL",
        )
