"""A KubeSchedulerConfiguration's text to profiles, refused where the scheduler would not start with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache

from msgspec.structs import replace

from rebalancer.documents import Document, parse, redacted_text
from rebalancer.documents.models import to_camel, validate
from rebalancer.profiles.building import (
    Context,
    WrittenConfiguration,
    WrittenLeaderElection,
    as_read,
    build_profile,
    named_plugins,
)
from rebalancer.profiles.types import (
    DEFAULT_SCHEDULER_NAME,
    DEFAULTS,
    GROUP,
    ExtensionPoint,
    Input,
    LeaderElection,
    PluginDescription,
    Profile,
    SchedulerConfiguration,
)

KIND = "KubeSchedulerConfiguration"
NEWEST_VERSION = "v1"
_FIT = "NodeResourcesFit"


# A run reads the configuration again before each wave, and mostly it is the same text.
_TEXTS = 4


@lru_cache(maxsize=_TEXTS)
def _parsed(text: str, source: str) -> Document:
    document = parse(text, source)
    return replace(document, value=as_read(document.value))


@lru_cache(maxsize=_TEXTS)
def _redacted(text: str, source: str) -> str:
    return redacted_text(text, source)


def load_configuration(
    text: str,
    source: str,
    *,
    catalogue: Mapping[str, PluginDescription],
    extra_plugins: Iterable[PluginDescription] = (),
    installed_plugins: Callable[[], Iterable[PluginDescription]] = tuple,
    assume_neutral: Collection[str] = (),
) -> SchedulerConfiguration:
    """The profiles of a configuration in YAML or JSON, merged with the defaults of its API version.

    ``catalogue`` describes the known plugins by name. ``extra_plugins`` describes further ones and replaces
    those of the catalogue; ``installed_plugins`` finds more and is called only when the text names one that
    neither has, because importing them takes time. ``assume_neutral`` names plugins that may stay unknown and
    score all nodes alike. Raises InputError, with file:line:column and field, for whatever would keep the
    scheduler from starting and for enabled plugins that nobody describes.
    """
    document = _parsed(text, source)
    version = _version(document)
    written = validate(WrittenConfiguration, document)
    _refuse_addresses(document, version)
    extra = {plugin.name: plugin for plugin in extra_plugins}
    descriptions = {
        name: description
        for name, description in catalogue.items()
        if not description.versions or version in description.versions
    } | extra
    if not named_plugins(written) <= descriptions.keys():
        extra = {plugin.name: plugin for plugin in installed_plugins()} | extra
        descriptions |= extra
    context = Context(document, version, descriptions, catalogue, frozenset(assume_neutral))
    profiles = _profiles(written, context)
    profiles = _share_process_wide(profiles, context)
    profiles = _without_ignored(profiles, written)
    _warn_of_embedded_watchers(profiles, context)
    _warn_of_a_cut(text, context)
    names = {name for profile in profiles for name in profile.plugin_names}
    return SchedulerConfiguration(
        api_version=f"{GROUP}/{version}",
        profiles=profiles,
        percentage_of_nodes_to_score=written.percentage_of_nodes_to_score,
        parallelism=written.parallelism,
        extenders=written.extenders,
        warnings=tuple(context.warnings),
        assumed_neutral=tuple(sorted(names - descriptions.keys())),
        source=source,
        text=_redacted(text, source),
        plugins={
            name: extra.get(name) or catalogue[name]
            for name in sorted(names)
            if name in extra or name in catalogue
        },
        extra_plugins={name: extra[name] for name in sorted(names & extra.keys())},
        leader_election=_leader_election(written),
    )


def _version(document: Document) -> str:
    """The API version, ``v1``; InputError unless kind and version are ones we read."""
    value = document.value
    if not isinstance(value, dict):
        raise document.error(
            (), f"is not a {KIND}", hint=f"it begins with apiVersion: {GROUP}/{NEWEST_VERSION}"
        )
    kind = value.get("kind")
    api_version = value.get("apiVersion")
    if kind != KIND:
        hint = f"write kind: {KIND}"
        if kind == "ConfigMap":
            hint = "give the text of the ConfigMap's key, not the ConfigMap"
        if kind == "Policy":  # --policy-config-file, until 1.22
            hint = f"its predicates and priorities are not modelled: the scheduler must read a {KIND}"
        raise document.error(("kind",), f"should be {KIND}, not {kind!s:.60}", hint=hint)
    versions = {f"{GROUP}/{version}": version for version in DEFAULTS}
    if not isinstance(api_version, str) or api_version not in versions:
        # The versions differ in defaults and fields: another one than the scheduler reads is no help.
        raise document.error(
            ("apiVersion",),
            f"{api_version!s:.60} is not a version we read",
            hint=f"known: {', '.join(versions)}",
        )
    return versions[api_version]


def _refuse_addresses(document: Document, version: str) -> None:
    """Whoever goes from an older version to v1beta3 or v1 may forget that these have no addresses."""
    for name in ("healthzBindAddress", "metricsBindAddress"):
        if not DEFAULTS[version].has_addresses and name in document.value:
            hint = "remove it: kube-scheduler has --bind-address and --secure-port"
            raise document.error((name,), f"is unknown to {version}", hint=hint)


def _profiles(written: WrittenConfiguration, context: Context) -> tuple[Profile, ...]:
    """Every profile; without any, the default one."""
    document = context.document
    if not written.profiles:
        return (build_profile(None, DEFAULT_SCHEDULER_NAME, (), context),)
    profiles: list[Profile] = []
    for index, profile in enumerate(written.profiles):
        path = ("profiles", index)
        name = profile.scheduler_name
        if name == "":
            raise document.error((*path, "schedulerName"), "must not be empty")
        if name is None:
            if len(written.profiles) > 1:
                raise document.error(path, "schedulerName is required when there are several profiles")
            name = DEFAULT_SCHEDULER_NAME
        if any(name == other.scheduler_name for other in profiles):
            raise document.error((*path, "schedulerName"), f"schedulerName {name} is already taken")
        profiles.append(build_profile(profile, name, path, context))
    queue_sort = {profile.enabled(ExtensionPoint.QUEUE_SORT) for profile in profiles}
    if len(queue_sort) > 1:
        raise document.error(("profiles",), "all profiles must enable the same queueSort plugin")
    for index, profile in enumerate(written.profiles):
        # The scheduler compares what is written, and not what it comes to; before v1beta3, with the default.
        first = written.profiles[0].plugins.queue_sort
        whole = DEFAULTS[context.version].has_multi_point
        if whole and profile.plugins.queue_sort != first:
            where = ("profiles", index, "plugins", "queueSort")
            raise document.error(where, "must be written the same in all profiles")
    return tuple(profiles)


def _share_process_wide(profiles: tuple[Profile, ...], context: Context) -> tuple[Profile, ...]:
    """Arguments that a plugin keeps once per process are those of the last profile that runs it."""
    for description in context.descriptions.values():
        if description.process_wide_arguments:
            profiles = _with_shared_arguments(profiles, description, context)
    return profiles


def _with_shared_arguments(
    profiles: tuple[Profile, ...], description: PluginDescription, context: Context
) -> tuple[Profile, ...]:
    name = description.name
    fields = description.process_wide_arguments
    own = [profile.arguments[name] for profile in profiles if name in profile.plugin_names]
    if not own:
        return profiles
    shared = {field: getattr(own[-1], field) for field in fields}
    if any(getattr(arguments, field) != value for arguments in own for field, value in shared.items()):
        *first, last = map(to_camel, fields)
        context.warnings.append(
            f"{context.document.source}: {name} keeps {', '.join(first)} and {last} once per process: "
            "those of the last profile hold for all"
        )
    return tuple(
        replace(
            profile,
            arguments={**profile.arguments, name: profile.arguments[name].model_copy(update=shared)},
        )
        if name in profile.arguments
        else profile
        for profile in profiles
    )


def _without_ignored(profiles: tuple[Profile, ...], written: WrittenConfiguration) -> tuple[Profile, ...]:
    """What extenders keep from the scheduler takes the place of the resources that its filter ignores.

    Source: kubernetes v1.36.3 pkg/scheduler/scheduler.go:614.
    """
    ignored = [
        resource.name
        for extender in written.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    scored = []
    for profile in profiles:
        fit = profile.arguments.get(_FIT)
        if ignored and fit is not None:
            fit = fit.model_copy(update={"ignored_resources": tuple(ignored)})
            profile = replace(profile, arguments={**profile.arguments, _FIT: fit})  # noqa: PLW2901
        scored.append(profile)
    return tuple(scored)


def _warn_of_a_cut(text: str, context: Context) -> None:
    """A text that was cut off after a key is YAML all the same, and configures less than the whole one."""
    written = [line for line in enumerate(text.splitlines(), 1) if line[1].split("#")[0].strip()]
    number, last = written[-1]
    if last.rstrip().endswith(":"):
        where = f"{context.document.source}:{number}"
        context.warnings.append(
            f"{where}: ends with {last.strip()[:60]!a} and no value: is the file cut off?"
        )


def _warn_of_embedded_watchers(profiles: tuple[Profile, ...], context: Context) -> None:
    """Two load-watchers in one scheduler process panic (load-watcher v0.2.4 pkg/watcher/watcher.go:160)."""
    embedded = [
        f"{profile.scheduler_name}/{name}"
        for profile in profiles
        for name in sorted(profile.plugin_names & context.catalogue.keys())
        if Input.WATCHER in context.catalogue[name].inputs
        and not getattr(profile.arguments.get(name), "watcher_address", "")
    ]
    if len(embedded) > 1:
        context.warnings.append(
            f"{context.document.source}: {', '.join(embedded)} each start a load-watcher in the scheduler, "
            "which panics with more than one: set watcherAddress"
        )


def _leader_election(written: WrittenConfiguration) -> LeaderElection:
    """Where the scheduler shows that it is alive; empty names are defaulted, as the scheduler does."""
    election = written.leader_election or WrittenLeaderElection.model_construct()
    default = LeaderElection()
    return LeaderElection(
        enabled=election.leader_elect is not False,
        namespace=election.resource_namespace or default.namespace,
        name=election.resource_name or default.name,
        named=bool(election.resource_namespace or election.resource_name),
    )
