"""What plugins and rules of eviction become, however a file names them.

A plugin becomes the strategy that declares to replace it. A policy of ours has one set of rules of eviction,
one of namespaces and one selector of pods. What only some plugins or profiles state holds for all of them, so
that nothing is evicted that the file spares; where that cannot be, it is not mapped. The file says either.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError

from rebalancer.documents.models import did_you_mean
from rebalancer.documents.reading import Path
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.schema import Evictable, Protection
from rebalancer.policy_import.mapping import Import, KeyFate

EVICTOR = "DefaultEvictor"
NO_SETTING = "no setting of ours does this"
_DISAGREE = "they are not alike for all of this file, and a policy has one {}: write one for each"
_UNDO = {"PodsWithLocalStorage": "LocalStorage"}
_PROTECT = {"PodsWithPVC": "PersistentVolumes", "PodsWithoutPDB": "WithoutBudget"}
_OLD = {
    "evictLocalStoragePods": ("LocalStorage", False),
    "ignorePvcPods": ("PersistentVolumes", True),
    "ignorePodsWithoutPDB": ("WithoutBudget", True),
}
_CONDITION = {"minTimeSinceLastTransitionSeconds": "minSince"}
_NEVER = {
    "evictSystemCriticalPods": "pods of the system priority classes are never evicted",
    "SystemCriticalPods": "pods of the system priority classes are never evicted",
    "evictDaemonSetPods": "DaemonSet pods are never evicted: they come back to the same node",
    "DaemonSetPods": "DaemonSet pods are never evicted: they come back to the same node",
}
_BARE = ("evictFailedBarePods", "FailedBarePods")
_LIFTING = ("evictLocalStoragePods", "evictFailedBarePods", "podProtections")  # what may lift a protection
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "RemovePodsViolatingNodeTaints": {"includePreferNoSchedule": False},
    "RemovePodsViolatingTopologySpreadConstraint": {
        "constraints": ["DoNotSchedule"],
        "includeSoftConstraints": False,
        "topologyBalanceNodeFit": True,
    },
}
"""Arguments by which a plugin does what its strategy does anyway."""
_COMMON = {"labelSelector": "podSelector"}  # how strategies name what many plugins have
_MEASURED = ("cpu", "memory", "pods")


class Arguments(msgspec.Struct, frozen=True):
    """Arguments, and where they stand."""

    values: Mapping[str, Any]
    at: Path
    places: Mapping[str, Path] = {}  # of those that stand elsewhere

    def where(self, name: str) -> Path:
        """Where an argument stands."""
        return self.places.get(name, (*self.at, name))


class Plugin(msgspec.Struct, frozen=True):
    """A plugin that a file enables."""

    name: str
    path: Path
    arguments: Arguments

    @property
    def namespaces(self) -> str:
        """Under which argument it names the namespaces that it acts in."""
        return "evictableNamespaces" if "evictableNamespaces" in self.arguments.values else "namespaces"

    def argument(self, name: str) -> Any:
        """The value of an argument; None where it is not stated."""
        return self.arguments.values.get(self.namespaces if name == "namespaces" else name)


def map_rules(work: Import, plugins: Sequence[Plugin], evictors: Sequence[Arguments], at: Path) -> None:
    """Map the plugins of a file and its rules of eviction; ``at`` is where both stand."""
    _evictors(work, evictors, bare=any(plugin.name == "RemoveFailedPods" for plugin in plugins))
    _namespaces(work, plugins)
    _pod_selectors(work, plugins)
    for plugin in plugins:
        _plugin(work, plugin)
    hot = work.policy.setdefault("hotNodes", {})
    if not hot.setdefault("any", []):
        work.policy.setdefault("load", {}).setdefault("sources", [{"requests": {}}])
        work.note(
            at,
            KeyFate.CHANGED,
            "hotNodes.any is []: nothing here relieves nodes by load, so no node is hot; load.sources is "
            "requests, which landings are held to: metricsServer or prometheus know more",
        )
    ours = [
        str(strategy.name) for strategy in STRATEGIES if strategy.name in work.policy.get("strategies", {})
    ]
    if len(ours) > 1 or (ours and hot["any"]):
        order = ", ".join((["hotNodes"] if hot["any"] else []) + ours)
        work.note(at, KeyFate.CHANGED, f"the order of strategies is always {order}")


# Rules of eviction.


def _evictors(work: Import, evictors: Sequence[Arguments], *, bare: bool) -> None:
    """Map what all of them say alike; each of the others is named. ``bare``: failed pods are removed."""
    alike: dict[str, Any] = {}
    for key in dict.fromkeys(key for item in evictors for key in item.values):
        found = [item for item in evictors if key in item.values]
        same = all(item.values[key] == found[0].values[key] for item in found)
        if same and (len(found) == len(evictors) or key not in _LIFTING):
            alike[key] = found[0].values[key]
            if len(found) < len(evictors):
                work.narrowed.add(found[0].where(key))
            work.seen |= {item.where(key) for item in found[1:]}
        else:
            for item in found:
                work.drop(item.where(key), _DISAGREE.format("set of rules of eviction"))
    if evictors:
        places = {key: next(it.where(key) for it in evictors if key in it.values) for key in alike}
        _evictor(work, Arguments(alike, evictors[0].at, places), bare)


def _evictor(work: Import, evictor: Arguments, bare: bool) -> None:
    values, protections = evictor.values, evictor.values.get("podProtections")
    new = isinstance(protections, Mapping) and any(
        protections.get(key) for key in ("defaultDisabled", "extraEnabled")
    )
    for key in (*_OLD, *_BARE, *_NEVER):
        if isinstance(value := values.get(key), bool):
            if new:
                work.note(evictor.where(key), KeyFate.IDLE, "descheduler ignores it beside podProtections")
            elif key in _OLD:
                name, protected_by = _OLD[key]
                protect(work, evictor.where(key), name, protected=value is protected_by)
            elif not value:
                work.note(evictor.where(key), KeyFate.MAPPED, "such pods are never evicted")
            else:
                _lift(work, evictor.where(key), key, bare=bare)
    if protections == {}:
        work.note(evictor.where("podProtections"), KeyFate.IDLE, "it names none")
    elif isinstance(protections, Mapping):
        _protections(work, protections, evictor.where("podProtections"), bare=bare)
    _selection(work, evictor)
    if "nodeFit" in values:
        why = "always: each landing is computed with the scheduler's own filters"
        work.note(evictor.where("nodeFit"), KeyFate.CHANGED, why)
    if "noEvictionPolicy" in values:
        why = "pods with the annotation prefer-no-eviction are never evicted"
        fate = KeyFate.MAPPED if values["noEvictionPolicy"] == "Mandatory" else KeyFate.CHANGED
        work.note(evictor.where("noEvictionPolicy"), fate, why)
    _rest(work, evictor, NO_SETTING)


def _lift(work: Import, path: Path, name: str, *, bare: bool) -> None:
    """What lifts a protection that nothing lifts here, but for failed pods without a controller."""
    if name in _BARE and bare:
        work.set(path, "strategies.failed.barePods", value=True)
    elif name in _BARE:
        work.note(path, KeyFate.IDLE, "it takes effect only where RemoveFailedPods is enabled")
    else:
        work.drop(path, _NEVER.get(name, NO_SETTING))


def _rest(work: Import, arguments: Arguments, why: str, defaults: Collection[str] = ()) -> None:
    for key in arguments.values:
        here = arguments.where(key)
        if work.has_seen(here):
            continue
        if key not in defaults and arguments.values[key] in (None, False, "", [], {}):
            work.note(here, KeyFate.IDLE, "it is what descheduler does without it")
        else:
            work.drop(here, why)


def protect(work: Import, path: Path, name: str, *, protected: bool) -> None:
    """Protect a kind of pod, or no longer; what we protect by default stays protected."""
    if name not in {str(kind) for kind in Protection}:
        work.drop(path, NO_SETTING)
        return
    current = work.policy.get("evictable", {}).get("protect", [str(kind) for kind in Evictable().protect])
    wanted = [item for item in (*current, name) if protected or item != name]
    work.set(path, "evictable.protect", list(dict.fromkeys(wanted)))


def _protections(work: Import, value: Mapping[str, Any], at: Path, *, bare: bool) -> None:
    disabled, extra = value.get("defaultDisabled"), value.get("extraEnabled")
    if not any(value.values()):
        work.note(at, KeyFate.MAPPED, "it changes nothing, as descheduler's chart has it")
    for index, name in enumerate(disabled if isinstance(disabled, list) else ()):
        path: Path = (*at, "defaultDisabled", index)
        if name in _UNDO:
            protect(work, path, _UNDO[name], protected=False)
        else:
            _lift(work, path, str(name), bare=bare)
    classes = _storage_classes(work, value, at)
    for index, name in enumerate(extra if isinstance(extra, list) else ()):
        path = (*at, "extraEnabled", index)
        if name == "PodsWithPVC" and classes:
            protect(work, path, "PersistentVolumes", protected=False)
        elif name in _PROTECT:
            protect(work, path, _PROTECT[name], protected=True)
        elif name == "PodsWithResourceClaims":
            work.note(path, KeyFate.MAPPED, "always: where pods with claims land cannot be predicted")
        else:
            work.drop(path, NO_SETTING)


def _storage_classes(work: Import, value: Mapping[str, Any], at: Path) -> list[str]:
    """The storage classes that alone are protected, mapped where ``PodsWithPVC`` is enabled."""
    config = value.get("config")
    of_claims = config.get("PodsWithPVC") if isinstance(config, Mapping) else None
    entries = of_claims.get("protectedStorageClasses") if isinstance(of_claims, Mapping) else None
    found = entries if isinstance(entries, list) else ()
    names = [str(item["name"]) for item in found if isinstance(item, Mapping) and item.get("name")]
    extra = value.get("extraEnabled")
    path: Path = (*at, "config")
    if names and isinstance(extra, list) and "PodsWithPVC" in extra:
        work.set(path, "evictable.protectStorageClasses", names)
        return names
    if config:
        work.note(path, KeyFate.IDLE, "it takes effect only where extraEnabled has PodsWithPVC")
    return []


def _selection(work: Import, evictor: Arguments) -> None:
    values = evictor.values
    if isinstance(threshold := values.get("priorityThreshold"), Mapping):
        _priority(work, threshold, "value", "name", evictor.where("priorityThreshold"))
    at = evictor.where("thresholdPriority")[:-1]
    _priority(work, values, "thresholdPriority", "thresholdPriorityClassName", at)
    places = {key: evictor.where(key)[:-1] for key in values}
    replicas = "and SingleReplica stays protected"
    for key, kind, ours, text in (
        ("minReplicas", int, "evictable.minReplicas", replicas),
        ("minPodAge", str, "evictable.minAge", ""),
        ("labelSelector", Mapping, "evictable.podSelector", ""),
        ("namespaceLabelSelector", Mapping, "evictable.namespaceSelector", ""),
    ):
        if key in values and ours.partition(".")[2] in _keys(Evictable):
            work.take(places[key], values, key, kind, ours, text)
    if isinstance(selector := values.get("nodeSelector"), str):
        node_selector(work, selector, evictor.where("nodeSelector"))


def _keys(model: type[PolicyModel]) -> set[str]:
    return {str(field.alias) for field in model.model_fields.values()}


def _priority(work: Import, values: Mapping[str, Any], value: str, name: str, at: Path) -> None:
    work.take(at, values, value, int, "evictable.priorityBelow")
    if values.get(name):
        work.drop((*at, name), "write the value of that class: evictable.priorityBelow")


def node_selector(work: Import, text: str, at: Path) -> None:
    """Map a selector in the form ``key=value,key2=value2``."""
    pairs = [part.split("=", 1) for part in text.replace("==", "=").split(",") if part]
    if not all(len(pair) == 2 and pair[0].strip() and "!" not in pair[0] for pair in pairs):
        work.drop(at, "write it as hotNodes.nodeSelector with matchExpressions")
        return
    labels = {key.strip(): value.strip() for key, value in pairs}
    selector, why = {"matchLabels": labels}, "only these nodes can be hot; others still receive"
    work.set(at, "hotNodes.nodeSelector", selector, why)


# Where plugins act.


def _for_all(plugins: Sequence[Plugin], argument: str, setting: str) -> tuple[list[Plugin], bool]:
    """The plugins whose argument must hold for all of them, and whether all state the same.

    Where they do not, a strategy that has such a setting itself takes what its own plugins state alike.
    """
    stated = [plugin for plugin in plugins if isinstance(plugin.argument(argument), Mapping)]
    if all(plugin.argument(argument) == plugins[0].argument(argument) for plugin in plugins):
        return stated, True
    return [plugin for plugin in stated if not _is_own(plugin, plugins, argument, setting)], False


def _is_own(plugin: Plugin, plugins: Sequence[Plugin], argument: str, setting: str) -> bool:
    ours = _replaces(plugin.name)
    if ours is None or setting not in _keys(ours[0].settings_type):
        return False
    peers = [other for other in plugins if (found := _replaces(other.name)) and found[0] is ours[0]]
    return all(other.argument(argument) == plugin.argument(argument) for other in peers)


def _namespaces(work: Import, plugins: Sequence[Plugin]) -> None:
    """Map the namespaces of plugins: what one of them excludes is excluded, what all include is included."""
    stated, alike = _for_all(plugins, "namespaces", "namespaces")
    paths = [plugin.arguments.where(plugin.namespaces) for plugin in stated]
    work.narrowed |= set() if alike else set(paths)
    values = [plugin.argument("namespaces") for plugin in stated]
    included = [value["include"] for value in values if isinstance(value.get("include"), list)]
    common = (
        [str(name) for name in included[0] if all(name in other for other in included)] if included else []
    )
    for path, value in zip(paths, values, strict=True):
        work.seen.add(path)
        if isinstance(value.get("include"), list):
            if common:
                work.add((*path, "include"), "evictable.namespaces.include", common)
            else:
                work.drop((*path, "include"), _DISAGREE.format("evictable.namespaces"))
        if isinstance(value.get("exclude"), list):
            excluded = [str(item) for item in value["exclude"]]
            work.add((*path, "exclude"), "evictable.namespaces.exclude", excluded)


def _pod_selectors(work: Import, plugins: Sequence[Plugin]) -> None:
    """Map the labels that plugins ask for, where no two ask for others."""
    stated, alike = _for_all(plugins, "labelSelector", "podSelector")
    values = [plugin.argument("labelSelector") for plugin in stated]
    if isinstance(of_evictor := work.policy.get("evictable", {}).get("podSelector"), Mapping):
        values.append(of_evictor)
    for plugin in stated:
        path = plugin.arguments.where("labelSelector")
        if any(value != values[0] for value in values):
            work.drop(path, _DISAGREE.format("evictable.podSelector"))
            continue
        work.narrowed |= set() if alike else {path}
        work.set(path, "evictable.podSelector", dict(values[0]))


# Plugins.


def _replaces(name: str) -> tuple[type[Strategy], Replaced] | None:
    return next(((ours, ours.replaces[name]) for ours in STRATEGIES if name in ours.replaces), None)


def _plugin(work: Import, plugin: Plugin) -> None:
    if plugin.name == "LowNodeUtilization":
        _low_node_utilization(work, plugin)
        return
    found = _replaces(plugin.name)
    if found is None:
        known = ["LowNodeUtilization", *(name for ours in STRATEGIES for name in ours.replaces)]
        meant = did_you_mean(plugin.name, known, fallback="keep descheduler for it")
        work.drop(plugin.path, f"no strategy of ours has this aim; {meant}")
        work.seen.add(plugin.arguments.at)
        return
    ours, replaced = found
    place, enabled = f"strategies.{ours.name}", work.policy.setdefault("strategies", {})
    settings = dict(before) if isinstance(before := enabled.get(ours.name), dict) else {}
    defaults, stated = _DEFAULTS.get(plugin.name, {}), plugin.arguments.values
    for argument, value in {**replaced.defaults, **stated}.items():
        where = plugin.arguments.where(argument)
        setting = replaced.settings.get(argument, _COMMON.get(argument, argument))
        if work.has_seen(where):
            continue
        value = _as_ours(argument, value)  # noqa: PLW2901 - as our settings write it
        choices = replaced.choices.get(argument, {})
        if choices and isinstance(value, list) and set(value) <= set(choices):
            chosen = [choices[item] for item in value if choices[item]]
            settings.update(dict.fromkeys(chosen, True))
            work.note(where, KeyFate.MAPPED, ", ".join(f"{place}.{item}" for item in chosen) or place)
        elif argument in defaults and value == defaults[argument]:
            work.note(where, KeyFate.MAPPED, place)
        elif argument == "ownerKinds" and _fits(ours, settings | dict(_owner_kinds(value))):
            settings |= dict(_owner_kinds(value))
            work.note(where, KeyFate.MAPPED, ", ".join(f"{place}.{name}" for name, _ in _owner_kinds(value)))
        elif value is not None and _fits(ours, {**settings, setting: value}):
            settings[setting] = value
            said = "" if argument in stated else f": {value}, which is the default there"
            work.note(where, KeyFate.MAPPED, f"{place}.{setting}{said}")
        elif value is not None and setting in {
            field.alias for field in ours.settings_type.model_fields.values()
        }:
            work.drop(where, f"{place}.{setting} cannot be {value!r:.40}")
    chosen_alone = any(
        "" not in (of.get(item, "") for item in stated[argument])
        for argument, of in replaced.choices.items()
        if isinstance(stated.get(argument), list)
    )
    for setting, items in replaced.adds.items():
        added = () if chosen_alone else items
        settings[setting] = list(dict.fromkeys((*settings.get(setting, ()), *added)))
    enabled[ours.name] = settings or True
    fate = KeyFate.CHANGED if replaced.difference else KeyFate.MAPPED
    work.note(plugin.path, fate, f"{place}{replaced.difference and ': '}{replaced.difference}")
    _rest(work, plugin.arguments, f"{place} has no such setting", defaults)


def _as_ours(argument: str, value: Any) -> Any:
    """A value with times as our settings write them, those of conditions as well."""
    if isinstance(value, Mapping):
        return {_CONDITION.get(key, key): _as_ours(key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_ours("", item) for item in value]
    if argument == "includeSoftConstraints" and value is True:
        return ["DoNotSchedule", "ScheduleAnyway"]
    return f"{value}s" if argument.endswith("Seconds") and isinstance(value, int) else value


def _owner_kinds(value: Any) -> list[tuple[str, Any]]:
    """The settings of ours for the kinds of owners to include and to exclude."""
    return (
        [(f"{name}OwnerKinds", kinds) for name, kinds in value.items()] if isinstance(value, Mapping) else []
    )


def _fits(ours: type[Strategy], settings: Mapping[str, Any]) -> bool:
    """Whether a strategy can have these settings."""
    try:
        ours.settings_type.model_validate_json(json.dumps(settings), strict=True)
    except (ValidationError, TypeError):
        return False
    return True


def _low_node_utilization(work: Import, plugin: Plugin) -> None:
    """The one plugin about load: its targets are our rule; its thresholds the scheduler decides."""
    arguments, values = plugin.arguments, plugin.arguments.values
    metrics, deviation = values.get("metricsUtilization"), values.get("useDeviationThresholds") is True
    if isinstance(targets := values.get("targetThresholds"), Mapping):
        _targets(work, targets, arguments.where("targetThresholds"), deviation=deviation)
    hot = bool(work.policy.get("hotNodes", {}).get("any"))
    rule = "hotNodes.any" if hot else "no rule could be mapped"
    if deviation and hot:
        work.note(arguments.where("useDeviationThresholds"), KeyFate.MAPPED, "hotNodes.any[].deviation")
    if "thresholds" in values:
        why = (
            "which nodes have room is not a threshold here: the scheduler decides where replacements go, and "
            "planning.maxAfter bounds how full a node may get"
        )
        work.note(arguments.where("thresholds"), KeyFate.CHANGED, why)
    if "numberOfNodes" in values:
        where = arguments.where("numberOfNodes")
        if values["numberOfNodes"]:
            work.drop(where, "a plan is made from the first hot node on, however few nodes have room")
        else:
            work.note(where, KeyFate.MAPPED, rule)
    load = work.policy.setdefault("load", {})
    if not isinstance(metrics, Mapping):
        load.setdefault("sources", [{"requests": {}}])
        why = f"{rule}; load.sources: what pods request, as there; metricsServer or prometheus know more"
    elif metrics.get("source") == "Prometheus" or "prometheus" in metrics:
        load.setdefault("sources", [{"requests": {}}])
        why = f"{rule}; load.sources: see metricsUtilization"
        work.drop(
            arguments.where("metricsUtilization"),
            "one query for a node's hotness says nothing of what a pod brings along; load.sources with "
            "prometheus and a preset measures cpu and memory of nodes and pods",
        )
    else:
        load["sources"] = [{"metricsServer": {}}]
        why = rule
        work.note(arguments.where("metricsUtilization"), KeyFate.MAPPED, "load.sources: metricsServer")
    if hot:
        work.note(plugin.path, KeyFate.CHANGED, why)
    else:
        work.drop(plugin.path, "none of its targetThresholds is one of cpu, memory or pods: no node is hot")
    if isinstance(limit := values.get("evictionLimits"), Mapping):
        work.take(arguments.where("evictionLimits"), limit, "node", int, "limits.perNode")
    _rest(work, arguments, NO_SETTING)


def _targets(work: Import, targets: Mapping[str, Any], at: Path, *, deviation: bool) -> None:
    thresholds = {}
    for resource, percent in targets.items():
        if resource not in _MEASURED:
            said = f"no source measures {resource}; name it in load.signals with a query of yours"
            work.drop((*at, resource), said)
        elif not isinstance(percent, int | float) or isinstance(percent, bool):
            work.drop((*at, resource), "this is not a percentage")
        else:
            thresholds[resource] = percent
    if thresholds:
        rule = "deviation" if deviation else "utilization"
        rules = work.policy.setdefault("hotNodes", {}).setdefault("any", [])
        rules.append({rule: thresholds, "coolTo": dict(thresholds)})
        why = "coolTo is the same level, as descheduler stops there; a lower one makes fewer moves later"
        work.note(at, KeyFate.CHANGED, f"hotNodes.any[].{rule}: {why}")
