"""KubeSchedulerConfiguration to profiles: the plugins that run, their order, weights and arguments.

Nothing here scores or knows a plugin: whoever reads a configuration hands over a catalogue of plugins.
"""

from rebalancer.profiles.arguments import Arguments, RawArguments
from rebalancer.profiles.configuration_file import KIND, NEWEST_VERSION, load_configuration
from rebalancer.profiles.defaults import GROUP
from rebalancer.profiles.types import (
    DEFAULT_SCHEDULER_NAME,
    Extender,
    ExtensionPoint,
    Input,
    ManagedResource,
    PluginDescription,
    PluginQuery,
    Profile,
    SchedulerConfiguration,
)

__all__ = [
    "DEFAULT_SCHEDULER_NAME",
    "GROUP",
    "KIND",
    "NEWEST_VERSION",
    "Arguments",
    "Extender",
    "ExtensionPoint",
    "Input",
    "ManagedResource",
    "PluginDescription",
    "PluginQuery",
    "Profile",
    "RawArguments",
    "SchedulerConfiguration",
    "load_configuration",
]
