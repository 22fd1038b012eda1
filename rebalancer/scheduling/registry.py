"""The modelled plugins, the catalogue made from their classes, and schedulers made from profiles.

``rebalancer.profiles`` knows how configurations are merged and checked, but no plugin: the catalogue, made
from the plugin classes, is handed to it here.

A team whose scheduler runs a plugin of its own mirrors it as a subclass of ``Plugin`` and names the class as
an entry point of the group ``rebalancer.plugins``; ``docs/plugins`` shows one from start to end. Where a
class is not enough, for example because one module mirrors plugins that it reads from a file, an entry point
may name a ``PluginFactory`` instead.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Protocol, Self, runtime_checkable

from msgspec.structs import replace
from pydantic import Field, ValidationError, model_validator

from rebalancer import profiles
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.errors import InputError
from rebalancer.profiles.types import (
    Arguments,
    Input,
    PluginDescription,
    PluginQuery,
    Profile,
    RawArguments,
    SchedulerConfiguration,
)
from rebalancer.profiles.types import ExtensionPoint as P
from rebalancer.scheduling import plugins as modelled
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import Enabled, ObjectsRead, Plugin, PluginInputs
from rebalancer.scheduling.versions.release import Release
from rebalancer.scheduling.versions.rules import RULES

ENTRY_POINT_GROUP = "rebalancer.plugins"
# The extension points that decide where a pod lands.
_DECIDING = (P.PRE_FILTER, P.FILTER, P.SCORE)
_FILTER_AND_SCORE = (P.FILTER, P.SCORE)
_NODES_AND_PODS = frozenset({Input.NODES, Input.PODS})
BY_RULES = frozenset(rule.name for rule in RULES if not rule.modelled)
"""Names of the rules that are not modelled, some of which are those of a plugin."""


class DefaultPreemptionArguments(Arguments):
    """Arguments of DefaultPreemption; accepted, though preemption is not modelled."""

    min_candidate_nodes_percentage: int = Field(default=10, ge=0, le=100)
    min_candidate_nodes_absolute: int = Field(default=100, ge=0)

    @model_validator(mode="after")
    def _some_candidates(self) -> Self:
        if not (self.min_candidate_nodes_percentage or self.min_candidate_nodes_absolute):
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute must not both be 0")
        return self


GANGS = frozenset({"GangScheduling", "Coscheduling"})
"""Plugins that hold back pods of pod groups and pass all others.

Source: kubernetes v1.36.0 pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go,
scheduler-plugins v0.34.7 pkg/coscheduling/coscheduling.go. That of koordinator acts after binding as well.
"""

PASSING = GANGS | {"DeferredPodScheduling"}
"""Those, and one that looks only at pods on a node whose resize waits for room there.

Source: kubernetes v1.37.2 pkg/scheduler/framework/plugins/deferredpodscheduling/deferred_pod_scheduling.go.
"""

# They run elsewhere in the cycle, or are taken to be neutral.
# Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/default_plugins.go:30.
NOT_MODELLED = (
    PluginDescription("SchedulingGates", frozenset({P.PRE_ENQUEUE})),
    PluginDescription("PrioritySort", frozenset({P.QUEUE_SORT})),
    PluginDescription(
        "DefaultPreemption",
        frozenset({P.PRE_ENQUEUE, P.POST_FILTER, P.RESERVE}),  # reserve since 1.38, of pod groups alone
        DefaultPreemptionArguments,
    ),
    PluginDescription("DefaultBinder", frozenset({P.BIND})),
    PluginDescription("NodeDeclaredFeatures", frozenset({P.PRE_FILTER, P.FILTER})),
    PluginDescription("GangScheduling", frozenset({P.PRE_ENQUEUE, P.RESERVE, P.PERMIT})),
    PluginDescription("TopologyPlacementGenerator", frozenset()),  # of pod groups as a whole, and so the next
    PluginDescription("PodGroupPodsCount", frozenset()),
    PluginDescription("DeferredPodScheduling", frozenset({P.PRE_FILTER, P.FILTER, P.PERMIT})),
    PluginDescription(
        "Coscheduling",
        frozenset({P.QUEUE_SORT, P.PRE_FILTER, P.POST_FILTER, P.RESERVE, P.PERMIT, P.PRE_BIND, P.POST_BIND}),
        RawArguments,
    ),
    PluginDescription("PreemptionToleration", frozenset({P.POST_FILTER}), RawArguments),
    PluginDescription(
        "CinderLimits",
        frozenset({P.FILTER}),
        inputs=_NODES_AND_PODS
        | {Input.PERSISTENT_VOLUME_CLAIMS, Input.PERSISTENT_VOLUMES, Input.STORAGE_CLASSES},
        versions=frozenset({"v1beta1", "v1beta2", "v1beta3"}),
    ),
)
"""Descriptions of the known plugins without a class."""


def _plugin_classes() -> Iterator[type[Plugin]]:
    """The classes of the package ``plugins`` that have a name of their own, in the order of their modules."""
    for module in pkgutil.walk_packages(modelled.__path__, f"{modelled.__name__}."):
        for member in vars(import_module(module.name)).values():
            if isinstance(member, type) and issubclass(member, Plugin) and "name" in vars(member):
                yield member


_PLUGINS = tuple(dict.fromkeys(_plugin_classes()))  # some are imported by others


def describe(plugin: type[Plugin]) -> PluginDescription:
    """The description of a plugin, from what its class declares."""
    return PluginDescription(
        name=plugin.name,
        points=plugin.points,
        arguments=plugin.Arguments,
        inputs=_NODES_AND_PODS | plugin.inputs,
        versions=plugin.versions,
        make=_maker(plugin),
        scored_resources=plugin.scored_resources,
        counts_recent_pods=plugin.counts_recent_pods,
        process_wide_arguments=plugin.process_wide_arguments,
    )


def _maker(plugin: type[Plugin]) -> Callable[[Arguments | None, Any], Plugin]:
    """Makes the plugin; with default arguments if it was assumed neutral and has none of its type."""

    def make(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
        kind = plugin.Arguments
        if kind is None or isinstance(arguments, kind):
            return plugin.make(arguments, inputs)
        try:
            return plugin.make(kind(), inputs)
        except ValidationError as error:
            raise InputError(f"{plugin.name} needs arguments", hint="give them in pluginConfig") from error

    return make


MODELLED: Mapping[str, type[Plugin]] = {plugin.name: plugin for plugin in _PLUGINS}
"""The modelled plugins by name."""

CATALOGUE: Mapping[str, PluginDescription] = {
    description.name: description for description in (*map(describe, _PLUGINS), *NOT_MODELLED)
}
"""Every known plugin by name: kube-scheduler's, those it has dropped, Trimaran's and the articles'."""


def neutral_plugins(configuration: SchedulerConfiguration, profile: Profile) -> tuple[str, ...]:
    """Plugins that take part in deciding landings without a model: they pass and score all nodes alike.

    Without those of a rule of versions, by which the pods that the plugin concerns are unpredictable, and
    those that pass all others.
    """
    deciding = {name for point in _DECIDING for name in profile.enabled(point)} - BY_RULES - PASSING
    return tuple(sorted(name for name in deciding if _make_of(configuration, name) is None))


def make_scheduler(
    configuration: SchedulerConfiguration,
    profile: Profile,
    inputs: PluginInputs,
    *,
    number: int = 0,
    view: int = 0,
) -> Scheduler:
    """The model of one profile with its modelled plugins; ``number`` and ``view`` as of ``Scheduler``."""
    plugins = {}
    for name in sorted(profile.plugin_names):
        make = _make_of(configuration, name)
        if make is not None:
            plugins[name] = make(profile.argument(name), inputs)
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = configuration.percentage_of_nodes_to_score
    return Scheduler(
        profile,
        plugins,
        percentage,
        configuration.parallelism,
        configuration.extenders,
        number=number,
        view=view,
    )


def _make_of(
    configuration: SchedulerConfiguration, name: str
) -> Callable[[Arguments | None, Any], Any] | None:
    description = configuration.plugins.get(name)
    return description.make if description is not None else None


@cache
def default_configuration(version: str = "") -> SchedulerConfiguration:
    """What a scheduler of a minor runs without a configuration: one profile, ``default-scheduler``.

    ``version`` is that of the reference when it is not known.
    """
    minor = Release.of(version).minor
    api_version = next(name for since, name in _OWN_DEFAULTS if minor >= since)
    text = f"apiVersion: {profiles.GROUP}/{api_version}\nkind: {profiles.KIND}\n"
    return load_configuration(text, profiles.DEFAULTS_SOURCE)


# Since which minor a scheduler's own defaults are those of a version of the configuration, the newest first.
_OWN_DEFAULTS = ((25, "v1"), (23, "v1beta3"), (22, "v1beta2"), (0, "v1beta1"))


def with_each_plugin(configuration: SchedulerConfiguration) -> dict[str, SchedulerConfiguration]:
    """The configuration with one more plugin on, as by default, by each that a profile has off somewhere."""
    defaults = default_configuration()
    (own,) = defaults.profiles

    def missing(profile: Profile, name: str) -> dict[P, tuple[str, ...]]:
        added = [
            it
            for it in (*_DECIDING, P.PRE_SCORE)
            if name in own.enabled(it) and name not in profile.enabled(it)
        ]
        return {point: (*profile.enabled(point), name) for point in added}

    def having(profile: Profile, name: str) -> Profile:
        default = own.argument(name)
        return replace(
            profile,
            plugins={**profile.plugins, **missing(profile, name)},
            weights={**profile.weights, name: profile.weights.get(name) or own.weights.get(name, 0)},
            arguments={**({} if default is None else {name: default}), **profile.arguments},
        )

    def is_missing(name: str) -> bool:
        return any(missing(profile, name) for profile in configuration.profiles)

    def configured(name: str) -> SchedulerConfiguration:
        return replace(
            configuration,
            profiles=tuple(having(profile, name) for profile in configuration.profiles),
            plugins={**defaults.plugins, **configuration.plugins},
        )

    return {name: configured(name) for name in sorted(own.plugin_names) if is_missing(name)}


load_configuration = partial(profiles.load_configuration, catalogue=CATALOGUE)
"""The profiles of a configuration in YAML or JSON, with the known plugins."""


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
        description = describe(named)
    else:
        description = _factory_description(named, where)
    if description.name in CATALOGUE:
        raise InputError(
            f"plugin {description.name} is one of those known already",
            where=where,
            hint="give it another name",
        )
    unchecked = description.make

    def make(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
        try:
            assert unchecked is not None
            plugin = unchecked(arguments, inputs)
        except Exception as error:
            raise InputError(f"cannot make plugin {description.name}: {error!r:.200}", where=where) from error
        return _checked(plugin, description, where)

    return replace(description, arguments=description.arguments or RawArguments, make=make)


def _factory_description(factory: object, where: str) -> PluginDescription:
    if not isinstance(factory, PluginFactory):
        raise InputError(
            f"is {type(factory).__name__}, not a plugin factory",
            where=where,
            hint="name a subclass of Plugin, or an object with description and make(arguments, inputs)",
        )
    description = factory.description
    if not isinstance(description, PluginDescription):
        raise InputError(
            f"its description is {type(description).__name__}, not a PluginDescription", where=where
        )
    return replace(description, make=lambda arguments, inputs: factory.make(_as_written(arguments), inputs))


def _checked(plugin: object, description: PluginDescription, where: str) -> Plugin:
    """The plugin, if it is the one that was described."""
    if not isinstance(plugin, Plugin):
        raise InputError(f"makes {type(plugin).__name__}, not a Plugin", where=where)
    missing = [
        point.value
        for point in _FILTER_AND_SCORE
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


def queries_of(configuration: SchedulerConfiguration, profile: Profile, name: str) -> Iterator[PluginQuery]:
    """What one plugin of a profile asks."""
    if name in MODELLED:
        yield from MODELLED[name].queries(profile.argument(name))
    if name in configuration.extra_plugins:
        yield from configuration.extra_plugins[name].queries


def plugin_queries(configuration: SchedulerConfiguration) -> tuple[PluginQuery, ...]:
    """What all plugins of all profiles ask, without repetition."""
    queries = (
        query
        for profile in configuration.profiles
        for name in sorted(profile.plugin_names)
        for query in queries_of(configuration, profile, name)
    )
    return tuple(dict.fromkeys(queries))


def _overrides(plugin: type[Plugin], declared: Callable[..., object]) -> bool:
    """Whether a plugin has a class method of its own instead of one that all plugins have."""
    return any(declared.__name__ in vars(cls) for cls in plugin.__mro__[: plugin.__mro__.index(Plugin)])


class UnreadInputs:
    """Which inputs of verdicts were not read: the landings of such pods cannot be predicted.

    How the profile enables its plugins is looked up once.
    """

    def __init__(self, profile: Profile, objects: ObjectsRead) -> None:
        self._objects = objects
        self._needing: list[tuple[type[Plugin], Enabled]] = []
        self._never_reading: list[type[Plugin]] = []
        # Most plugins need nothing beside nodes and pods, and a cluster has thousands of classes.
        for name in sorted(profile.plugin_names & MODELLED.keys()):
            plugin = MODELLED[name]
            points = frozenset(point for point in _FILTER_AND_SCORE if name in profile.enabled(point))
            if points and (plugin.kinds_for_claims or _overrides(plugin, Plugin.needs)):
                self._needing.append((plugin, Enabled(profile.argument(name), points)))
            if _overrides(plugin, Plugin.never_read):
                self._never_reading.append(plugin)

    def of(self, pod: PodClass) -> tuple[str, ...]:
        """The kinds, by plural, that the verdict on a pod of this class needs and that were not read; sorted.

        Also what is never read, such as the claims of generic ephemeral volumes: they are named after a pod
        that does not exist yet.
        """
        kinds: set[Kind] = set()
        missing = {
            f"the claim of its ephemeral volume {volume.name}"
            for volume in pod.spec.volumes or ()
            if volume.ephemeral is not None
        }
        for reading in self._never_reading:
            missing.update(reading.never_read(pod))
        for plugin, enabled in self._needing:
            kinds.update(plugin.needs(pod, enabled, self._objects))
        return tuple(sorted(missing | {kind.plural for kind in kinds if not self._objects.has(kind)}))
