"""Plugins from outside this package: what an entry point of the group ``rebalancer.plugins`` names.

A team whose scheduler runs a plugin of its own mirrors it as a subclass of ``Plugin`` and names the class;
``docs/plugins`` shows one from start to end. Where a class is not enough, for example because one module
mirrors plugins that it reads from a file, an entry point may name a ``PluginFactory`` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from rebalancer.errors import InputError
from rebalancer.profiles.arguments import Arguments, RawArguments
from rebalancer.profiles.types import ExtensionPoint, PluginDescription
from rebalancer.scheduling.framework.inputs import PluginInputs
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.plugins.registry import CATALOGUE, describe

ENTRY_POINT_GROUP = "rebalancer.plugins"


@runtime_checkable
class PluginFactory(Protocol):
    """The description of a plugin, and how it is made."""

    @property
    def description(self) -> PluginDescription:
        """Where the plugin may be enabled and what it reads.

        Without a type of ``arguments`` the plugin gets those of its pluginConfig, unchecked.
        """

    def make(self, arguments: Mapping[str, Any], inputs: PluginInputs) -> Plugin:
        """The plugin of one profile, from ``pluginConfig[].args`` as written and what there is to read."""


def described(named: object, where: str) -> PluginDescription:
    """The description of what an entry point names, with how its plugin is made.

    Raises InputError when it is neither a plugin class nor a factory, or describes a plugin that is known.
    """
    if isinstance(named, type) and issubclass(named, Plugin):
        found = describe(named)
    else:
        found = _factory_description(named, where)
    if found.name in CATALOGUE:
        raise InputError(
            f"plugin {found.name} is one of those known already", where=where, hint="give it another name"
        )
    unchecked = found.make

    def make(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
        try:
            assert unchecked is not None
            plugin = unchecked(arguments, inputs)
        except Exception as error:
            raise InputError(f"cannot make plugin {found.name}: {error!r:.200}", where=where) from error
        return _checked(plugin, found, where)

    return replace(found, arguments=found.arguments or RawArguments, make=make)


def _factory_description(factory: object, where: str) -> PluginDescription:
    if not isinstance(factory, PluginFactory):
        raise InputError(
            f"is {type(factory).__name__}, not a plugin factory",
            where=where,
            hint="name a subclass of Plugin, or an object with description and make(arguments, inputs)",
        )
    found = factory.description
    if not isinstance(found, PluginDescription):
        raise InputError(f"its description is {type(found).__name__}, not a PluginDescription", where=where)
    return replace(found, make=lambda arguments, inputs: factory.make(_as_written(arguments), inputs))


def _checked(plugin: object, description: PluginDescription, where: str) -> Plugin:
    """The plugin, if it is the one that was described."""
    if not isinstance(plugin, Plugin):
        raise InputError(f"makes {type(plugin).__name__}, not a Plugin", where=where)
    missing = [
        point.value
        for point in (ExtensionPoint.FILTER, ExtensionPoint.SCORE)
        if point in description.points and point not in plugin.points
    ]
    if plugin.name != description.name or missing:
        what = f"named {plugin.name}" if plugin.name != description.name else f"without {', '.join(missing)}"
        raise InputError(f"describes plugin {description.name}, but makes one {what}", where=where)
    return plugin


def _as_written(arguments: Arguments | None) -> Mapping[str, Any]:
    if arguments is None:
        return {}
    if isinstance(arguments, RawArguments):
        return arguments.values
    return arguments.model_dump(mode="json", by_alias=True, exclude_unset=True)
