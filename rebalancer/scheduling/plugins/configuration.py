"""Scheduler configurations read with the catalogue of the plugins that are modelled.

``rebalancer.profiles`` knows how configurations are merged and checked, but no plugin. The catalogue is made
from the plugin classes, which are above it, so it is handed over here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from rebalancer import profiles
from rebalancer.profiles.types import PluginDescription, SchedulerConfiguration
from rebalancer.scheduling.plugins.registry import CATALOGUE


def default_configuration(version: str = profiles.NEWEST_VERSION) -> SchedulerConfiguration:
    """What a scheduler without a configuration file runs: one profile, ``default-scheduler``."""
    text = f"apiVersion: {profiles.GROUP}/{version}\nkind: {profiles.KIND}\n"
    return load_configuration(text, "defaults")


def load_configuration(
    text: str,
    source: str,
    *,
    extra_plugins: Iterable[PluginDescription] = (),
    installed_plugins: Callable[[], Iterable[PluginDescription]] = tuple,
    assume_neutral: Collection[str] = (),
) -> SchedulerConfiguration:
    """The profiles of a configuration in YAML or JSON; see ``rebalancer.profiles.load_configuration``."""
    return profiles.load_configuration(
        text,
        source,
        catalogue=CATALOGUE,
        extra_plugins=extra_plugins,
        installed_plugins=installed_plugins,
        assume_neutral=assume_neutral,
    )
