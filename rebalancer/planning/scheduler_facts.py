"""Puts together what rebalancer knows of each scheduler: configuration, version, gates, whether it is alive.

It reads no cluster and no file: it takes an observation, which holds the texts, and the policy. First
``configured_schedulers`` reads the configurations, then ``observed`` adds what the scheduler's pods show
(``scheduler_pods`` finds them) and what its Lease does (``scheduler_location``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.planning.extender_scores import described_query, read_scores
from rebalancer.planning.inputs import Observation, SchedulerFacts, SchedulerStart
from rebalancer.planning.scheduler_location import SchedulerLocation, locate, why_not_alive
from rebalancer.planning.scheduler_pods import gates_of, pods_of_each, ready_since, versions_of
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, place_of, scorable_resources
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import (
    DEFAULTS_SOURCE,
    ConfigurationText,
    ExtensionPoint,
    PluginDescription,
    SchedulerConfiguration,
)
from rebalancer.scheduling.extenders import Score, not_ours, with_extenders
from rebalancer.scheduling.registry import default_configuration, load_configuration
from rebalancer.scheduling.versions.release import FeatureGates, major_minor, minor_of
from rebalancer.scheduling.versions.rules import SHUFFLED_NODES

SWEEPING = frozenset({"AllAlpha", "AllBeta"})  # each turns on many gates, others in each release


def configured_schedulers(
    loaded: LoadedPolicy,
    configurations: Mapping[str, ConfigurationText | None],
    neutral: Collection[str],
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> tuple[SchedulerFacts, ...]:
    """The schedulers that a policy names, each with its configuration, and the default scheduler.

    If none that the policy names serves default-scheduler, the one that does comes last, with the defaults of
    Kubernetes. The policy lets its pods move, too, unless some ``profiles`` say whose pods move.
    ``configurations`` are the texts that were read, by ``place_of``. Raises InputError where one was not read
    or cannot be used, and where two serve one schedulerName.
    """
    schedulers: list[SchedulerFacts] = []
    for settings in loaded.policy.schedulers:
        place = place_of(settings, loaded.source)
        if place not in configurations:
            raise InputError(
                f"the scheduler's configuration was not read ({place or 'none is named'})",
                where=loaded.source,
                hint="observe the cluster for this policy too",
            )
        written = configurations[place]
        if written is None:
            configuration = default_configuration()
        else:
            configuration = configured(loaded, settings, written, neutral, installed_plugins)
        for other in schedulers:
            _refuse_two_for_one_name(other.configuration, configuration, loaded)
        names = configuration.scheduler_names
        acts_on = tuple(name for name in settings.profiles or names if name in names)
        schedulers.append(SchedulerFacts(configuration, settings, acts_on))
    if not any(scheduler.serves_default for scheduler in schedulers):
        # Where the policy names no configuration, rebalancer reads the one that users of AKS wrote.
        written = configurations.get("")
        if written is None:
            configuration = default_configuration()
        else:
            of_nobody = SchedulerSettings.model_construct()
            configuration = configured(loaded, of_nobody, written, neutral, installed_plugins)
        some_are_named = any(settings.profiles for settings in loaded.policy.schedulers)
        acts_on = () if some_are_named else configuration.scheduler_names
        schedulers.append(SchedulerFacts(configuration, acts_on=acts_on))
    return tuple(schedulers)


def _refuse_two_for_one_name(
    first: SchedulerConfiguration, second: SchedulerConfiguration, loaded: LoadedPolicy
) -> None:
    for name in second.scheduler_names:
        if first.profile(name) is not None:
            raise InputError(
                f"two schedulers of the policy serve schedulerName {name} "
                f"({first.source} and {second.source})",
                where=f"{loaded.source} scheduler",
                hint="name the configuration of each by configMap, file or inline; one without has the "
                "defaults, which serve default-scheduler",
            )


def with_pods(schedulers: Sequence[SchedulerFacts], snapshot: Snapshot) -> tuple[SchedulerFacts, ...]:
    """The schedulers with the pods that run each of them."""
    pods = pods_of_each(
        [(scheduler.settings, scheduler.configuration.scheduler_names) for scheduler in schedulers], snapshot
    )
    return tuple(replace(scheduler, pods=own) for scheduler, own in zip(schedulers, pods, strict=True))


def scheduler_facts(
    observation: Observation, loaded: LoadedPolicy, configured: Sequence[SchedulerFacts] = ()
) -> tuple[SchedulerFacts, ...]:
    """What rebalancer knows of each scheduler; raises InputError as ``configured_schedulers`` does.

    ``configured`` are the schedulers as ``configured_schedulers`` returned them to a caller before.
    """
    schedulers = configured or configured_schedulers(
        loaded,
        observation.configurations,
        observation.assumed_neutral,
        lambda: observation.installed_plugins,
    )
    return observed(schedulers, observation, loaded.policy)


def observed(
    schedulers: Sequence[SchedulerFacts], observation: Observation, policy: RebalancePolicy
) -> tuple[SchedulerFacts, ...]:
    """These schedulers, of which only the configuration is known, with all that the observation shows."""
    schedulers = with_pods(schedulers, observation.snapshot)
    return tuple(_one_observed(scheduler, schedulers, observation, policy) for scheduler in schedulers)


def _one_observed(
    scheduler: SchedulerFacts,
    schedulers: Sequence[SchedulerFacts],
    observation: Observation,
    policy: RebalancePolicy,
) -> SchedulerFacts:
    """A scheduler with all that the observation shows of it; ``schedulers`` are all of them."""
    # Where its pods have different versions, rebalancer goes by the lowest.
    version, *higher_versions = versions_of(scheduler.pods) or ("",)
    as_kubelets = False
    if scheduler.settings.version:
        version = major_minor(scheduler.settings.version)
        higher_versions = []
    elif not version and needs_server_version(scheduler):
        version = major_minor(observation.server.version or "")
        if not version and not observation.live:
            version = newest_kubelet(observation.snapshot)
            as_kubelets = bool(version)
    if scheduler.configuration.source == DEFAULTS_SOURCE:
        defaults = default_configuration(version)
        if defaults.api_version != scheduler.configuration.api_version:
            scheduler = replace(scheduler, configuration=defaults)
    location = locate(scheduler, schedulers, observation.snapshot)
    life = observation.not_alive.get(location.key)
    scheduler = replace(
        scheduler,
        version=version,
        is_as_kubelets=as_kubelets,
        other_versions=tuple(higher_versions),
        feature_gates=feature_gates(scheduler),
        start=_start(observation, scheduler, location),
        not_alive="" if life is None else why_not_alive(scheduler.name, life, policy.safety),
    )
    scheduler = replace(scheduler, listed_nodes_at=_listed_nodes_at(observation, scheduler))
    if scheduler.release.has(SHUFFLED_NODES):
        # One order of the nodes and its reverse: in these two each of two equal nodes comes first once.
        scheduler = replace(scheduler, shuffles=(1, -1))
    return scheduler


def configured(
    loaded: LoadedPolicy,
    settings: SchedulerSettings,
    written: ConfigurationText,
    neutral: Collection[str],
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> SchedulerConfiguration:
    """The configuration in a text, with the plugins that are installed and those that the policy describes.

    ``neutral`` are plugins assumed neutral besides those of the policy. Raises InputError, as
    ``load_configuration`` and ``check_score_rules`` do, for what cannot be used.
    """
    configuration = load_configuration(
        written.text,
        written.source,
        extra_plugins=mirrored_plugins(settings),
        installed_plugins=installed_plugins,
        assume_neutral=(*settings.assume_neutral, *neutral),
    )
    mirrored = [mirror.plugin for mirror in settings.mirror]
    not_enabled = [name for name in mirrored if name not in configuration.extra_plugins]
    if not_enabled:
        warning = f"{loaded.source}: scheduler.mirror: no profile enables {', '.join(not_enabled)}"
        configuration = replace(configuration, warnings=(*configuration.warnings, warning))
    configuration = _with_extenders(configuration, loaded, written, installed_plugins)
    check_score_rules(loaded, settings, configuration)
    return configuration


def _with_extenders(
    configuration: SchedulerConfiguration,
    loaded: LoadedPolicy,
    written: ConfigurationText,
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> SchedulerConfiguration:
    """The configuration with the scores that its extenders compute, as the policy describes them.

    It warns of an extender of the policy that the configuration does not have, or that cannot be computed.
    """
    extender_by_url = {extender.url: extender for extender in configuration.extenders}
    problems: list[str] = []
    scores: dict[str, tuple[Score, ...]] = {}
    for url, text in sorted(written.scores.items()):
        where = f"{loaded.source} scheduler.extenders {url}"
        _, scores[url] = read_scores(text, where, installed_plugins)
        if url not in extender_by_url:
            problems.append(f"the configuration has no extender {url}")
        elif why := not_ours(extender_by_url[url]):
            problems.append(f"extender {url} is not computed: {why}")
    warnings = [f"{loaded.source}: scheduler.extenders: {problem}" for problem in sorted(problems)]
    configuration = replace(configuration, warnings=(*configuration.warnings, *warnings))
    return with_extenders(configuration, scores)


def mirrored_plugins(settings: SchedulerSettings) -> tuple[PluginDescription, ...]:
    """The plugins of a scheduler that the policy describes by queries."""
    return tuple(described_query(mirror.plugin, mirror.prometheus_score) for mirror in settings.mirror)


def scored_resources(policy: RebalancePolicy, schedulers: Iterable[SchedulerFacts]) -> tuple[str, ...]:
    """The resources that the plugins of the policy's score rules score, in order of name."""
    resources: set[str] = set()
    for scheduler in schedulers:
        for name in _plugins_of_score_rules(policy, scheduler.acts_on, scheduler.configuration):
            resources.update(scheduler.configuration.plugins[name].scored_resources)
    return tuple(sorted(resources))


def check_score_rules(
    loaded: LoadedPolicy, settings: SchedulerSettings, configuration: SchedulerConfiguration
) -> None:
    """InputError for a score rule whose plugin scores what no load source measures."""
    policy = loaded.policy
    where = f"{loaded.source} hotNodes"
    measured = scorable_resources(policy)
    acts_on = settings.profiles or configuration.scheduler_names
    for name in _plugins_of_score_rules(policy, acts_on, configuration):
        scored = configuration.plugins[name].scored_resources
        if not scored:
            raise InputError(
                f"a score rule goes by {name}, which declares no resource that its score follows",
                where=where,
                hint=_how_to_declare_resource(settings, name),
            )
        missing = sorted(scored - set(measured))
        if missing:
            raise InputError(
                f"a score rule goes by {name}, which scores {', '.join(missing)}: no load source measures it",
                where=where,
                hint=_how_to_measure(policy, missing[0]),
            )


def _plugins_of_score_rules(
    policy: RebalancePolicy, acts_on: Iterable[str], configuration: SchedulerConfiguration
) -> Iterator[str]:
    """The plugins that score rules go by, of those that a profile enables, each once."""
    names: dict[str, None] = {}
    profiles = [profile for profile in map(configuration.profile, acts_on) if profile is not None]
    for rule in policy.hot_nodes.every_rule:
        if not isinstance(rule, ScoreRule):
            continue
        for profile in profiles:
            enabled = profile.enabled(ExtensionPoint.SCORE)
            for name in rule.score.plugins or configuration.load_plugins(profile):
                if name in enabled and name in configuration.plugins:
                    names.setdefault(name)
    yield from names


def _how_to_declare_resource(settings: SchedulerSettings, plugin: str) -> str:
    if any(mirror.plugin == plugin for mirror in settings.mirror):
        return "name it as prometheusScore.resource under scheduler.mirror"
    return "name a plugin that scores load or the number of pods; your own declares scored_resources"


def _how_to_measure(policy: RebalancePolicy, resource: str) -> str:
    if any(isinstance(source, PrometheusSource) for source in policy.load.sources):
        return f"define {resource} under load.signals"
    return "add a prometheus source to load.sources"


def needs_server_version(scheduler: SchedulerFacts) -> bool:
    """Whether only the API server can say which version a scheduler of a live cluster has.

    A control plane's own scheduler is as new as its API server. A second scheduler may have any version if
    its image names none: that is so where its pods are seen, or the policy says where they are.
    """
    if scheduler.settings.version or versions_of(scheduler.pods):
        return False
    return scheduler.serves_default or not (scheduler.pods or scheduler.settings.pods)


def newest_kubelet(snapshot: Snapshot) -> str:
    """The highest minor among the kubelets of a cluster, such as ``1.35``; empty where none tells its own.

    No kubelet is newer than the API server, and those of a cluster that is not being upgraded are as new.
    """
    versions: dict[int, str] = {}
    for node in snapshot.nodes.records:
        if node.status.node_info is not None:
            version = major_minor(node.status.node_info.kubelet_version)
            minor = minor_of(version)
            if minor is not None:
                versions[minor] = version
    return versions[max(versions)] if versions else ""


def feature_gates(scheduler: SchedulerFacts) -> FeatureGates:
    """The feature gates on a scheduler's command line; what the policy states of one counts instead.

    The command line decides for the other gates as well: one that is not on it is as the release has it.
    Where rebalancer does not see it, as with managed control planes, the other gates are not known.
    """
    stated = scheduler.settings.feature_gates
    on_command_line = gates_of(scheduler.pods)
    gates = {**(on_command_line or {}), **stated}
    others_are_default = on_command_line is not None and SWEEPING.isdisjoint(gates)
    return FeatureGates(gates, others_are_default=others_are_default)


def counts_recent_pods(scheduler: SchedulerFacts) -> bool:
    """Whether a plugin of the scheduler scores differently right after its start."""
    plugins = scheduler.configuration.plugins
    return any(
        name in plugins and plugins[name].counts_recent_pods
        for profile in scheduler.configuration.profiles
        for name in profile.plugin_names
    )


def _start(
    observation: Observation, scheduler: SchedulerFacts, location: SchedulerLocation
) -> SchedulerStart | None:
    """When the scheduler may have started at the latest; None where no score depends on it."""
    if observation.starts is None or not counts_recent_pods(scheduler):
        return None
    return observation.starts.get(location.key, SchedulerStart(None, "nobody looked when it was recorded"))


def _listed_nodes_at(observation: Observation, scheduler: SchedulerFacts) -> tuple[float, ...]:
    """When the scheduler may have listed the nodes, which it does as it starts; Unix seconds.

    A pod of it starts when it becomes ready, which it is also while it waits for the Lease: any of the pods
    may lead, so the first, the middle and the last are tried. Where rebalancer sees no pod, the scheduler may
    have started before any node was created, and at the latest when it acquired its Lease, if that was read.
    """
    ready = ready_since(scheduler.pods, observation.snapshot)
    if ready:
        return tuple(sorted({ready[0], ready[len(ready) // 2], ready[-1]}))
    latest = math.inf
    if scheduler.start is not None and scheduler.start.at is not None:
        latest = scheduler.start.at
    return latest, -math.inf
