"""What the plugins of a profile ask Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from rebalancer.profiles.load_arguments import NetworkTrafficArguments
from rebalancer.profiles.types import PluginQuery, Profile, SchedulerConfiguration
from rebalancer.scheduling.plugins.articles.network_traffic import published_query


def queries_of(configuration: SchedulerConfiguration, profile: Profile, name: str) -> Iterator[PluginQuery]:
    """What one plugin of a profile asks."""
    arguments = profile.argument(name)
    if isinstance(arguments, NetworkTrafficArguments):
        yield PluginQuery(arguments.ip, published_query(arguments))
    if name in configuration.extra_plugins:
        yield from configuration.extra_plugins[name].queries


def plugin_queries(configuration: SchedulerConfiguration) -> tuple[PluginQuery, ...]:
    """What all plugins of all profiles ask, each question once."""
    found = (
        query
        for profile in configuration.profiles
        for name in sorted(profile.plugin_names)
        for query in queries_of(configuration, profile, name)
    )
    return tuple(dict.fromkeys(found))
