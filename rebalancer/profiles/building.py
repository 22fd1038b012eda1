"""One written profile to a :class:`Profile`: merged, expanded, plugins known, arguments checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalancer.documents import Document, Path, did_you_mean, validate
from rebalancer.profiles.arguments import Arguments, RawArguments
from rebalancer.profiles.decoding import WrittenPluginConfig, WrittenPlugins, WrittenProfile
from rebalancer.profiles.defaults import DEFAULTS, GROUP
from rebalancer.profiles.merging import (
    ALL,
    MULTI_POINT,
    Entry,
    Expanded,
    MergedSet,
    PluginTwiceError,
    expand,
    merge,
)
from rebalancer.profiles.types import ExtensionPoint, PluginDescription, Profile

NEUTRAL_POINTS = frozenset(
    (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
)
"""Where a plugin that is assumed neutral takes part when it is enabled through multiPoint."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the profiles of one document are built with; ``warnings`` collects what is odd but not wrong."""

    document: Document
    version: str
    known: Mapping[str, PluginDescription]  # to this version, and extra ones
    catalogue: Mapping[str, PluginDescription]  # of every version
    assume_neutral: frozenset[str]
    warnings: list[str] = field(default_factory=list)

    def implements(self, name: str, point: ExtensionPoint) -> bool:
        """Whether multiPoint brings a plugin to an extension point."""
        description = self.known.get(name)
        return point in (description.points if description else NEUTRAL_POINTS)


def build_profile(
    written: WrittenProfile | None, scheduler_name: str, path: Path, context: Context
) -> Profile:
    """A profile; InputError for what would keep the scheduler from starting and for undescribed plugins."""
    written = written or WrittenProfile()
    plugins_path = (*path, "plugins")
    defaults = DEFAULTS[context.version]
    if not defaults.has_multi_point and written.plugins.multi_point != WrittenPlugins().multi_point:
        raise context.document.error(
            (*plugins_path, MULTI_POINT),
            f"{context.version} has no multiPoint",
            hint="list the points one by one",
        )
    _warn_of_unknown_disabled(written.plugins, plugins_path, context)
    merged = merge(defaults, written.plugins, plugins_path)
    _check_entries(merged, context)
    try:
        expanded = expand(merged, context.implements)
    except PluginTwiceError as error:
        raise context.document.error(
            (*(error.entry.path or plugins_path), "name"),
            str(error),
            hint="disable the default first, or list it once",
        ) from error
    _check_required(expanded, plugins_path if written.plugins.model_fields_set else path, context)
    return Profile(
        scheduler_name=scheduler_name,
        plugins={
            point: tuple(entry.name for entry in entries) for point, entries in expanded.plugins.items()
        },
        weights=expanded.weights,
        arguments=_arguments(written, expanded, path, context),
        percentage_of_nodes_to_score=written.percentage_of_nodes_to_score,
    )


def _warn_of_unknown_disabled(plugins: WrittenPlugins, path: Path, context: Context) -> None:
    for point in (MULTI_POINT, *(point.value for point in ExtensionPoint)):
        for index, plugin in enumerate(plugins.at(point).disabled):
            if plugin.name == ALL or plugin.name in context.known or plugin.name in context.assume_neutral:
                continue
            where = context.document.error((*path, point, "disabled", index, "name"), "").where
            context.warnings.append(
                f"{where}: {plugin.name} is not a plugin of {context.version}; disabling it does nothing"
            )


def _check_entries(merged: Mapping[str, MergedSet], context: Context) -> None:
    """Every enabled plugin is known, and implements the point it is enabled at."""
    for point, plugin_set in merged.items():
        for entry in plugin_set.enabled:
            if entry.path is None:
                continue
            name_path = (*entry.path, "name")
            description = context.known.get(entry.name)
            if description is None:
                _check_neutral(entry, name_path, context)
            elif point != MULTI_POINT and ExtensionPoint(point) not in description.points:
                listed = ", ".join(p.value for p in ExtensionPoint if p in description.points)
                raise context.document.error(
                    name_path,
                    f"plugin {entry.name} does not implement {point}",
                    hint=f"it implements {listed}",
                )


def _check_neutral(entry: Entry, path: Path, context: Context) -> None:
    """An unknown plugin is an error unless it is assumed neutral."""
    name = entry.name
    if name in context.assume_neutral:
        return
    dropped = context.catalogue.get(name)
    if name == ALL:
        raise context.document.error(path, 'only disabled may list "*"', hint="name the plugins to enable")
    if dropped is not None:
        versions = ", ".join(sorted(dropped.versions))
        raise context.document.error(
            path, f"plugin {name} is unknown to {context.version}; it exists in {versions}", hint="remove it"
        )
    ways = f"describe it through an entry point, or accept it as neutral with --assume-neutral {name}"
    guess = did_you_mean(name, context.known)
    raise context.document.error(
        path, f"unknown plugin {name}", hint=f"{guess} else {ways}" if guess else ways
    )


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
        description = context.known.get(entry.name)
        if description is not None and description.arguments is not None:
            where = (*entry.path, "name") if entry.path else path
            arguments[entry.name] = validate(description.arguments, context.document, path=where, value={})
    return arguments


def _given(config: WrittenPluginConfig, path: Path, context: Context) -> Arguments:
    """Arguments as they are written; ``apiVersion`` and ``kind`` only say their type."""
    args_path = (*path, "args")
    values = dict(config.args)
    kind, api_version = values.pop("kind", None), values.pop("apiVersion", None)
    description = context.known.get(config.name)
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
            raise context.document.error(args_path, f"{config.name} takes no arguments")
        return RawArguments()
    return validate(description.arguments, context.document, path=args_path, value=values)
