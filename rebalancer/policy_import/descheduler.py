"""The policy of kubernetes-sigs/descheduler, in its current version and the first.

Versions: v1alpha2 has profiles with a configuration for each plugin; v1alpha1 had a map of strategies with
parameters. Both are read as plugins with arguments and rules of eviction, which ``rules`` maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.documents.reading import Path
from rebalancer.policy_import.mapping import Import, KeyFate
from rebalancer.policy_import.rules import EVICTOR, NO_SETTING, Arguments, Plugin, map_rules, node_selector

_LIMITS = {
    "maxNoOfPodsToEvictPerNode": "limits.perNode",
    "maxNoOfPodsToEvictPerNamespace": "limits.perNamespace",
    "maxNoOfPodsToEvictTotal": "limits.perRun",
}
_EVICTOR_OF_V1ALPHA1 = (
    "evictLocalStoragePods",
    "evictSystemCriticalPods",
    "ignorePvcPods",
    "evictFailedBarePods",
)
_EVICTOR_OF_PARAMS = ("thresholdPriority", "thresholdPriorityClassName", "nodeFit", "nodeSelector")
_BY_PLUGIN = (
    "nodeResourceUtilizationThresholds",
    "podsHavingTooManyRestarts",
    "podLifeTime",
    "removeDuplicates",
    "failedPods",
)


def current_policy(work: Import, value: Mapping[str, Any]) -> None:
    """Map a policy of v1alpha2."""
    _head(work, value)
    plugins: list[Plugin] = []
    evictors: list[Arguments] = []
    for index, profile in enumerate(work.items(("profiles",), value.get("profiles"))):
        at: Path = ("profiles", index)
        found, evictor = _profile(work, work.mapping(at, profile), at)
        plugins += found
        evictors.append(evictor)
    for key in ("metricsProviders", "metricsCollector"):
        if key in value:
            work.note((key,), KeyFate.CHANGED, "load.sources names where load is read")
    map_rules(work, plugins, evictors, ("profiles",))
    work.rest((), value, NO_SETTING)


def _head(work: Import, value: Mapping[str, Any]) -> None:
    """Map the keys at the top of a policy."""
    work.seen |= {("apiVersion",), ("kind",), ("profiles",)}
    for theirs, ours in _LIMITS.items():
        work.take((), value, theirs, int, ours)
    if isinstance(value.get("nodeSelector"), str):
        node_selector(work, value["nodeSelector"], ("nodeSelector",))
    if "gracePeriodSeconds" in value:
        work.drop(("gracePeriodSeconds",), "a pod's own terminationGracePeriodSeconds holds")
    if "evictionFailureEventNotification" in value:
        said = "always: outcomes are in the report, the journal and the metrics"
        work.note(("evictionFailureEventNotification",), KeyFate.CHANGED, said)


def _profile(work: Import, profile: Mapping[str, Any], at: Path) -> tuple[list[Plugin], Arguments]:
    """The plugins that a profile enables, in its order, and its rules of eviction."""
    work.seen |= {(*at, "name"), (*at, "plugins"), (*at, "pluginConfig")}
    enabled = _enabled(work, profile.get("plugins"), (*at, "plugins"))
    configured: dict[str, tuple[Path, Arguments]] = {}
    for index, item in enumerate(work.items((*at, "pluginConfig"), profile.get("pluginConfig"))):
        here: Path = (*at, "pluginConfig", index)
        entry = work.mapping(here, item)
        name = str(entry.get("name", ""))
        arguments = Arguments(work.mapping((*here, "args"), entry.get("args")), (*here, "args"))
        work.seen.add((*here, "name"))
        configured[name] = (*here, "name"), arguments
        if name != EVICTOR and name not in enabled and enabled:
            work.note((*here, "name"), KeyFate.IDLE, "the profile does not enable this plugin")
            work.seen.add((*here, "args"))
    names = enabled or {name: path for name, (path, _) in configured.items() if name != EVICTOR}
    plugins = []
    for name, path in names.items():
        where, arguments = configured.get(name, (path, Arguments({}, path)))
        plugins.append(Plugin(name, where, arguments))
    work.rest(at, profile, NO_SETTING)
    return plugins, configured.get(EVICTOR, (at, Arguments({}, at)))[1]


def _enabled(work: Import, plugins: Any, at: Path) -> dict[str, Path]:
    """The plugins of the extension points that evict, in their order, and where each is named."""
    found: dict[str, Path] = {}
    points = work.mapping(at, plugins)
    for point in ("deschedule", "balance"):
        entry = work.mapping((*at, point), points.get(point))
        for index, name in enumerate(work.items((*at, point, "enabled"), entry.get("enabled"))):
            found.setdefault(str(name), (*at, point, "enabled", index))
    return found


def first_policy(work: Import, value: Mapping[str, Any]) -> None:
    """Map a policy of v1alpha1."""
    _head(work, value)
    work.seen.add(("strategies",))
    plugins: list[Plugin] = []
    evictor = {key: value[key] for key in value if key in _EVICTOR_OF_V1ALPHA1}
    top: dict[str, Path] = {key: (key,) for key in evictor}
    evictors: list[Arguments] = []
    for name, item in work.mapping(("strategies",), value.get("strategies")).items():
        at: Path = ("strategies", name)
        entry = work.mapping(at, item)
        if entry.get("enabled") is not True:
            work.note(at, KeyFate.IDLE, "it is not enabled")
            continue
        inner: Path = (*at, "params")
        parameters = work.mapping(inner, entry.get("params"))
        work.seen.add(inner)
        places = {key: (*inner, key) for key in parameters}
        flat: dict[str, Any] = dict(parameters)
        for group in _BY_PLUGIN:
            if isinstance(nested := flat.pop(group, None), Mapping):
                flat |= nested
                places |= {key: (*inner, group, key) for key in nested}
        common = {key: flat.pop(key) for key in _EVICTOR_OF_PARAMS if key in flat}
        evictors.append(Arguments({**evictor, **common}, inner, top))
        plugins.append(Plugin(str(name), at, Arguments(flat, inner, places)))
    map_rules(work, plugins, evictors or [Arguments(evictor, (), top)], ("strategies",))
    work.rest((), value, NO_SETTING)
