"""What plugins and rules of eviction become, however a file names them.

A policy of ours has one set of rules of eviction, one of namespaces and one selector of pods. What only some
plugins or profiles state holds for all of them, and of what they state differently the strictest, so that
nothing is evicted that the file spares. A plugin for which that cannot be is not mapped. The notes say which.

    minReplicas 2 and 3                   3
    priorityThreshold 1000 and 500        500
    ignorePvcPods true and false          true
    labelSelector app=web and tier=x      both

A selector of nodes that pods may leave becomes a limit of 0 for what its opposites select:

    pool=web,zone in (a, b),!spot         the text, which all of its requirements must meet
    pool NotIn web | zone NotIn a, b | spot Exists      a node of any of them is not selected
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from rebalancer.cluster.selectors import parse_labels
from rebalancer.documents.reading import Path
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.schema import Evictable, Protection
from rebalancer.policy.scopes import namespace_matches
from rebalancer.policy.units import parse_duration
from rebalancer.policy_import.mapping import Import, KeyFate, is_number
from rebalancer.policy_import.plugins import (
    NO_SETTING,
    Arguments,
    Plugin,
    PrometheusProvider,
    as_written,
    drop_unseen_arguments,
    leave_out,
    map_plugin,
    replacing,
)

EVICTOR = "DefaultEvictor"
_DISAGREE = "they are not alike for all of this file, and a policy has one {}: write one for each"
_TWICE = "it is enabled before with other arguments, and a policy has each strategy once: write one for each"
_ELSEWHERE = (
    "plugins before it and what is excluded leave it no namespace, as a policy has one {}: write one for each"
)
_STRICTEST = "the strictest of this file, for all strategies, as a policy has one"
_UNDO = {"PodsWithLocalStorage": "LocalStorage"}
_PROTECT = {"PodsWithPVC": "PersistentVolumes", "PodsWithoutPDB": "WithoutBudget"}
_OLD = {
    "evictLocalStoragePods": ("LocalStorage", False),
    "ignorePvcPods": ("PersistentVolumes", True),
    "ignorePodsWithoutPDB": ("WithoutBudget", True),
}
_NEVER = {
    "evictSystemCriticalPods": "pods of the system priority classes are never evicted",
    "SystemCriticalPods": "pods of the system priority classes are never evicted",
    "evictDaemonSetPods": "DaemonSet pods are never evicted: they come back to the same node",
    "DaemonSetPods": "DaemonSet pods are never evicted: they come back to the same node",
}
_BARE = ("evictFailedBarePods", "FailedBarePods")
_LIFTING = ("evictLocalStoragePods", "evictFailedBarePods", "podProtections")  # what may lift a protection
_ALWAYS = ("nodeFit", "noEvictionPolicy")  # what we do whatever they say
_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOBODY = -(2**31)  # no priority is below


def map_rules(
    work: Import,
    plugins: Sequence[Plugin],
    evictors: Sequence[Arguments],
    at: Path,
    spared: Sequence[str] = (),
    prometheus: PrometheusProvider | None = None,
) -> None:
    """Map the plugins of a file and its rules of eviction; ``at`` is where both stand.

    ``spared`` are namespaces that no plugin acts in, whatever it includes; ``prometheus`` is where the
    queries of plugins are asked.
    """
    plugins = _once_each(work, plugins)
    if len({plugin.name for plugin in plugins}) > 1:
        work.narrowed |= {plugin.arguments.where("evictionLimits") for plugin in plugins}
    plugins = _namespaces(work, plugins, spared)
    _evictors(work, evictors, {plugin.name for plugin in plugins})
    _pod_selectors(work, plugins)
    for plugin in plugins:
        map_plugin(work, plugin, prometheus)
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


def _first_place(evictors: Sequence[Arguments], key: str) -> Path:
    """Where the first that has the argument states it."""
    return next(arguments.where(key) for arguments in evictors if key in arguments.values)


def _evictors(work: Import, evictors: Sequence[Arguments], plugins: Collection[str]) -> None:
    """Map what all of them say alike, and the strictest of what they do not; the rest is named."""
    alike: dict[str, Any] = {}
    differ: list[Arguments] = []
    for key in dict.fromkeys(key for evictor in evictors for key in evictor.values):
        stating = [evictor for evictor in evictors if key in evictor.values]
        values = [evictor.values[key] for evictor in stating]
        same = all(value == values[0] for value in values)
        value = values[0] if same else strictest(key, values)
        if (same or value is not None) and (len(stating) == len(evictors) or key not in _LIFTING):
            alike[key] = value
            if (len(stating) < len(evictors) or not same) and key not in _ALWAYS:
                work.narrowed.add(stating[0].where(key))
            for evictor in stating[1:]:
                work.seen.add(evictor.where(key))
                if not same and key not in _ALWAYS:
                    work.note(evictor.where(key), KeyFate.NARROWED, _STRICTEST)
        elif key == "podProtections":
            differ = stating
        else:
            for evictor in stating:
                work.drop(evictor.where(key), _DISAGREE.format("set of rules of eviction"))
    if evictors:
        places = {key: _first_place(evictors, key) for key in alike}
        _evictor(work, Arguments(alike, evictors[0].at, places), plugins)
    for evictor in differ:
        _extra_protections(work, evictor.values["podProtections"], evictor.where("podProtections"), plugins)


def _extra_protections(work: Import, value: Any, at: Path, plugins: Collection[str]) -> None:
    """Map what one of several profiles protects; what it no longer protects, another one may."""
    extra = value.get("extraEnabled") if isinstance(value, Mapping) else None
    work.narrowed.add(at)
    if extra:
        _protections(work, {"extraEnabled": extra}, at, plugins)
    if not extra or set(value) != {"extraEnabled"}:
        work.drop(at, _DISAGREE.format("set of rules of eviction"))


def _evictor(work: Import, evictor: Arguments, plugins: Collection[str]) -> None:
    values = evictor.values
    protections = evictor.values.get("podProtections")
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
                _lift(work, evictor.where(key), key, plugins)
    if protections == {}:
        work.note(evictor.where("podProtections"), KeyFate.IDLE, "it names none")
    elif isinstance(protections, Mapping):
        _protections(work, protections, evictor.where("podProtections"), plugins)
    _selection(work, evictor)
    if "nodeFit" in values:
        why = "always: each landing is computed with the scheduler's own filters"
        work.note(evictor.where("nodeFit"), KeyFate.CHANGED, why)
    if "noEvictionPolicy" in values:
        why = "pods with the annotation prefer-no-eviction are never evicted"
        fate = KeyFate.MAPPED if values["noEvictionPolicy"] == "Mandatory" else KeyFate.CHANGED
        work.note(evictor.where("noEvictionPolicy"), fate, why)
    drop_unseen_arguments(work, evictor, NO_SETTING)


def _lift(work: Import, path: Path, name: str, plugins: Collection[str]) -> None:
    """What lifts a protection that nothing lifts here, but for failed pods without a controller."""
    if name in _BARE and "RemoveFailedPods" in plugins:
        work.set(path, "strategies.failed.barePods", value=True)
    elif name in _BARE and "PodLifeTime" in plugins:
        work.drop(path, "strategies.lifetime.barePods would remove pods that have succeeded as well")
    elif name in _BARE:
        work.note(path, KeyFate.IDLE, "it takes effect only where RemoveFailedPods is enabled")
    else:
        work.drop(path, _NEVER.get(name, NO_SETTING))


def protect(work: Import, path: Path, name: str, *, protected: bool) -> None:
    """Protect a kind of pod, or no longer; what we protect by default stays protected."""
    if name not in {str(kind) for kind in Protection}:
        work.drop(path, NO_SETTING)
        return
    current = work.policy.get("evictable", {}).get("protect", [str(kind) for kind in Evictable().protect])
    kinds = [kind for kind in (*current, name) if protected or kind != name]
    work.set(path, "evictable.protect", list(dict.fromkeys(kinds)))


def _protections(work: Import, value: Mapping[str, Any], at: Path, plugins: Collection[str]) -> None:
    disabled = value.get("defaultDisabled")
    extra = value.get("extraEnabled")
    if not any(value.values()):
        work.note(at, KeyFate.MAPPED, "it changes nothing, as descheduler's chart has it")
    for index, name in enumerate(disabled if isinstance(disabled, list) else ()):
        path: Path = (*at, "defaultDisabled", index)
        if name in _UNDO:
            protect(work, path, _UNDO[name], protected=False)
        else:
            _lift(work, path, str(name), plugins)
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
    protected = entries if isinstance(entries, list) else ()
    names = [
        str(protected_class["name"])
        for protected_class in protected
        if isinstance(protected_class, Mapping) and protected_class.get("name")
    ]
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
        protections = values.get("podProtections")
        lifted = protections.get("defaultDisabled") if isinstance(protections, Mapping) else None
        lifts = isinstance(lifted, list) and "SystemCriticalPods" in lifted
        if lifts or values.get("evictSystemCriticalPods") is True:
            why = "it holds here, and not there where pods of the system priority classes are not protected"
            work.note(evictor.where("priorityThreshold"), KeyFate.CHANGED, why)
        _priority(work, threshold, "value", "name", evictor.where("priorityThreshold"))
    at = evictor.where("thresholdPriority")[:-1]
    _priority(work, values, "thresholdPriority", "thresholdPriorityClassName", at)
    places = {key: evictor.where(key)[:-1] for key in values}
    replicas = "and SingleReplica stays protected"
    for key, kind, ours, text in (
        ("minReplicas", int, "evictable.minReplicas", replicas),
        ("labelSelector", Mapping, "evictable.podSelector", ""),
        ("namespaceLabelSelector", Mapping, "evictable.namespaceSelector", ""),
    ):
        if key in values and ours.partition(".")[2] in _keys(Evictable):
            work.take(places[key], values, key, kind, ours, text)
    if isinstance(age := values.get("minPodAge"), str):
        if _is_duration(age):
            since = "since a pod was created, there since it has started"
            work.take(places["minPodAge"], values, "minPodAge", str, "evictable.minAge", since)
        else:
            work.drop(evictor.where("minPodAge"), f"evictable.minAge cannot be {as_written(age)}")
    if values.get("nodeSelector"):  # of nodes that pods may go to; that of the file is of those they leave
        where = evictor.where("nodeSelector")
        if values.get("nodeFit") is True:
            work.drop(
                where, "one of these nodes must take a pod there; here it may land on any that serves it"
            )
        else:
            work.note(where, KeyFate.IDLE, "it takes effect only with nodeFit")


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


def _keys(model: type[PolicyModel]) -> set[str]:
    return {str(field.alias) for field in model.model_fields.values()}


def _priority(work: Import, values: Mapping[str, Any], value: str, name: str, at: Path) -> None:
    work.take(at, values, value, int, "evictable.priorityBelow")
    if not (named := values.get(name)):
        return
    if str(named) in _CLASSES:
        work.set((*at, name), "evictable.priorityBelow", min(_CLASSES.values()))
        return
    work.write("evictable.priorityBelow", _NOBODY)
    why = "evictable.priorityBelow keeps every pod until you write the value of that class there"
    work.drop((*at, name), f"{why}: kubectl get priorityclass {named!s:.60} -o jsonpath='{{.value}}'")


def only_nodes(work: Import, text: str, at: Path) -> None:
    """Let pods leave only the nodes of a selector that is written as text."""
    requirements = parse_selector(text)
    if requirements is None:
        work.write("limits.perRun", 0)
        why = (
            "limits.perRun 0 keeps every pod until you write it as hotNodes.nodeSelector and as limits.scoped"
        )
        work.drop(at, f"{why}, with matchExpressions, and your own perRun")
        return
    if not requirements:
        work.note(at, KeyFate.IDLE, "it selects all nodes")
        return
    others = [as_selector([opposite(requirement)]) for requirement in requirements]
    distinct = [selector for at, selector in enumerate(others) if selector not in others[:at]]
    work.write("limits.scoped", [{"nodeSelector": selector, "perRun": 0} for selector in distinct])
    why = "with limits.scoped pods leave only these nodes; others still receive"
    work.set(at, "hotNodes.nodeSelector", as_selector(requirements), why)


# Where plugins act.


def _for_all(plugins: Sequence[Plugin], argument: str, setting: str) -> tuple[list[Plugin], bool]:
    """The plugins whose argument must hold for all of them, and whether all state the same.

    Where they do not, a strategy that has such a setting itself takes what its own plugins state alike.
    """
    values = [plugin.argument(argument) or None for plugin in plugins]  # an empty one chooses all
    stated = [plugin for plugin, value in zip(plugins, values, strict=True) if isinstance(value, Mapping)]
    if all(value == values[0] for value in values):
        return stated, True
    return [plugin for plugin in stated if not _is_own(plugin, plugins, argument, setting)], False


def _is_own(plugin: Plugin, plugins: Sequence[Plugin], argument: str, setting: str) -> bool:
    ours = replacing(plugin.name)
    if ours is None or setting not in _keys(ours[0].settings_type):
        return False
    for other in plugins:
        replacement = replacing(other.name)
        if replacement is None or replacement[0] is not ours[0]:
            continue
        if other.argument(argument) != plugin.argument(argument):
            return False
    return True


def _once_each(work: Import, plugins: Sequence[Plugin]) -> list[Plugin]:
    """The plugins, without those that are enabled twice with different arguments."""
    once: list[Plugin] = []
    for plugin in plugins:
        if all(earlier.name != plugin.name or _are_alike(earlier, plugin) for earlier in once):
            once.append(plugin)
        else:
            leave_out(work, plugin, _TWICE)
    return once


def _are_alike(plugin: Plugin, other: Plugin) -> bool:
    """Whether one strategy does what two plugins of a name do; rules by load stand beside each other."""
    if plugin.name == "LowNodeUtilization":
        return bool(plugin.argument("metricsUtilization") == other.argument("metricsUtilization"))
    return plugin.arguments.values == other.arguments.values


def _namespaces(work: Import, plugins: Sequence[Plugin], spared: Sequence[str]) -> list[Plugin]:
    """Map the namespaces of plugins: what one of them excludes is excluded, what all include is included.

    Returns those that share any with those before them.
    """
    stated, alike = _for_all(plugins, "namespaces", "namespaces")
    excluded = (*spared, *(name for plugin in stated for name in _named(plugin, "exclude")))
    common: list[str] = []
    for plugin in stated:
        included = _named(plugin, "include")
        names = [name for name in included if not namespace_matches(name, excluded)]
        names = [name for name in names if not common or name in common]
        if included and not names:
            leave_out(work, plugin, _ELSEWHERE.format("evictable.namespaces"))
            return _namespaces(work, [other for other in plugins if other is not plugin], spared)
        common = names or common
    paths = [plugin.arguments.where(plugin.namespaces) for plugin in stated]
    work.narrowed |= set() if alike else set(paths)
    for plugin, path in zip(stated, paths, strict=True):
        work.seen.add(path)
        if _named(plugin, "include"):
            work.add((*path, "include"), "evictable.namespaces.include", common)
        if isinstance(plugin.argument("namespaces").get("exclude"), list):
            work.add((*path, "exclude"), "evictable.namespaces.exclude", _named(plugin, "exclude"))
    return list(plugins)


def _named(plugin: Plugin, key: str) -> list[str]:
    """The namespaces that a plugin includes or excludes."""
    names = plugin.argument("namespaces").get(key)
    return list(dict.fromkeys(str(name) for name in names)) if isinstance(names, list) else []


def _pod_selectors(work: Import, plugins: Sequence[Plugin]) -> None:
    """Map the labels that plugins ask for: where they ask for others, pods must have all of them."""
    stated, alike = _for_all(plugins, "labelSelector", "podSelector")
    of_evictor = work.policy.get("evictable", {}).get("podSelector")
    values = [of_evictor] if isinstance(of_evictor, Mapping) else []
    values += [plugin.argument("labelSelector") for plugin in stated]
    for plugin in stated:
        path = plugin.arguments.where("labelSelector")
        work.narrowed |= set() if alike else {path}
        work.set(path, "evictable.podSelector", together(values))


# Selectors of labels, and the strictest of several values.

Requirement = Mapping[str, Any]  # an entry of matchExpressions

_OPPOSITE = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}


def parse_selector(text: str) -> list[Requirement] | None:
    """The requirements of a selector as kubectl writes it; None for one that asks for something else."""
    try:
        return [
            msgspec.to_builtins(requirement) for requirement in parse_labels(text).match_expressions or ()
        ]
    except ValueError:
        return None


def opposite(requirement: Requirement) -> Requirement:
    """What selects exactly the objects that do not meet a requirement."""
    values = {"values": [*requirement["values"]]} if "values" in requirement else {}
    return {**requirement, "operator": _OPPOSITE[requirement["operator"]], **values}


def as_selector(requirements: Sequence[Requirement]) -> dict[str, Any]:
    """A selector of all the requirements, as short as it can be written."""
    unlike = [
        requirement for at, requirement in enumerate(requirements) if requirement not in requirements[:at]
    ]
    plain = all(requirement["operator"] == "In" and len(requirement["values"]) == 1 for requirement in unlike)
    if plain and len({requirement["key"] for requirement in unlike}) == len(unlike):
        return {"matchLabels": {requirement["key"]: requirement["values"][0] for requirement in unlike}}
    return {"matchExpressions": unlike}


def together(selectors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One that selects what all of them select; one that is not well-formed stays as it is, to be refused."""
    first = dict(selectors[0])
    if all(selector == selectors[0] for selector in selectors):
        return first
    requirements: list[Requirement] = []
    for selector in selectors:
        labels = selector.get("matchLabels") or {}
        expressions = selector.get("matchExpressions") or []
        sound = isinstance(labels, Mapping) and isinstance(expressions, list)
        if not sound or not all(isinstance(expression, Mapping) for expression in expressions):
            return dict(selector)
        requirements += [{"key": key, "operator": "In", "values": [labels[key]]} for key in labels]
        requirements += expressions
    if any(requirement.get("operator") not in _OPPOSITE for requirement in requirements):
        return first | {"matchExpressions": requirements}
    return as_selector(requirements)


def strictest(key: str, values: Sequence[Any]) -> Any:
    """The strictest of the values; None where they cannot be compared."""
    kind, choose = _CHOICES.get(key, (None, max))
    return choose(values) if all(type(value) is kind for value in values) else None


def _longest(values: Sequence[str]) -> str | None:
    try:
        return max(values, key=parse_duration)
    except ValueError:
        return None


def _threshold(values: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The lowest threshold. One that names a class wins: its value is not known, so it may be the lowest."""
    stated = [value for value in values if value]
    named = next((value for value in stated if value.get("name")), None)
    if named is not None:
        return dict(named)
    amounts: list[Any] = [value.get("value") for value in stated]
    return {"value": min(amounts)} if all(map(is_number, amounts)) else None


_CHOICES: Mapping[str, tuple[type, Callable[[Sequence[Any]], Any]]] = {
    "minReplicas": (int, max),
    "minPodAge": (str, _longest),
    "thresholdPriority": (int, min),
    "priorityThreshold": (dict, _threshold),
    "ignorePvcPods": (bool, any),
    "ignorePodsWithoutPDB": (bool, any),
    "nodeFit": (bool, any),
    "noEvictionPolicy": (str, min),  # Mandatory comes before Preferred
    "labelSelector": (dict, together),
    "namespaceLabelSelector": (dict, together),
}
