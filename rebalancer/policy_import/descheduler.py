"""The policy of kubernetes-sigs/descheduler, in its current version and the first.

Versions: v1alpha2 has profiles with a configuration for each plugin; v1alpha1 had a map of strategies with
parameters. What both say is mapped by the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.documents.document import Path
from rebalancer.policy_import.evictor import evictor_settings, global_limits, node_selector
from rebalancer.policy_import.mapping import Import, Kept
from rebalancer.policy_import.strategies import namespaces, strategy


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
    work.rest((), value, "no setting of ours does this")


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
    work.rest(at, profile, "no setting of ours does this")


def _enabled(work: Import, plugins: Any, at: Path) -> dict[str, Path]:
    """The plugins of the extension points that evict, and where each is named."""
    found: dict[str, Path] = {}
    points = work.mapping(at, plugins)
    for point in ("balance", "deschedule"):
        entry = work.mapping((*at, point), points.get(point))
        for index, name in enumerate(work.items((*at, point, "enabled"), entry.get("enabled"))):
            found.setdefault(str(name), (*at, point, "enabled", index))
    return found


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
    work.rest((), value, "no setting of ours does this")


_EVICTOR_OF_V1ALPHA1 = (
    "evictLocalStoragePods",
    "evictSystemCriticalPods",
    "ignorePvcPods",
    "evictFailedBarePods",
)


def _common_parameters(work: Import, parameters: Mapping[str, Any], at: Path) -> None:
    namespaces(work, parameters.get("namespaces"), (*at, "namespaces"))
    if isinstance(parameters.get("thresholdPriority"), int):
        work.set((*at, "thresholdPriority"), "evictable.priorityBelow", parameters["thresholdPriority"])
    if "thresholdPriorityClassName" in parameters:
        work.drop(
            (*at, "thresholdPriorityClassName"), "write the value of that class: evictable.priorityBelow"
        )
    if isinstance(parameters.get("labelSelector"), Mapping):
        work.set((*at, "labelSelector"), "evictable.podSelector", dict(parameters["labelSelector"]))
    if "nodeFit" in parameters:
        work.note(
            (*at, "nodeFit"),
            Kept.CHANGED,
            "always: each landing is computed with the scheduler's own filters",
        )
    if isinstance(parameters.get("nodeSelector"), str):
        node_selector(work, parameters["nodeSelector"], (*at, "nodeSelector"))
