"""What the plugins of a configuration ask Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from rebalancer.profiles.types import PluginQuery, Profile, SchedulerConfiguration
from rebalancer.scheduling.plugins.registry import MODELLED


def queries_of(configuration: SchedulerConfiguration, profile: Profile, name: str) -> Iterator[PluginQuery]:
    """What one plugin of a profile asks."""
    if name in MODELLED:
        yield from MODELLED[name].queries(profile.argument(name))
    if name in configuration.extra_plugins:
        yield from configuration.extra_plugins[name].queries


def plugin_queries(configuration: SchedulerConfiguration) -> tuple[PluginQuery, ...]:
    """What all plugins of all profiles ask, without repetition."""
    found = (
        query
        for profile in configuration.profiles
        for name in sorted(profile.plugin_names)
        for query in queries_of(configuration, profile, name)
    )
    return tuple(dict.fromkeys(found))
