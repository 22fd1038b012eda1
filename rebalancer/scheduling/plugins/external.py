"""Plugins from outside this package: what an entry point of the group ``rebalancer.plugins`` gives.

A team whose scheduler runs a plugin of its own mirrors it as a subclass of ``Plugin``, and tells us how to
make it; ``docs/plugins`` shows one from start to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from rebalancer.errors import InputError
from rebalancer.profiles.arguments import Arguments, RawArguments
from rebalancer.profiles.catalogue import CATALOGUE
from rebalancer.profiles.types import ExtensionPoint, PluginDescription
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.plugins.registry import PluginInputs

ENTRY_POINT_GROUP = "rebalancer.plugins"


@runtime_checkable
class PluginFactory(Protocol):
    """What an entry point names: the description of a plugin, and how it is made."""

    @property
    def description(self) -> PluginDescription:
        """Where the plugin may be enabled and what it reads.

        Without a type of ``arguments`` it is given what its pluginConfig says, unchecked.
        """

    def make(self, arguments: Mapping[str, Any], inputs: PluginInputs) -> Plugin:
        """The plugin of one profile, from ``pluginConfig[].args`` as written and what there is to read."""


def described(factory: object, where: str) -> PluginDescription:
    """The description of a factory, with how its plugin is made; InputError when it is no such factory."""
    if not isinstance(factory, PluginFactory):
        raise InputError(
            f"is {type(factory).__name__}, not a plugin factory",
            where=where,
            hint="name an object with description and make(arguments, inputs)",
        )
    found = factory.description
    if not isinstance(found, PluginDescription):
        raise InputError(f"its description is {type(found).__name__}, not a PluginDescription", where=where)
    if found.name in CATALOGUE:
        raise InputError(
            f"plugin {found.name} is one of those known already", where=where, hint="give it another name"
        )

    def make(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
        return _made(factory, found, arguments, inputs, where)

    return replace(found, arguments=found.arguments or RawArguments, make=make)


def _made(
    factory: PluginFactory,
    description: PluginDescription,
    arguments: Arguments | None,
    inputs: PluginInputs,
    where: str,
) -> Plugin:
    try:
        plugin = factory.make(_as_written(arguments), inputs)
    except Exception as error:
        raise InputError(f"cannot make plugin {description.name}: {error!r:.200}", where=where) from error
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
