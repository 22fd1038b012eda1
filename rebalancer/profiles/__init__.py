"""KubeSchedulerConfiguration to profiles: the plugins that run, their order, weights and arguments.

Nothing here scores; ``catalogue`` says where each plugin may be enabled and what it reads.
"""

from rebalancer.profiles.arguments import Arguments, RawArguments
from rebalancer.profiles.catalogue import CATALOGUE
from rebalancer.profiles.loading import default_configuration, load_configuration, read_configuration
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
    "CATALOGUE",
    "DEFAULT_SCHEDULER_NAME",
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
    "default_configuration",
    "load_configuration",
    "read_configuration",
]
