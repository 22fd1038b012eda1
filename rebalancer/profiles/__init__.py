"""KubeSchedulerConfiguration to profiles: the plugins that run, their order, weights and arguments.

Nothing here scores or knows a plugin: whoever reads a configuration hands over a catalogue of plugins.
"""

from rebalancer.profiles.configuration_file import KIND, NEWEST_VERSION, load_configuration
from rebalancer.profiles.types import (
    DEFAULTS_SOURCE,
    GROUP,
    Arguments,
    ExtensionPoint,
    Input,
    PluginDescription,
    Profile,
    SchedulerConfiguration,
)

__all__ = [
    "DEFAULTS_SOURCE",
    "GROUP",
    "KIND",
    "NEWEST_VERSION",
    "Arguments",
    "ExtensionPoint",
    "Input",
    "PluginDescription",
    "Profile",
    "SchedulerConfiguration",
    "load_configuration",
]
