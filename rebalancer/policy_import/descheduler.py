"""The policy of kubernetes-sigs/descheduler, in its current version and the first.

Versions: v1alpha2 has profiles with a configuration for each plugin; v1alpha1 had a map of strategies with
parameters. What both say is mapped by the same functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rebalancer.documents.reading import Path
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.evictability import Evictable
from rebalancer.policy_import.mapping import Import, KeyFate

NO_SETTING = "no setting of ours does this"
PRIORITY_OF_CLASS = "write the value of that class: evictable.priorityBelow"
_LIMITS = {
    "maxNoOfPodsToEvictPerNode": "limits.perNode",
    "maxNoOfPodsToEvictPerNamespace": "limits.perNamespace",
    "maxNoOfPodsToEvictTotal": "limits.perRun",
}
_DISABLED = {"PodsWithLocalStorage": "LocalStorage"}
_EXTRA = {"PodsWithPVC": "PersistentVolumes"}
_MEASURED = ("cpu", "memory", "pods")
_EVICTOR_OF_V1ALPHA1 = (
    "evictLocalStoragePods",
    "evictSystemCriticalPods",
    "ignorePvcPods",
    "evictFailedBarePods",
)
_NEVER = {
    "evictSystemCriticalPods": "pods of the system priority classes are never evicted",
    "evictFailedBarePods": "pods without a controller are removed where strategies.failed.barePods is true",
    "evictDaemonSetPods": "DaemonSet pods are never evicted: they come back to the same node",
}


def global_limits(work: Import, value: Mapping[str, Any]) -> None:
    """Map the keys at the top of a policy."""
    for theirs, ours in _LIMITS.items():
        work.take((), value, theirs, int, ours)
    if isinstance(value.get("nodeSelector"), str):
        node_selector(work, value["nodeSelector"], ("nodeSelector",))
    if "gracePeriodSeconds" in value:
        work.drop(("gracePeriodSeconds",), "a pod's own terminationGracePeriodSeconds holds")
    if "evictionFailureEventNotification" in value:
        work.note(
            ("evictionFailureEventNotification",),
            KeyFate.CHANGED,
            "always: outcomes are in the report, the journal and the metrics",
        )


def node_selector(work: Import, text: str, at: Path) -> None:
    """Map a selector in the form ``key=value,key2=value2``."""
    pairs = [part.split("=", 1) for part in text.replace("==", "=").split(",") if part]
    if not all(len(pair) == 2 and pair[0].strip() and "!" not in pair[0] for pair in pairs):
        work.drop(at, "write it as hotNodes.nodeSelector with matchExpressions")
        return
    labels = {key.strip(): value.strip() for key, value in pairs}
    work.set(
        at,
        "hotNodes.nodeSelector",
        {"matchLabels": labels},
        "only these nodes can be hot; others still receive",
    )


def evictor_settings(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    """Map the arguments of DefaultEvictor."""
    for key, why in _NEVER.items():
        if key in arguments:
            work.drop((*at, key), why)
    _storage(work, arguments, at)
    _selection(work, arguments, at)
    _protections(work, arguments.get("podProtections"), (*at, "podProtections"))
    node_fit(work, arguments, at)
    work.rest(at, arguments, NO_SETTING)


def node_fit(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    """Map nodeFit, which is always on here."""
    if "nodeFit" in arguments:
        why = "always: each landing is computed with the scheduler's own filters"
        work.note((*at, "nodeFit"), KeyFate.CHANGED, why)


def threshold_priority(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    """Map a priority, and note that the name of a class is not looked up."""
    work.take(at, arguments, "thresholdPriority", int, "evictable.priorityBelow")
    if "thresholdPriorityClassName" in arguments:
        work.drop((*at, "thresholdPriorityClassName"), PRIORITY_OF_CLASS)


def protect(work: Import, path: Path, name: str, *, protected: bool, text: str = "") -> None:
    """Protect a kind of pod, or no longer; what we protect by default stays protected."""
    current = work.policy.get("evictable", {}).get("protect", [str(kind) for kind in Evictable().protect])
    wanted = [item for item in (*current, name) if protected or item != name]
    work.set(path, "evictable.protect", list(dict.fromkeys(wanted)), text)


def _storage(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    if isinstance(local := arguments.get("evictLocalStoragePods"), bool):
        protect(work, (*at, "evictLocalStoragePods"), "LocalStorage", protected=not local)
    if isinstance(ignored := arguments.get("ignorePvcPods"), bool):
        protect(work, (*at, "ignorePvcPods"), "PersistentVolumes", protected=ignored)


def _selection(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    threshold = arguments.get("priorityThreshold")
    if isinstance(threshold, Mapping):
        work.take((*at, "priorityThreshold"), threshold, "value", int, "evictable.priorityBelow")
        if "name" in threshold:
            work.drop((*at, "priorityThreshold", "name"), PRIORITY_OF_CLASS)
    stays = "and SingleReplica stays protected"
    work.take(at, arguments, "minReplicas", int, "evictable.minReplicas", stays)
    work.take(at, arguments, "minPodAge", str, "evictable.minAge")
    work.take(at, arguments, "labelSelector", Mapping, "evictable.podSelector")
    if isinstance(selector := arguments.get("nodeSelector"), str):
        node_selector(work, selector, (*at, "nodeSelector"))


def _protections(work: Import, value: Any, at: Path) -> None:
    if not isinstance(value, Mapping):
        return
    for key, names, protected in (("defaultDisabled", _DISABLED, False), ("extraEnabled", _EXTRA, True)):
        entries = value.get(key)
        for index, name in enumerate(entries if isinstance(entries, list) else ()):
            if name in names:
                protect(work, (*at, key, index), names[name], protected=protected)
            else:
                work.drop((*at, key, index), NO_SETTING)


# Plugins that no strategy of ours takes the place of, with what to do instead.
OTHER_AIMS = {
    "RemoveDuplicates": "replicas on one node are no load; use topology spread constraints",
}


def strategy(work: Import, path: Path, name: str, arguments: Mapping[str, Any], at: Path) -> None:
    """Map one strategy by name; ``at`` is where its arguments stand."""
    if name == "LowNodeUtilization":
        low_node_utilization(work, path, arguments, at)
        return
    ours = next((strategy for strategy in STRATEGIES if name in strategy.replaces), None)
    if ours is None:
        work.drop(path, OTHER_AIMS.get(name, "no strategy of ours has this aim"))
    else:
        _replaced(work, path, ours, ours.replaces[name], arguments, at)


def _replaced(
    work: Import, path: Path, ours: type[Strategy], plugin: Replaced, arguments: Mapping[str, Any], at: Path
) -> None:
    """Turn a strategy of ours on, with the plugin's arguments as its settings."""
    place, enabled = f"strategies.{ours.name}", work.policy.setdefault("strategies", {})
    settings = dict(found) if isinstance(found := enabled.get(ours.name), dict) else {}
    for argument, value in arguments.items():
        setting = plugin.settings.get(argument, argument)
        if argument.endswith("Seconds") and isinstance(value, int):
            value = f"{value}s"  # noqa: PLW2901 - as our settings write it
        if value is not None and _fits(ours, setting, value):
            settings[setting] = value
            work.note((*at, argument), KeyFate.MAPPED, f"{place}.{setting}")
    enabled[ours.name] = settings or True
    work.note(
        path,
        KeyFate.CHANGED if plugin.difference else KeyFate.MAPPED,
        f"{place}{plugin.difference and ': '}{plugin.difference}",
    )
    work.rest(at, arguments, f"{place} has no such setting")


def _fits(ours: type[Strategy], setting: str, value: Any) -> bool:
    """Whether a value can be that of a setting."""
    try:
        ours.settings_type.model_validate_json(json.dumps({setting: value}), strict=True)
    except (ValidationError, TypeError):
        return False
    return True


def low_node_utilization(work: Import, path: Path, arguments: Mapping[str, Any], at: Path) -> None:
    """The one strategy about load: its targets are our rule, its thresholds the scheduler decides."""
    targets = arguments.get("targetThresholds")
    deviation = arguments.get("useDeviationThresholds") is True
    if isinstance(targets, Mapping):
        _targets(work, targets, (*at, "targetThresholds"), deviation=deviation)
    if deviation:
        work.note((*at, "useDeviationThresholds"), KeyFate.MAPPED, "hotNodes.any[].deviation")
    if "thresholds" in arguments:
        work.drop(
            (*at, "thresholds"),
            "which nodes have room is not a threshold here: the scheduler decides where replacements go, and "
            "planning.maxAfter bounds how full a node may get",
        )
    if "numberOfNodes" in arguments:
        work.drop((*at, "numberOfNodes"), "a plan is made from the first hot node on")
    _usage(work, path, arguments, at)
    if isinstance(limit := arguments.get("evictionLimits"), Mapping):
        work.take((*at, "evictionLimits"), limit, "node", int, "limits.perNode")
    namespaces(work, arguments.get("evictableNamespaces"), (*at, "evictableNamespaces"))
    work.rest(at, arguments, NO_SETTING)


def _targets(work: Import, targets: Mapping[str, Any], at: Path, *, deviation: bool) -> None:
    thresholds = {}
    for resource, percent in targets.items():
        if resource not in _MEASURED:
            work.drop(
                (*at, resource),
                f"no source measures {resource}; name it in load.signals with a query of yours",
            )
        elif not isinstance(percent, int | float) or isinstance(percent, bool):
            work.drop((*at, resource), "this is not a percentage")
        else:
            thresholds[resource] = percent
    if not thresholds:
        return
    rule = "deviation" if deviation else "utilization"
    rules = work.policy.setdefault("hotNodes", {}).setdefault("any", [])
    rules.append({rule: thresholds, "coolTo": dict(thresholds)})
    work.note(
        at,
        KeyFate.CHANGED,
        f"hotNodes.any[].{rule}: coolTo is the same level, as descheduler stops there; a lower one makes "
        "fewer moves later",
    )


def _usage(work: Import, path: Path, arguments: Mapping[str, Any], at: Path) -> None:
    metrics = arguments.get("metricsUtilization")
    where = (*at, "metricsUtilization")
    load = work.policy.setdefault("load", {})
    if not isinstance(metrics, Mapping):
        load.setdefault("sources", [{"requests": {}}])
        work.note(
            path,
            KeyFate.CHANGED,
            "load.sources: descheduler looks at requests here, so this does too; metricsServer or prometheus "
            "show what nodes really use",
        )
    elif metrics.get("source") == "Prometheus" or "prometheus" in metrics:
        work.drop(
            where,
            "one query for a node's hotness says nothing of what a pod brings along; load.sources with "
            "prometheus and a preset measures cpu and memory of nodes and pods",
        )
    else:
        load["sources"] = [{"metricsServer": {}}]
        work.note(path, KeyFate.MAPPED, "hotNodes.any")
        work.note(where, KeyFate.MAPPED, "load.sources: metricsServer")


def namespaces(work: Import, value: Any, at: Path) -> None:
    """Map lists of namespaces to include and exclude."""
    if not isinstance(value, Mapping):
        return
    for name in ("include", "exclude"):
        if isinstance(value.get(name), list):
            work.add((*at, name), f"evictable.namespaces.{name}", [str(item) for item in value[name]])


def current_policy(work: Import, value: Mapping[str, Any]) -> None:
    """Map a policy of v1alpha2."""
    _head(work)
    global_limits(work, value)
    for index, profile in enumerate(work.items(("profiles",), value.get("profiles"))):
        at = ("profiles", index)
        _profile(work, work.mapping(at, profile), at)
    for key in ("metricsProviders", "metricsCollector"):
        if key in value:
            work.drop((key,), "load.sources names where load is read")
    work.rest((), value, NO_SETTING)


def _head(work: Import) -> None:
    work.seen |= {("apiVersion",), ("kind",), ("profiles",)}


def _profile(work: Import, profile: Mapping[str, Any], at: Path) -> None:
    work.seen |= {(*at, "name"), (*at, "plugins"), (*at, "pluginConfig")}
    enabled = _enabled(work, profile.get("plugins"), (*at, "plugins"))
    configured = set()
    plugins = work.items((*at, "pluginConfig"), profile.get("pluginConfig"))
    for index, item in enumerate(plugins):
        here = (*at, "pluginConfig", index)
        entry = work.mapping(here, item)
        name = str(entry.get("name", ""))
        configured.add(name)
        arguments = work.mapping((*here, "args"), entry.get("args"))
        if name == "DefaultEvictor":
            work.seen.add((*here, "name"))
            evictor_settings(work, arguments, (*here, "args"))
        elif name in enabled or not enabled:
            strategy(work, (*here, "name"), name, arguments, (*here, "args"))
        else:
            work.drop((*here, "name"), "the profile does not enable this plugin")
    for name, path in enabled.items():
        if name not in configured and name != "DefaultEvictor":
            strategy(work, path, name, {}, path)
    work.rest(at, profile, NO_SETTING)


def _enabled(work: Import, plugins: Any, at: Path) -> dict[str, Path]:
    """The plugins of the extension points that evict, and where each is named."""
    plugins_enabled: dict[str, Path] = {}
    points = work.mapping(at, plugins)
    for point in ("balance", "deschedule"):
        entry = work.mapping((*at, point), points.get(point))
        for index, name in enumerate(work.items((*at, point, "enabled"), entry.get("enabled"))):
            plugins_enabled.setdefault(str(name), (*at, point, "enabled", index))
    return plugins_enabled


def first_policy(work: Import, value: Mapping[str, Any]) -> None:
    """Map a policy of v1alpha1."""
    _head(work)
    work.seen.add(("strategies",))
    global_limits(work, value)
    evictor_settings(work, {key: value[key] for key in value if key in _EVICTOR_OF_V1ALPHA1}, ())
    for name, item in work.mapping(("strategies",), value.get("strategies")).items():
        at: Path = ("strategies", name)
        entry = work.mapping(at, item)
        if entry.get("enabled") is not True:
            work.drop(at, "it is not enabled")
            continue
        parameters = work.mapping((*at, "params"), entry.get("params"))
        _common_parameters(work, parameters, (*at, "params"))
        thresholds = parameters.get("nodeResourceUtilizationThresholds")
        inner = (*at, "params", "nodeResourceUtilizationThresholds")
        strategy(work, at, str(name), thresholds if isinstance(thresholds, Mapping) else parameters, inner)
    work.rest((), value, NO_SETTING)


def _common_parameters(work: Import, parameters: Mapping[str, Any], at: Path) -> None:
    namespaces(work, parameters.get("namespaces"), (*at, "namespaces"))
    threshold_priority(work, parameters, at)
    work.take(at, parameters, "labelSelector", Mapping, "evictable.podSelector")
    node_fit(work, parameters, at)
    if isinstance(parameters.get("nodeSelector"), str):
        node_selector(work, parameters["nodeSelector"], (*at, "nodeSelector"))
