"""What each plugin becomes: the strategy that declares to replace it, with its arguments as settings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError

from rebalancer.documents.models import did_you_mean
from rebalancer.documents.reading import Path
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.load_sources import Prometheus, Signal, check_signals
from rebalancer.policy.model import is_extended
from rebalancer.policy.schema import SYSTEM_NAMESPACE
from rebalancer.policy_import.mapping import Import, KeyFate

NO_SETTING = "no setting of ours does this"
_CONDITION = {"minTimeSinceLastTransitionSeconds": "minSince"}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "RemovePodsViolatingNodeTaints": {"includePreferNoSchedule": False},
    "RemovePodsViolatingTopologySpreadConstraint": {
        "constraints": ["DoNotSchedule"],
        "includeSoftConstraints": False,
        "topologyBalanceNodeFit": True,
    },
}
"""Arguments that our strategy already implies."""
_CHOOSING = (
    "namespaces",
    "labelSelector",
    "states",
    "podStatusPhases",
    "conditions",
    "exitCodes",
    "reasons",
    "maxPodLifeTimeSeconds",
    "minPodLifetimeSeconds",
    "podRestartThreshold",
    "thresholds",
)
"""Arguments without which a plugin would evict more."""
_COMMON = {"labelSelector": "podSelector"}  # how strategies name what many plugins have
_MEASURED = ("cpu", "memory", "pods")
_PERCENT = 100
_MAX_SHOWN_LENGTH = 60


class Arguments(msgspec.Struct, frozen=True):
    """Arguments, and where they stand."""

    values: Mapping[str, Any]
    at: Path
    places: Mapping[str, Path] = {}  # of those that stand elsewhere

    def where(self, name: str) -> Path:
        """Where an argument stands."""
        return self.places.get(name, (*self.at, name))


class PrometheusProvider(msgspec.Struct, frozen=True):
    """The Prometheus that a policy names, and where."""

    server: Mapping[str, Any]
    at: Path


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


def drop_unseen_arguments(
    work: Import, arguments: Arguments, why: str, defaults: Collection[str] = ()
) -> None:
    """Say of the arguments that nobody looked at that they are not mapped, or do nothing there either."""
    for key in arguments.values:
        here = arguments.where(key)
        if work.has_seen(here):
            continue
        if key not in defaults and arguments.values[key] in (None, False, "", [], {}):
            work.note(here, KeyFate.IDLE, "it is what descheduler does without it")
        else:
            work.drop(here, why)


def leave_out(work: Import, plugin: Plugin, why: str) -> None:
    """Say of a plugin that it has no place in this policy, and of its arguments nothing."""
    work.drop(plugin.path, why)
    work.seen.add(plugin.arguments.at)


def replacing(name: str) -> tuple[type[Strategy], Replaced] | None:
    """The strategy that takes the place of a plugin, and how."""
    return next(((ours, ours.replaces[name]) for ours in STRATEGIES if name in ours.replaces), None)


def _turns_on_settings_alone(choices: Mapping[str, str], values: Any) -> bool:
    """Whether it is a list of which each value turns a setting on."""
    return isinstance(values, list) and all(choices.get(str(value), "") for value in values)


def map_plugin(work: Import, plugin: Plugin, prometheus: PrometheusProvider | None = None) -> None:
    """Map a plugin that a file enables; ``prometheus`` is where its queries are asked."""
    if plugin.name == "LowNodeUtilization":
        metrics = plugin.argument("metricsUtilization")
        sources = ("metricsServer", "source", "prometheus")
        if isinstance(metrics, Mapping) and not any(map(metrics.get, sources)):
            leave_out(work, plugin, "its metricsUtilization names no source: it does nothing there either")
        else:
            _low_node_utilization(work, plugin, prometheus)
        return
    replacement = replacing(plugin.name)
    if replacement is None:
        names = ["LowNodeUtilization", *(name for ours in STRATEGIES for name in ours.replaces)]
        meant = did_you_mean(plugin.name, names, fallback="keep descheduler for it")
        work.drop(plugin.path, f"no strategy of ours has this aim; {meant}")
        work.seen.add(plugin.arguments.at)
        return
    ours, replaced = replacement
    place = f"strategies.{ours.name}"
    enabled = work.policy.setdefault("strategies", {})
    settings = dict(before) if isinstance(before := enabled.get(ours.name), dict) else {}
    defaults = _DEFAULTS.get(plugin.name, {})
    stated = plugin.arguments.values
    lost = [
        argument
        for argument, value in {**replaced.defaults, **stated}.items()
        if not work.has_seen(plugin.arguments.where(argument))
        and not _argument(work, plugin, argument, value, settings)
        and argument in _CHOOSING
    ]
    if lost:
        leave_out(work, plugin, f"without {lost[0]} it would evict more than there")
        if len(ours.replaces) == 1:
            enabled.pop(ours.name, None)
        return
    chosen_alone = any(
        _turns_on_settings_alone(choices, stated.get(argument))
        for argument, choices in replaced.choices.items()
    )
    for setting, items in replaced.adds.items():
        added = () if chosen_alone else items
        settings[setting] = list(dict.fromkeys((*settings.get(setting, ()), *added)))
    enabled[ours.name] = settings or True
    fate = KeyFate.CHANGED if replaced.difference else KeyFate.MAPPED
    work.note(plugin.path, fate, f"{place}{replaced.difference and ': '}{replaced.difference}")
    drop_unseen_arguments(work, plugin.arguments, f"{place} has no such setting", defaults)


def _argument(work: Import, plugin: Plugin, argument: str, value: Any, settings: dict[str, Any]) -> bool:
    """Map an argument of a plugin to settings of its strategy; whether they can say what it says."""
    replacement = replacing(plugin.name)
    assert replacement is not None
    ours, replaced = replacement
    place = f"strategies.{ours.name}"
    where = plugin.arguments.where(argument)
    setting = replaced.settings.get(argument, _COMMON.get(argument, argument))
    value = _as_ours(argument, value)
    choices = replaced.choices.get(argument, {})
    defaults = _DEFAULTS.get(plugin.name, {})
    if value == [] and argument in defaults:
        work.note(where, KeyFate.IDLE, "it is what descheduler does without it")
    elif (
        choices
        and isinstance(value, list)
        and all(isinstance(choice, str) and choice in choices for choice in value)
    ):
        chosen = [choices[choice] for choice in value if choices[choice]]
        settings.update(dict.fromkeys(chosen, True))
        work.note(where, KeyFate.MAPPED, ", ".join(f"{place}.{name}" for name in chosen) or place)
    elif argument in defaults and value == defaults[argument]:
        work.note(where, KeyFate.MAPPED, place)
    elif argument == "ownerKinds" and _fits(ours, settings | dict(_owner_kinds(value))):
        settings |= dict(_owner_kinds(value))
        work.note(where, KeyFate.MAPPED, ", ".join(f"{place}.{name}" for name, _ in _owner_kinds(value)))
    elif value is not None and _fits(ours, {**settings, setting: value}):
        settings[setting] = value
        detail = "" if argument in plugin.arguments.values else f": {value}, which is the default there"
        fate = KeyFate.MAPPED
        if argument == "namespaces" and SYSTEM_NAMESPACE in (value.get("include") or ()):
            fate = KeyFate.NARROWED
            detail = f": {SYSTEM_NAMESPACE} stays out, by evictable.namespaces"
        work.note(where, fate, f"{place}.{setting}{detail}")
    elif argument == "conditions" and (fitting := _fitting(ours, settings, setting, value)):
        settings[setting] = fitting  # a pod must meet one of them, so fewer conditions choose fewer pods
        work.drop(where, f"{place}.{setting} has only those that it can ask for")
    elif value is not None and setting in {field.alias for field in ours.settings_type.model_fields.values()}:
        work.drop(where, f"{place}.{setting} cannot be {as_written(value)}")
        return False
    return True


def _fitting(ours: type[Strategy], settings: Mapping[str, Any], setting: str, values: Any) -> list[Any]:
    """Those of a list that the setting of a strategy may have; none where there is no list."""
    if not isinstance(values, list):
        return []
    return [value for value in values if _fits(ours, {**settings, setting: [value]})]


def as_written(value: Any) -> str:
    """A value as a file may write it, short enough for a note."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[: _MAX_SHOWN_LENGTH - 1]}…"


def _as_ours(argument: str, value: Any) -> Any:
    """A value with times as our settings write them, those of conditions as well."""
    if isinstance(value, Mapping):
        return {_CONDITION.get(key, key): _as_ours(key, part) for key, part in value.items()}
    if isinstance(value, list):
        items = [_as_ours("", part) for part in value]
        return [part for at, part in enumerate(items) if part not in items[:at]]
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


_OF_A_QUERY = "MetricResource"  # what descheduler calls the values of a query
_SIGNAL = "metricResource"
_QUERIES = TypeAdapter(Mapping[str, Signal])
_SERVER = TypeAdapter(Prometheus)


def _signal(work: Import, plugin: Plugin, prometheus: PrometheusProvider | None) -> str:
    """The name of the signal that asks the query of a plugin; empty where a signal cannot, which is said."""
    where = plugin.arguments.where("metricsUtilization")
    metrics = plugin.argument("metricsUtilization")
    asked = metrics.get("prometheus")
    query = asked.get("query") if isinstance(asked, Mapping) else None
    if not isinstance(query, str):
        work.drop(where, "rebalancer cannot see its query here")
        return ""
    load = work.policy.setdefault("load", {})
    signals = load.setdefault("signals", {})
    signal = {"query": query, "capacity": "1"}
    name = next((signal_name for signal_name, value in signals.items() if value == signal), "")
    name = name or f"{_SIGNAL}{len(signals) + 1 if signals else ''}"
    try:
        check_signals(_QUERIES.validate_python({name: signal}))
    except ValueError as error:
        if not signals:
            load.pop("signals")
        work.drop(where, f"its query is no load that a pod takes along: {_problem(error)}")
        return ""
    signals[name] = signal
    load["sources"] = [{"prometheus": _server(work, prometheus)}]
    work.note(
        where,
        KeyFate.CHANGED,
        f"load.signals.{name}: its query is the load of a node there too; a pod has the part of it that it "
        "has of the requests of cpu, unless podQuery asks for it",
    )
    return name


def _server(work: Import, prometheus: PrometheusProvider | None) -> dict[str, Any]:
    """The source of load for the Prometheus that a policy names."""
    if prometheus is None:
        return {}
    server = prometheus.server
    url = server.get("url")
    settings: dict[str, Any] = {}
    try:
        settings = {"address": _SERVER.validate_python({"address": url}).address} if url else {}
        if url:
            work.note((*prometheus.at, "url"), KeyFate.MAPPED, "load.sources: prometheus.address")
    except ValueError as error:
        work.drop((*prometheus.at, "url"), f"load.sources cannot have this address: {_problem(error)}")
    if "authToken" in server:
        work.drop(
            (*prometheus.at, "authToken"),
            "a policy names a file and no Secret: mount the Secret into rebalancer's pod, and name its file "
            "in load.sources as prometheus.bearerTokenFile. Tokens go over https only",
        )
    for key in server:
        if not work.has_seen((*prometheus.at, key)):
            work.drop((*prometheus.at, key), NO_SETTING)
    work.seen.add(prometheus.at[:1])
    return settings


def _problem(error: ValueError) -> str:
    """What a check complains of, without the frame that pydantic puts around it."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return str(first["msg"]).removeprefix("Value error, ")
    return str(error)


def _low_node_utilization(work: Import, plugin: Plugin, prometheus: PrometheusProvider | None) -> None:
    """The one plugin about load: its targets are our rule; its thresholds the scheduler decides."""
    arguments = plugin.arguments
    values = plugin.arguments.values
    metrics = values.get("metricsUtilization")
    deviation = values.get("useDeviationThresholds") is True
    of_prometheus = isinstance(metrics, Mapping) and (
        metrics.get("source") == "Prometheus" or "prometheus" in metrics
    )
    signal = _signal(work, plugin, prometheus) if of_prometheus else ""
    if isinstance(targets := values.get("targetThresholds"), Mapping):
        _targets(work, targets, arguments.where("targetThresholds"), deviation=deviation, signal=signal)
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
        why = f"{rule}: load is what pods request, as there; other load.sources know more"
    elif of_prometheus:
        load.setdefault("sources", [{"requests": {}}])
        why = f"{rule}: for what load is read, see metricsUtilization"
    else:
        load["sources"] = [{"metricsServer": {}}]
        why = rule
        work.note(arguments.where("metricsUtilization"), KeyFate.MAPPED, "load.sources: metricsServer")
    if hot:
        work.note(plugin.path, KeyFate.CHANGED, why)
    else:
        work.drop(plugin.path, "none of its targetThresholds is one of cpu, memory or pods: no node is hot")
    if isinstance(limit := values.get("evictionLimits"), Mapping):
        work.tighten(arguments.where("evictionLimits"), limit, "node", "limits.perNode")
    drop_unseen_arguments(work, arguments, NO_SETTING)


def _targets(work: Import, targets: Mapping[str, Any], at: Path, *, deviation: bool, signal: str) -> None:
    """Map the thresholds above which nodes are hot; ``signal`` is what the plugin's query is called here."""
    thresholds = {}
    rule = "deviation" if deviation else "utilization"
    for name, percent in targets.items():
        resource = signal if signal and name == _OF_A_QUERY else name
        if resource != signal and resource not in _MEASURED and not is_extended(resource):
            message = f"no source measures {resource}; name it in load.signals with a query of yours"
            work.drop((*at, name), message)
        elif not isinstance(percent, int | float) or isinstance(percent, bool):
            work.drop((*at, name), "this is not a percentage")
        elif not 0 < percent <= _PERCENT:
            work.drop((*at, name), f"hotNodes.any[].{rule} cannot be {percent}")
        else:
            thresholds[resource] = percent
    if thresholds:
        rules = work.policy.setdefault("hotNodes", {}).setdefault("any", [])
        levels = {rule: thresholds, "coolTo": dict(thresholds)}
        if levels not in rules:
            rules.append(levels)
        why = "coolTo is the same level, as descheduler stops there; a lower one makes fewer moves later"
        work.note(at, KeyFate.CHANGED, f"hotNodes.any[].{rule}: {why}")
