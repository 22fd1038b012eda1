"""One written profile to a ``Profile``: decoded strictly, merged with defaults, expanded, checked.

Merging and expanding follow kube-scheduler: kubernetes v1.34.4
pkg/scheduler/apis/config/v1/default_plugins.go:85.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import Field

from rebalancer.documents import Document, Path
from rebalancer.documents.models import did_you_mean, validate
from rebalancer.profiles.types import (
    DEFAULTS,
    GROUP,
    MAX_INT32,
    Arguments,
    Extender,
    ExtensionPoint,
    PluginDescription,
    Profile,
    RawArguments,
    VersionDefaults,
)

MULTI_POINT = "multiPoint"
ALL = "*"
NEUTRAL_POINTS = frozenset(
    (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
)
"""Where a plugin that is assumed neutral takes part when it is enabled through multiPoint."""


def as_read(value: Any) -> Any:
    """A value as Kubernetes reads it: a null field is an absent one, and 1.048576e+06 a whole number."""
    if isinstance(value, dict):
        return {key: as_read(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [as_read(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class WrittenPlugin(Arguments):
    """A plugin's name, and its weight where it scores."""

    name: str = Field(min_length=1)
    weight: int = Field(default=0, ge=0, le=MAX_INT32)


PluginList = tuple[WrittenPlugin, ...]


class WrittenPluginSet(Arguments):
    """What is enabled and disabled at an extension point."""

    enabled: PluginList = ()
    disabled: PluginList = ()


_NONE = WrittenPluginSet.model_construct()  # not validated: that would build a schema for each point


class WrittenPlugins(Arguments):
    """The plugin sets of a profile."""

    pre_enqueue: WrittenPluginSet = _NONE
    queue_sort: WrittenPluginSet = _NONE
    pre_filter: WrittenPluginSet = _NONE
    filter: WrittenPluginSet = _NONE
    post_filter: WrittenPluginSet = _NONE
    pre_score: WrittenPluginSet = _NONE
    score: WrittenPluginSet = _NONE
    reserve: WrittenPluginSet = _NONE
    permit: WrittenPluginSet = _NONE
    pre_bind: WrittenPluginSet = _NONE
    bind: WrittenPluginSet = _NONE
    post_bind: WrittenPluginSet = _NONE
    multi_point: WrittenPluginSet = _NONE
    # Since 1.36, two of them since 1.38; of pod groups as a whole, which are not modelled.
    placement_generate: WrittenPluginSet = _NONE
    placement_feasible: WrittenPluginSet = _NONE
    rank_nodes: WrittenPluginSet = _NONE
    placement_score: WrittenPluginSet = _NONE
    pod_group_post_filter: WrittenPluginSet = _NONE

    def at(self, point: str) -> WrittenPluginSet:
        """The set under a key of the text, ``preFilter`` or ``multiPoint``."""
        field = next(name for name, info in type(self).model_fields.items() if (info.alias or name) == point)
        plugin_set: WrittenPluginSet = getattr(self, field)
        return plugin_set


class WrittenPluginConfig(Arguments):
    """The arguments of one plugin."""

    name: str = Field(min_length=1)
    args: dict[str, Any] = Field(default={})


class WrittenProfile(Arguments):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = Field(default=None, ge=0, le=100)
    percentage_of_placements_to_score: int | None = Field(default=None, ge=0, le=100)  # of pod groups
    plugins: WrittenPlugins = WrittenPlugins.model_construct()
    plugin_config: tuple[WrittenPluginConfig, ...] = ()


class WrittenLeaderElection(Arguments):
    """How replicas choose their leader; of the times only that they are texts matters here."""

    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class WrittenConfiguration(Arguments):
    """The whole document; what does not bear on placement is only required to exist."""

    api_version: str
    kind: str
    parallelism: int = Field(default=16, ge=1)
    leader_election: WrittenLeaderElection | None = None
    client_connection: dict[str, Any] | None = None
    healthz_bind_address: str | None = None
    metrics_bind_address: str | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int = Field(default=0, ge=0, le=100)
    percentage_of_placements_to_score: int | None = Field(default=None, ge=0, le=100)  # of pod groups
    pod_initial_backoff_seconds: int | None = Field(default=None, ge=1)
    pod_max_backoff_seconds: int | None = Field(default=None, ge=1)
    delay_cache_until_active: bool | None = None
    profiles: tuple[WrittenProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()


class Entry(msgspec.Struct, frozen=True):
    """A plugin enabled somewhere: its weight (0: none given) and where that was written (None: a default)."""

    name: str
    weight: int = 0
    path: Path | None = None


class MergedSet(msgspec.Struct, frozen=True):
    """What is enabled at a point after merging, in order, and the names that are disabled."""

    enabled: tuple[Entry, ...] = ()
    disabled: frozenset[str] = frozenset()


class Expanded(msgspec.Struct, frozen=True):
    """The plugins of a profile at each extension point, in final order, and the weights of scores."""

    plugins: Mapping[ExtensionPoint, tuple[Entry, ...]]
    weights: Mapping[str, int] = {}


class Context(msgspec.Struct, frozen=True):
    """What the profiles of one document are built with; ``warnings`` collects what is odd but not wrong."""

    document: Document
    version: str
    descriptions: Mapping[str, PluginDescription]  # to this version, and extra ones
    catalogue: Mapping[str, PluginDescription]  # of every version
    assume_neutral: frozenset[str]
    warnings: list[str] = []

    def implements(self, name: str, point: ExtensionPoint) -> bool:
        """Whether multiPoint brings a plugin to an extension point."""
        description = self.descriptions.get(name)
        return point in (description.points if description else NEUTRAL_POINTS)


def merge(defaults: VersionDefaults, written: WrittenPlugins, base: Path) -> dict[str, MergedSet]:
    """Every plugin set of a profile with the defaults of its version, by key of the text."""
    keys = (MULTI_POINT, *ExtensionPoint) if defaults.has_multi_point else tuple(ExtensionPoint)
    merged = {}
    for key in keys:
        point = str(key)
        default = tuple(Entry(name, weight) for name, weight in defaults.points.get(point, ()))
        merged[point] = _merge_set(
            default, written.at(point), (*base, point, "enabled"), in_place=defaults.replaces_in_place
        )
    return merged


def _merge_set(
    default: tuple[Entry, ...], written: WrittenPluginSet, base: Path, *, in_place: bool
) -> MergedSet:
    """As mergePluginSet does (default_plugins.go:111)."""
    disabled = frozenset(plugin.name for plugin in written.disabled)
    custom = [
        Entry(plugin.name, plugin.weight, (*base, index)) for index, plugin in enumerate(written.enabled)
    ]
    enabled: list[Entry] = []
    if ALL not in disabled:
        for entry in default:
            if entry.name in disabled:
                continue
            replacement = next((own for own in custom if own.name == entry.name), None) if in_place else None
            if replacement is not None:
                custom.remove(replacement)
            enabled.append(replacement or entry)
    return MergedSet((*enabled, *custom), disabled)


def expand(merged: Mapping[str, MergedSet], path: Path, context: Context) -> Expanded:
    """The final order at each extension point; InputError when a plugin is enabled twice at one."""
    for key, plugin_set in merged.items():
        _refuse_twice(plugin_set.enabled, key, path, context)
    multi_point = merged.get(MULTI_POINT, MergedSet())
    plugins = {
        point: _expand_point(point, merged[point.value], multi_point, context) for point in ExtensionPoint
    }
    scoring = (*merged[ExtensionPoint.SCORE.value].enabled, *multi_point.enabled)
    given: dict[str, int] = {}
    for entry in scoring:
        given.setdefault(entry.name, entry.weight or 1)
    return Expanded(plugins, {entry.name: given[entry.name] for entry in plugins[ExtensionPoint.SCORE]})


def _expand_point(
    point: ExtensionPoint, own: MergedSet, multi_point: MergedSet, context: Context
) -> tuple[Entry, ...]:
    """Overrides, then MultiPoint's, then the point's other ones (expandMultiPointPlugins)."""
    if ALL in own.disabled:
        return own.enabled
    named = {entry.name for entry in own.enabled}
    spread = [
        entry
        for entry in multi_point.enabled
        if context.implements(entry.name, point) and entry.name not in own.disabled
    ]
    overridden = {entry.name for entry in spread} & named
    return (
        *(entry for entry in own.enabled if entry.name in overridden),
        *(entry for entry in spread if entry.name not in named),
        *(entry for entry in own.enabled if entry.name not in overridden),
    )


def _refuse_twice(entries: tuple[Entry, ...], point: str, path: Path, context: Context) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise context.document.error(
                (*(entry.path or path), "name"),
                f"plugin {entry.name} is enabled twice at {point}",
                hint="disable the default first, or list it once",
            )
        seen.add(entry.name)


def named_plugins(configuration: WrittenConfiguration) -> frozenset[str]:
    """Every plugin that is enabled, disabled or configured somewhere."""
    names: set[str] = set()
    for profile in configuration.profiles:
        names |= {config.name for config in profile.plugin_config}
        for point in type(profile.plugins).model_fields:
            at: WrittenPluginSet = getattr(profile.plugins, point)
            names |= {plugin.name for plugin in (*at.enabled, *at.disabled)}
    return frozenset(names - {ALL})


def _names(entries: tuple[Entry, ...]) -> tuple[str, ...]:
    return tuple(entry.name for entry in entries)


def build_profile(
    written: WrittenProfile | None, scheduler_name: str, path: Path, context: Context
) -> Profile:
    """A profile; InputError for what would keep the scheduler from starting and for undescribed plugins."""
    written = written or WrittenProfile.model_construct()
    plugins_path = (*path, "plugins")
    defaults = DEFAULTS[context.version]
    if not defaults.has_multi_point and written.plugins.multi_point != _NONE:
        raise context.document.error(
            (*plugins_path, MULTI_POINT),
            f"is not read in {context.version}",
            hint="list the points one by one",
        )
    if not defaults.has_percentage_of_profiles and written.percentage_of_nodes_to_score is not None:
        raise context.document.error(
            (*path, "percentageOfNodesToScore"),
            f"profiles of {context.version} have none",
            hint="it stands at the top, for all profiles",
        )
    _warn_of_unknown_disabled(written.plugins, plugins_path, context)
    merged = merge(defaults, written.plugins, plugins_path)
    _check_entries(merged, context)
    expanded = expand(merged, plugins_path, context)
    _check_required(expanded, plugins_path if written.plugins.model_fields_set else path, context)
    return Profile(
        scheduler_name=scheduler_name,
        plugins={point: _names(entries) for point, entries in expanded.plugins.items()},
        weights=expanded.weights,
        arguments=_arguments(written, expanded, path, context),
        percentage_of_nodes_to_score=written.percentage_of_nodes_to_score,
    )


def _warn_of_unknown_disabled(plugins: WrittenPlugins, path: Path, context: Context) -> None:
    for point in (MULTI_POINT, *(point.value for point in ExtensionPoint)):
        for index, plugin in enumerate(plugins.at(point).disabled):
            if (
                plugin.name == ALL
                or plugin.name in context.descriptions
                or plugin.name in context.assume_neutral
            ):
                continue
            where = context.document.error((*path, point, "disabled", index, "name"), "").where
            context.warnings.append(
                f"{where}: {plugin.name} is not a plugin of {context.version}; disabling it does nothing"
            )


def _check_entries(merged: Mapping[str, MergedSet], context: Context) -> None:
    """Every enabled plugin is known or assumed neutral, and implements the point it is enabled at."""
    unknown: dict[str, Path] = {}
    for point, plugin_set in merged.items():
        for entry in plugin_set.enabled:
            if entry.path is None:
                continue
            name_path = (*entry.path, "name")
            description = context.descriptions.get(entry.name)
            if description is None:
                if entry.name not in context.assume_neutral:
                    unknown.setdefault(entry.name, name_path)
            elif point != MULTI_POINT and ExtensionPoint(point) not in description.points:
                listed = ", ".join(p.value for p in ExtensionPoint if p in description.points)
                raise context.document.error(
                    name_path,
                    f"plugin {entry.name} does not implement {point}",
                    hint=f"it implements {listed}",
                )
    for name, path in unknown.items():
        _refuse_unknown(name, path, [other for other in unknown if other not in context.catalogue], context)


# Plugins of Kubernetes itself, which went with the Policy API.
_NOT_MODELLED = frozenset({"NodeLabel", "ServiceAffinity"})


def _refuse_unknown(name: str, path: Path, unknown: list[str], context: Context) -> None:
    """Raises InputError for a plugin that is neither known nor assumed neutral, nor are the ``unknown``."""
    dropped = context.catalogue.get(name)
    if name == ALL:
        raise context.document.error(path, 'only disabled may list "*"', hint="name the plugins to enable")
    if dropped is not None:
        versions = ", ".join(sorted(dropped.versions))
        raise context.document.error(
            path, f"plugin {name} is unknown to {context.version}; it exists in {versions}", hint="remove it"
        )
    flags = " ".join(f"--assume-neutral {other}" for other in unknown)
    ways = (
        "describe it by scheduler.mirror of the policy if it scores by a query of Prometheus, else through "
        f"an entry point, or accept {'it' if len(unknown) == 1 else 'these'} as neutral with {flags}, or "
        "scheduler.assumeNeutral of the policy"
    )
    # Plugins of other projects have names like those of Kubernetes.
    guess = did_you_mean(name, context.descriptions, cutoff=0.8)
    what = f"unknown plugin {name}"
    if name in _NOT_MODELLED:
        what = f"plugin {name}, which older versions of Kubernetes have, is not modelled"
    raise context.document.error(path, what, hint=f"{guess} else {ways}" if guess else ways)


def _check_required(expanded: Expanded, path: Path, context: Context) -> None:
    """Exactly one queueSort plugin, and a bind plugin."""
    queue_sort = expanded.plugins[ExtensionPoint.QUEUE_SORT]
    if len(queue_sort) != 1:
        names = ", ".join(entry.name for entry in queue_sort) or "none"
        raise context.document.error(path, f"exactly one queueSort plugin must be enabled, not {names}")
    if not expanded.plugins[ExtensionPoint.BIND]:
        raise context.document.error(path, "a bind plugin must be enabled", hint="DefaultBinder, usually")


def _arguments(
    written: WrittenProfile, expanded: Expanded, path: Path, context: Context
) -> dict[str, Arguments]:
    """The arguments of every enabled plugin that takes some: given ones checked, the rest defaulted."""
    given: dict[str, tuple[WrittenPluginConfig, Path]] = {}
    for index, config in enumerate(written.plugin_config):
        config_path = (*path, "pluginConfig", index)
        if config.name in given:
            raise context.document.error((*config_path, "name"), f"{config.name} is configured twice")
        given[config.name] = config, config_path
    arguments: dict[str, Arguments] = {}
    for name, (config, config_path) in given.items():
        arguments[name] = _given(config, config_path, context)
    for entry in (entry for entries in expanded.plugins.values() for entry in entries):
        if entry.name in arguments:
            continue
        description = context.descriptions.get(entry.name)
        if description is not None and description.arguments is not None:
            where = (*entry.path, "name") if entry.path else path
            arguments[entry.name] = _by_default(description, where, context)
    return arguments


def _by_default(description: PluginDescription, path: Path, context: Context) -> Arguments:
    """The arguments of a plugin that is given none; InputError where it has to be given some.

    Defaults of the plugins that we know need no check, so nothing is built for one.
    """
    kind = description.arguments
    assert kind is not None
    is_known = context.catalogue.get(description.name) is description
    if is_known and not any(field.is_required() for field in kind.model_fields.values()):
        return kind.model_construct()
    return validate(kind, context.document, path=path, value={})


def _given(config: WrittenPluginConfig, path: Path, context: Context) -> Arguments:
    """Arguments as they are written; ``apiVersion`` and ``kind`` only say their type."""
    args_path = (*path, "args")
    values = dict(config.args)
    kind = values.pop("kind", None)
    api_version = values.pop("apiVersion", None)
    description = context.descriptions.get(config.name)
    if description is None:
        context.warnings.append(
            f"{context.document.position((*path, 'name'))}: pluginConfig of {config.name}, which we do not "
            "know, is kept unread"
        )
        return RawArguments(values=config.args)
    expected = f"{config.name}Args"
    if kind is not None and kind != expected:
        raise context.document.error((*args_path, "kind"), f"should be {expected}, not {kind!s:.60}")
    if api_version is not None and not str(api_version).startswith(f"{GROUP}/"):
        raise context.document.error(
            (*args_path, "apiVersion"), f"should be of {GROUP}, not {api_version!s:.60}"
        )
    if description.arguments is RawArguments:
        return RawArguments(values=values)
    if description.arguments is None:
        if values:
            where = context.document.position(args_path)
            context.warnings.append(f"{where}: {config.name} takes no arguments: these do nothing")
        return RawArguments()
    version = str(api_version or "").removeprefix(f"{GROUP}/")
    if version and version != context.version:
        if version not in DEFAULTS:
            hint = f"write {GROUP}/{context.version}"
            raise context.document.error(
                (*args_path, "apiVersion"), f"{version:.60} is not a version of it", hint=hint
            )
        context.warnings.append(
            f"{context.document.position((*args_path, 'apiVersion'))}: arguments of {version} in a "
            f"configuration of {context.version}: only a scheduler that reads both starts with them"
        )
    return validate(description.arguments, context.document, path=args_path, value=values)
