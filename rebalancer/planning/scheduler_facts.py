"""What is known of the scheduler: its configuration, version, gates, and where it shows that it lives.

All of it follows from what was read and from what the policy states; nothing here reads anything.

A second scheduler that runs as a Deployment tells nothing of the first, which managed control planes hide:
the one behind default-scheduler is known by its static pod alone. One without that profile is a second one.

The Lease that the policy names, else the one that the configuration's leader election names, counts alone: a
scheduler that waits for it is ready and schedules nothing. A configuration that names none means the Lease
kube-system/kube-scheduler, which the cluster's default scheduler holds; that says nothing about a second
scheduler, whose pods are looked at instead.

    no configuration, default-scheduler                           lease kube-system/kube-scheduler
    leaderElection: {resourceName: trimaran}                      lease kube-system/trimaran
    leaderElection: {leaderElect: false}                          pods
    profiles: [trimaran], nothing said about leader election      pods
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.addresses import checked_address
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Container
from rebalancer.cluster.records.pods import PROGRAM, is_scheduler, stated_gates
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import Document
from rebalancer.documents.models import did_you_mean, validate
from rebalancer.errors import InputError
from rebalancer.planning.inputs import Observation, PlanningInputs, SchedulerFacts, SchedulerStart
from rebalancer.planning.plan import Plan
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, place_of, scorable_resources
from rebalancer.policy.schedulers import (
    ExtenderScore,
    ExtenderScores,
    PrometheusScore,
    SchedulerSettings,
    parse_scores,
)
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import (
    DEFAULT_SCHEDULER_NAME,
    DEFAULTS_SOURCE,
    Arguments,
    ConfigurationText,
    ExtensionPoint,
    PluginDescription,
    PluginQuery,
    RawArguments,
    SchedulerConfiguration,
)
from rebalancer.scheduling.extenders import Score, cannot_be_computed, not_ours, with_extenders
from rebalancer.scheduling.framework.plugin import Normalization
from rebalancer.scheduling.plugins.prometheus_score import Definition, Direction, described_score
from rebalancer.scheduling.registry import (
    CATALOGUE,
    ENTRY_POINT_GROUP,
    default_configuration,
    load_configuration,
)
from rebalancer.scheduling.versions.release import FeatureGates, major_minor
from rebalancer.scheduling.versions.rules import SHUFFLED_NODES

_OWNER_OF_STATIC_PODS = "Node"
SWEEPING = frozenset({"AllAlpha", "AllBeta"})  # each opens many gates; which ones, only the release says


def scheduler_facts(
    observation: Observation, loaded: LoadedPolicy, configuration: SchedulerConfiguration
) -> SchedulerFacts:
    """What the observation and the policy say of the scheduler."""
    settings, snapshot = loaded.policy.scheduler, observation.snapshot
    version = scheduler_version(observation, settings, configuration)
    if configuration.source == DEFAULTS_SOURCE:
        own = default_configuration(version)
        if own.api_version != configuration.api_version:
            configuration = own  # those of an older version
    facts = SchedulerFacts(
        configuration=configuration,
        version=version,
        feature_gates=feature_gates(settings, snapshot, configuration),
        start=_start(observation, settings, configuration),
        listed_nodes_at=_listed_nodes_at(observation, settings, configuration),
    )
    # Of an order and the same turned round each of two equal nodes is as often the first.
    return replace(facts, shuffles=(1, -1)) if facts.release.has(SHUFFLED_NODES) else facts


def configuration_of(observation: Observation, loaded: LoadedPolicy) -> SchedulerConfiguration:
    """The configuration that was read for a policy; InputError when nobody read it, or it cannot be used."""
    place = place_of(loaded)
    if place not in observation.configurations:
        raise InputError(
            f"the scheduler's configuration was not read ({place or 'none is named'})",
            where=loaded.source,
            hint="observe the cluster for this policy too",
        )
    written = observation.configurations[place]
    if written is None:
        return default_configuration()
    return configured(loaded, written, observation.assumed_neutral, lambda: observation.installed_plugins)


def configured(
    loaded: LoadedPolicy,
    written: ConfigurationText,
    neutral: Collection[str],
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> SchedulerConfiguration:
    """A configuration with the plugins that are installed and those of the policy; see load_configuration.

    ``neutral`` are plugins assumed neutral besides those of the policy.
    """
    settings = loaded.policy.scheduler
    configuration = load_configuration(
        written.text,
        written.source,
        extra_plugins=mirrored_plugins(loaded.policy),
        installed_plugins=installed_plugins,
        assume_neutral=(*settings.assume_neutral, *neutral),
    )
    idle = [item.plugin for item in settings.mirror if item.plugin not in configuration.extra_plugins]
    if idle:
        warning = f"{loaded.source}: scheduler.mirror: no profile enables {', '.join(idle)}"
        configuration = replace(configuration, warnings=(*configuration.warnings, warning))
    configuration = _with_extenders(configuration, loaded, written, installed_plugins)
    check_score_rules(loaded, configuration)
    return configuration


def _with_extenders(
    configuration: SchedulerConfiguration,
    loaded: LoadedPolicy,
    written: ConfigurationText,
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> SchedulerConfiguration:
    """The configuration with what the policy's extenders compute; what it names in vain is a warning."""
    found = {extender.url: extender for extender in configuration.extenders}
    warnings = [f"the configuration has no extender {url}" for url in written.scores if url not in found]
    ours = written.scores.keys() & found.keys()
    whys = {url: not_ours(found[url]) for url in ours}
    warnings += [f"extender {url} is not computed: {why}" for url, why in whys.items() if why]
    scores = {
        url: read_scores(text, f"{loaded.source} scheduler.extenders {url}", installed_plugins)[1]
        for url, text in sorted(written.scores.items())
    }
    told = tuple(f"{loaded.source}: scheduler.extenders: {text}" for text in sorted(warnings))
    configuration = replace(configuration, warnings=(*configuration.warnings, *told))
    return with_extenders(configuration, scores)


def mirrored_plugins(policy: RebalancePolicy) -> tuple[PluginDescription, ...]:
    """The plugins that the policy mirrors."""
    return tuple(described_query(item.plugin, item.prometheus_score) for item in policy.scheduler.mirror)


def scored_resources(policy: RebalancePolicy, configuration: SchedulerConfiguration) -> tuple[str, ...]:
    """The resources that the plugins of the policy's score rules score, in order of name."""
    plugins = configuration.plugins
    found = (plugins[name].scored_resources for name in _plugins(policy, configuration))
    return tuple(sorted(frozenset[str]().union(*found)))


def check_score_rules(loaded: LoadedPolicy, configuration: SchedulerConfiguration) -> None:
    """InputError for a score rule whose plugin scores what no load source measures."""
    policy, where = loaded.policy, f"{loaded.source} hotNodes"
    measured = scorable_resources(policy)
    for name in _plugins(policy, configuration):
        scored = configuration.plugins[name].scored_resources
        if not scored:
            raise InputError(
                f"a score rule goes by {name}, which declares no resource that its score follows",
                where=where,
                hint=_declaration(policy, name),
            )
        missing = sorted(scored - set(measured))
        if missing:
            raise InputError(
                f"a score rule goes by {name}, which scores {', '.join(missing)}: no load source measures it",
                where=where,
                hint=_source(policy, missing[0]),
            )


def _plugins(policy: RebalancePolicy, configuration: SchedulerConfiguration) -> Iterator[str]:
    """The enabled plugins that score rules go by, each once."""
    seen: dict[str, None] = {}
    names = policy.scheduler.profiles or configuration.scheduler_names
    profiles = [found for found in map(configuration.profile, names) if found is not None]
    for rule in policy.hot_nodes.every_rule:
        if not isinstance(rule, ScoreRule):
            continue
        for profile in profiles:
            enabled = profile.enabled(ExtensionPoint.SCORE)
            for name in rule.score.plugins or configuration.load_plugins(profile):
                if name in enabled and name in configuration.plugins:
                    seen.setdefault(name)
    yield from seen


def _declaration(policy: RebalancePolicy, plugin: str) -> str:
    if any(item.plugin == plugin for item in policy.scheduler.mirror):
        return "name it as prometheusScore.resource under scheduler.mirror"
    return "name a plugin that scores load or the number of pods; your own declares scored_resources"


def _source(policy: RebalancePolicy, resource: str) -> str:
    if any(isinstance(source, PrometheusSource) for source in policy.load.sources):
        return f"define {resource} under load.signals"
    return "add a prometheus source to load.sources"


def scheduler_pods(snapshot: Snapshot) -> list[tuple[PodClass, Container]]:
    """The classes of pods that run a kube-scheduler, with the container that does."""
    return [
        (pod, container)
        for pod in snapshot.pods.classes
        for container in pod.spec.containers or ()
        if is_scheduler(container.image)
    ]


def is_seen(snapshot: Snapshot, configuration: SchedulerConfiguration) -> bool:
    """Whether the pods that are seen include the scheduler of this configuration."""
    found = scheduler_pods(snapshot)
    if DEFAULT_SCHEDULER_NAME not in configuration.scheduler_names:
        return bool(found)
    return any(pod.owner.kind == _OWNER_OF_STATIC_PODS for pod, _ in found)


def scheduler_version(
    observation: Observation, settings: SchedulerSettings, configuration: SchedulerConfiguration
) -> str:
    """``1.35``: as the policy states it, else by the image of its pod, else that of the API server.

    Empty when it is not known.
    """
    if settings.version:
        return major_minor(settings.version)
    running = versions_running(observation.snapshot)
    of_server = observation.server.version
    if len(running) == 1 and (of_server is None or is_seen(observation.snapshot, configuration)):
        return running[0]
    return major_minor(of_server or "")


def needs_server_version(
    settings: SchedulerSettings, snapshot: Snapshot, configuration: SchedulerConfiguration
) -> bool:
    """Whether only the API server can say which version the scheduler of a live cluster has."""
    seen = len(versions_running(snapshot)) == 1 and is_seen(snapshot, configuration)
    return not settings.version and not seen


def versions_running(snapshot: Snapshot) -> tuple[str, ...]:
    """The versions in the images of the schedulers' pods.

    scheduler-plugins number theirs 0.MINOR, after the Kubernetes 1.MINOR they are built from.
    """
    found: set[str] = set()
    for _, container in scheduler_pods(snapshot):
        version = major_minor(container.image.partition("@")[0].rpartition(":")[2])
        if version:
            found.add(f"1.{version[2:]}" if version.startswith("0.") else version)
    return tuple(sorted(found))


def feature_gates(
    settings: SchedulerSettings, snapshot: Snapshot, configuration: SchedulerConfiguration
) -> FeatureGates:
    """What is known of the gates; what the policy states goes before what is seen.

    Where the scheduler's pod can be seen with its command line, a gate that is not on it is as the release
    has it. Where it cannot, as with managed control planes, the others are not known.
    """
    stated = settings.feature_gates
    seen = gates_running(snapshot, configuration)
    if seen is None or SWEEPING & {*seen, *stated}:
        return FeatureGates({**(seen or {}), **stated}, known=False)
    return FeatureGates({**seen, **stated}, known=True)


def gates_running(snapshot: Snapshot, configuration: SchedulerConfiguration) -> dict[str, bool] | None:
    """The gates on the command lines of the schedulers' pods; None when not all are seen, or they differ."""
    if not is_seen(snapshot, configuration):
        return None
    found = [
        stated_gates(container.args or ()) if container.command else None
        for _, container in scheduler_pods(snapshot)
    ]
    return found[0] if found and all(item == found[0] for item in found) else None


class LeaseName(msgspec.Struct, frozen=True):
    """The namespace and the name of a Lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"lease {self.namespace}/{self.name}"


class PodSelection(msgspec.Struct, frozen=True):
    """Which pods are a scheduler's: in these namespaces, mounting this ConfigMap, else of its image."""

    namespaces: tuple[str, ...]
    config_map: str = ""  # its name; empty: by image
    without_default: bool = False  # leave out the pods of the cluster's default scheduler

    def __str__(self) -> str:
        where = " and ".join(self.namespaces)
        if self.config_map:
            return f"of those in {where} that mount the configmap {self.config_map}"
        return f"of those in {where} whose image is {PROGRAM}"


class SchedulerLocation(msgspec.Struct, frozen=True):
    """Where a scheduler shows that it is alive: its leader election lease, else its own pods."""

    name: str  # the schedulerNames that it serves, as messages name it
    lease: LeaseName | None = LeaseName("kube-system", "kube-scheduler")
    why_no_lease: str = ""  # in words, where ``lease`` is None
    pods: PodSelection | None = None  # None: where its pods run is not known
    named_by: str = ""  # who names the lease: a scheduler that does not hold it schedules nothing then

    @property
    def key(self) -> str:
        """What an observation calls it."""
        return "; ".join(str(part) for part in (self.lease, self.pods) if part is not None)


def schedulers_of(plan: Plan, inputs: PlanningInputs) -> tuple[SchedulerLocation, ...]:
    """The schedulers that own pods of the plan: one process serves all profiles of a configuration."""
    pods = inputs.snapshot.pods
    names = {
        pods.class_of(pods.row[move.pod.namespace, move.pod.name]).spec.scheduler_name
        or DEFAULT_SCHEDULER_NAME
        for move in plan.moves
        if not move.finished
    }
    if not names:
        return ()
    return (locate(names, inputs.policy.scheduler, inputs.scheduler.configuration, inputs.snapshot),)


def locate(
    names: Iterable[str],
    settings: SchedulerSettings,
    configuration: SchedulerConfiguration,
    snapshot: Snapshot,
) -> SchedulerLocation:
    """Where the scheduler that serves these schedulerNames shows that it is alive."""
    name = ", ".join(sorted(names))
    if settings.lease is not None:
        lease = LeaseName(settings.lease.namespace, settings.lease.name)
        return SchedulerLocation(name, lease, named_by="scheduler.lease of the policy")
    election = configuration.leader_election
    serves_default = DEFAULT_SCHEDULER_NAME in configuration.scheduler_names
    pods = _pods(settings, snapshot, without_default=not serves_default)
    if not election.enabled:
        return SchedulerLocation(name, None, "its configuration turns leader election off", pods)
    if not election.named and not serves_default:
        why = f"{configuration.source} names no lease of its own (leaderElection.resourceName)"
        return SchedulerLocation(name, None, why, pods)
    lease = LeaseName(election.namespace, election.name)
    if election.named:
        return SchedulerLocation(name, lease, named_by=f"leaderElection of {configuration.source}")
    return SchedulerLocation(name, lease, pods=pods)


def _pods(settings: SchedulerSettings, snapshot: Snapshot, *, without_default: bool) -> PodSelection | None:
    if settings.config_map is not None:
        place = settings.config_map
        return PodSelection((place.namespace,), place.name)
    namespaces = tuple(sorted({pod.namespace for pod, _ in scheduler_pods(snapshot)}))
    return PodSelection(namespaces, without_default=without_default) if namespaces else None


def starting_scheduler(
    settings: SchedulerSettings, configuration: SchedulerConfiguration, snapshot: Snapshot
) -> SchedulerLocation | None:
    """Where to see when the scheduler started; None where no plugin of it scores differently right after."""
    names = [
        profile.scheduler_name
        for profile in configuration.profiles
        if any(
            name in configuration.plugins and configuration.plugins[name].counts_recent_pods
            for name in profile.plugin_names
        )
    ]
    return locate(names, settings, configuration, snapshot) if names else None


def _start(
    observation: Observation, settings: SchedulerSettings, configuration: SchedulerConfiguration
) -> SchedulerStart | None:
    location = starting_scheduler(settings, configuration, observation.snapshot)
    if location is None or observation.starts is None:
        return None
    return observation.starts.get(location.key, SchedulerStart(None, "nobody looked when it was recorded"))


def _listed_nodes_at(
    observation: Observation, settings: SchedulerSettings, configuration: SchedulerConfiguration
) -> tuple[float, ...]:
    """When the scheduler may have listed the nodes, as it does when it starts; Unix seconds.

    Its pods are ready since they started, replicas that only wait as well. Where none is seen it may have
    started before any node was created, and at the latest when it acquired its Lease, if that was read.
    """
    pods, serves_default = observation.snapshot.pods, DEFAULT_SCHEDULER_NAME in configuration.scheduler_names
    classes = [
        index
        for index, pod in enumerate(pods.classes)
        if (pod.owner.kind == _OWNER_OF_STATIC_PODS) == serves_default
        and any(is_scheduler(container.image) for container in pod.spec.containers or ())
    ]
    since = pods.ready_since[np.isin(pods.pod_class, classes)]
    seen = sorted(since[np.isfinite(since)].tolist())
    if seen:
        return tuple(sorted({seen[0], seen[len(seen) // 2], seen[-1]}))  # of three one leads, any of them
    start = _start(observation, settings, configuration)
    latest = math.inf if start is None or start.at is None else start.at
    return latest, -math.inf


def read_scores(
    text: str, source: str, installed_plugins: Callable[[], Iterable[PluginDescription]] = tuple
) -> tuple[ExtenderScores, tuple[Score, ...]]:
    """What an extender computes; InputError with file and line for whatever it cannot.

    Its file names plugins and never code: whoever may write it, or a ConfigMap that holds it, has nothing
    imported that is not installed as a plugin.
    ``installed_plugins`` are asked for where a plugin is none of those that are shipped.
    """
    settings, document = parse_scores(text, source)
    scores: dict[str, Score] = {}
    for index, item in enumerate(settings.scores):
        score = _score(item, settings.max_score, document, ("scores", index), installed_plugins)
        if score.name in scores:
            raise document.error(("scores", index), f"{score.name} is there twice", hint="give it a name")
        scores[score.name] = score
    return settings, tuple(scores.values())


def described_query(name: str, score: PrometheusScore) -> PluginDescription:
    """The plugin that scores by a query."""
    return described_score(
        Definition(
            plugin=name,
            query=PluginQuery(score.address, score.query, score.node_label),
            direction=Direction(score.direction),
            normalization=Normalization(score.normalization),
            scale=score.scale,
            missing_score=score.missing_score,
            resource=score.resource or "",
        )
    )


def _score(
    item: ExtenderScore,
    max_score: int,
    document: Document,
    path: tuple[str | int, ...],
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> Score:
    if item.prometheus_score is not None:
        assert item.name is not None
        plugin, arguments = described_query(item.name, item.prometheus_score), None
    else:
        assert item.plugin is not None
        where, known = (*path, "plugin"), CATALOGUE
        if item.plugin not in known:
            known = {**CATALOGUE, **{found.name: found for found in installed_plugins()}}
        if item.plugin not in known:
            fallback = f"install a plugin of your own by an entry point of the group {ENTRY_POINT_GROUP}"
            hint = did_you_mean(item.plugin, known, fallback=fallback)
            raise document.error(where, f"{item.plugin} is unknown", hint=hint)
        plugin = known[item.plugin]
        if why := cannot_be_computed(plugin):
            raise document.error(where, f"an extender cannot compute {plugin.name}: {why}")
        arguments = _arguments(plugin, item.args, document, (*path, "args"))
    return Score(item.name or plugin.name, plugin, arguments, item.weight, max_score, item.reject_above)


def _arguments(
    plugin: PluginDescription, args: Mapping[str, Any], document: Document, path: tuple[str | int, ...]
) -> Arguments | None:
    if plugin.arguments is RawArguments:
        return RawArguments(values=args)
    if plugin.arguments is None:
        if args:
            raise document.error(path, f"{plugin.name} takes no arguments")
        return None
    found = validate(plugin.arguments, document, path=path[:-1] if not args else path, value=dict(args))
    address = getattr(found, "watcher_address", "")
    try:
        if address and not checked_address(address).startswith(("http://", "https://")):
            raise ValueError("the address of load-watcher begins with http:// or https://")
    except ValueError as error:
        raise document.error(path, str(error)) from None
    return found
