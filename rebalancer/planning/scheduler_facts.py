"""What is known of each scheduler: its configuration, version, gates, and where it shows that it lives.

All of it follows from what was read and from what the policy states; nothing here reads anything. Which pods
run a scheduler, ``scheduler_pods`` tells; where two of its pods have different versions, the lower counts.

The Lease that the policy names, else the one that the configuration's leader election names, counts alone: a
scheduler that waits for it is ready and schedules nothing. A configuration that names none means the Lease
kube-system/kube-scheduler, for which a second scheduler then competes with the cluster's default one: only
while one of its own pods holds it is it alive. Flags of its pods count over the configuration.

    no configuration, default-scheduler                           lease kube-system/kube-scheduler
    leaderElection: {resourceName: trimaran}                      lease kube-system/trimaran
    leaderElection: {leaderElect: false}                          pods
    --leader-elect=false                                          pods
    profiles: [trimaran], nothing said about leader election      lease kube-system/kube-scheduler of its pods
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.addresses import checked_address
from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.records.pods import LEASE_NAME_FLAG, PROGRAM
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import Document
from rebalancer.documents.models import did_you_mean, validate
from rebalancer.errors import InputError
from rebalancer.planning.inputs import (
    Observation,
    PlanningInputs,
    SchedulerFacts,
    SchedulerLife,
    SchedulerStart,
)
from rebalancer.planning.plan import Plan
from rebalancer.planning.scheduler_pods import (
    SchedulerPod,
    gates_of,
    leader_election_of,
    pods_of_each,
    pods_of_schedulers,
    ready_since,
    versions_of,
)
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, place_of, scorable_resources
from rebalancer.policy.schedulers import (
    ExtenderScore,
    ExtenderScores,
    PrometheusScore,
    SchedulerPods,
    SchedulerSettings,
    parse_scores,
)
from rebalancer.policy.schema import RebalancePolicy, Safety
from rebalancer.profiles.types import (
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
from rebalancer.scheduling.versions.release import FeatureGates, major_minor, minor_of
from rebalancer.scheduling.versions.rules import SHUFFLED_NODES

SWEEPING = frozenset({"AllAlpha", "AllBeta"})  # each opens many gates; which ones, only the release says


def configured_schedulers(
    loaded: LoadedPolicy,
    configurations: Mapping[str, ConfigurationText | None],
    neutral: Collection[str],
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> tuple[SchedulerFacts, ...]:
    """The schedulers that a policy names, each with its configuration, and the one behind default-scheduler.

    That one has its defaults where no entry of the policy serves it. The policy lets its pods move unless an
    entry says by ``profiles`` whose pods move. ``configurations`` are the texts that were read, by
    ``place_of``. Raises InputError where one was not read or cannot be used, and where two serve one name.
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
        _refuse_two_for_one_name(schedulers, configuration, loaded)
        served = configuration.scheduler_names
        acts_on = tuple(name for name in settings.profiles or served if name in served)
        schedulers.append(SchedulerFacts(configuration, settings, acts_on))
    if not any(scheduler.serves_default for scheduler in schedulers):
        written = configurations.get("")  # as AKS's users wrote it
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
    schedulers: Iterable[SchedulerFacts], configuration: SchedulerConfiguration, loaded: LoadedPolicy
) -> None:
    for other in schedulers:
        for name in configuration.scheduler_names:
            if other.configuration.profile(name) is not None:
                sources = f"{other.configuration.source} and {configuration.source}"
                raise InputError(
                    f"two schedulers of the policy serve schedulerName {name} ({sources})",
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
    """What the observation and the policy say of each scheduler; InputError as ``configured_schedulers``.

    ``configured`` are the schedulers as their configurations say, where somebody has read these already.
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
    """Schedulers whose configuration is known, with what the observation says of them."""
    schedulers = with_pods(schedulers, observation.snapshot)
    return tuple(_observed(scheduler, schedulers, observation, policy) for scheduler in schedulers)


def _observed(
    scheduler: SchedulerFacts,
    schedulers: Sequence[SchedulerFacts],
    observation: Observation,
    policy: RebalancePolicy,
) -> SchedulerFacts:
    """A scheduler with what the observation says of it."""
    version, *others = versions_of(scheduler.pods) or ("",)
    as_kubelets = False
    if scheduler.settings.version:
        version = major_minor(scheduler.settings.version)
        others = []
    elif not version and needs_server_version(scheduler):
        version = major_minor(observation.server.version or "")
        if not version and not observation.live:
            version = newest_kubelet(observation.snapshot)
            as_kubelets = bool(version)
    if scheduler.configuration.source == DEFAULTS_SOURCE:
        own = default_configuration(version)
        if own.api_version != scheduler.configuration.api_version:
            scheduler = replace(scheduler, configuration=own)  # those of an older version
    location = locate(scheduler, schedulers, observation.snapshot)
    life = observation.not_alive.get(location.key)
    scheduler = replace(
        scheduler,
        version=version,
        is_as_kubelets=as_kubelets,
        other_versions=tuple(others),
        feature_gates=feature_gates(scheduler),
        start=_start(observation, scheduler, location),
        not_alive="" if life is None else why_not_alive(scheduler.name, life, policy.safety),
    )
    scheduler = replace(scheduler, listed_nodes_at=_listed_nodes_at(observation, scheduler))
    # Of an order and the same turned round each of two equal nodes is as often the first.
    return replace(scheduler, shuffles=(1, -1)) if scheduler.release.has(SHUFFLED_NODES) else scheduler


def configured(
    loaded: LoadedPolicy,
    settings: SchedulerSettings,
    written: ConfigurationText,
    neutral: Collection[str],
    installed_plugins: Callable[[], Iterable[PluginDescription]],
) -> SchedulerConfiguration:
    """A configuration with the plugins that are installed and those of the policy; see load_configuration.

    ``neutral`` are plugins assumed neutral besides those of the policy.
    """
    configuration = load_configuration(
        written.text,
        written.source,
        extra_plugins=mirrored_plugins(settings),
        installed_plugins=installed_plugins,
        assume_neutral=(*settings.assume_neutral, *neutral),
    )
    idle = [item.plugin for item in settings.mirror if item.plugin not in configuration.extra_plugins]
    if idle:
        warning = f"{loaded.source}: scheduler.mirror: no profile enables {', '.join(idle)}"
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


def mirrored_plugins(settings: SchedulerSettings) -> tuple[PluginDescription, ...]:
    """The plugins that the policy mirrors for a scheduler."""
    return tuple(described_query(item.plugin, item.prometheus_score) for item in settings.mirror)


def scored_resources(policy: RebalancePolicy, schedulers: Iterable[SchedulerFacts]) -> tuple[str, ...]:
    """The resources that the plugins of the policy's score rules score, in order of name."""
    found = [
        scheduler.configuration.plugins[name].scored_resources
        for scheduler in schedulers
        for name in _plugins(policy, scheduler.acts_on, scheduler.configuration)
    ]
    return tuple(sorted(frozenset[str]().union(*found)))


def check_score_rules(
    loaded: LoadedPolicy, settings: SchedulerSettings, configuration: SchedulerConfiguration
) -> None:
    """InputError for a score rule whose plugin scores what no load source measures."""
    policy = loaded.policy
    where = f"{loaded.source} hotNodes"
    measured = scorable_resources(policy)
    acts_on = settings.profiles or configuration.scheduler_names
    for name in _plugins(policy, acts_on, configuration):
        scored = configuration.plugins[name].scored_resources
        if not scored:
            raise InputError(
                f"a score rule goes by {name}, which declares no resource that its score follows",
                where=where,
                hint=_declaration(settings, name),
            )
        missing = sorted(scored - set(measured))
        if missing:
            raise InputError(
                f"a score rule goes by {name}, which scores {', '.join(missing)}: no load source measures it",
                where=where,
                hint=_source(policy, missing[0]),
            )


def _plugins(
    policy: RebalancePolicy, acts_on: Iterable[str], configuration: SchedulerConfiguration
) -> Iterator[str]:
    """The enabled plugins that score rules go by, each once."""
    seen: dict[str, None] = {}
    profiles = [found for found in map(configuration.profile, acts_on) if found is not None]
    for rule in policy.hot_nodes.every_rule:
        if not isinstance(rule, ScoreRule):
            continue
        for profile in profiles:
            enabled = profile.enabled(ExtensionPoint.SCORE)
            for name in rule.score.plugins or configuration.load_plugins(profile):
                if name in enabled and name in configuration.plugins:
                    seen.setdefault(name)
    yield from seen


def _declaration(settings: SchedulerSettings, plugin: str) -> str:
    if any(item.plugin == plugin for item in settings.mirror):
        return "name it as prometheusScore.resource under scheduler.mirror"
    return "name a plugin that scores load or the number of pods; your own declares scored_resources"


def _source(policy: RebalancePolicy, resource: str) -> str:
    if any(isinstance(source, PrometheusSource) for source in policy.load.sources):
        return f"define {resource} under load.signals"
    return "add a prometheus source to load.sources"


def needs_server_version(scheduler: SchedulerFacts) -> bool:
    """Whether only the API server can say which version a scheduler of a live cluster has.

    A control plane's own scheduler is as new as its API server. A second one whose pods are seen, and whose
    image names no version, may be of any; so may one of which the policy says where its pods are.
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
    """What is known of the gates; what the policy states goes before what is seen.

    Where the scheduler's pod can be seen with its command line, a gate that is not on it is as the release
    has it. Where it cannot, as with managed control planes, the others are not known.
    """
    stated = scheduler.settings.feature_gates
    seen = gates_of(scheduler.pods)
    if seen is None or SWEEPING & {*seen, *stated}:
        return FeatureGates({**(seen or {}), **stated}, others_are_default=False)
    return FeatureGates({**seen, **stated}, others_are_default=True)


class LeaseName(msgspec.Struct, frozen=True):
    """The namespace and the name of a Lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"lease {self.namespace}/{self.name}"


class PodSelection(msgspec.Struct, frozen=True):
    """Which pods are a scheduler's: in these namespaces, by labels, by a ConfigMap, else by their image."""

    namespaces: tuple[str, ...]
    config_map: str = ""  # its name; empty: not by what they mount
    selector: SchedulerPods | None = None  # of their labels; None: not by their labels
    static: bool = False  # of those of its image: static pods, or all others

    def __str__(self) -> str:
        """Of which pods there may be none, in words: ``pod in kube-system that mounts the configmap c``."""
        where = " and ".join(self.namespaces)
        if self.selector is not None:
            return f"pod in {where} with the labels {self.selector}"
        if self.config_map:
            return f"pod in {where} that mounts the configmap {self.config_map}"
        return f"{'static ' if self.static else ''}pod in {where} of the image {PROGRAM}"


class SchedulerLocation(msgspec.Struct, frozen=True):
    """Where a scheduler shows that it is alive: its leader election lease, else its own pods.

    A Lease names its holder by the name of a host: that of a pod, or of the node whose network it shares.
    """

    name: str  # the schedulerNames that it serves, as messages name it
    lease: LeaseName | None = LeaseName("kube-system", "kube-scheduler")
    why_no_lease: str = ""  # in words, where ``lease`` is None
    pods: PodSelection | None = None  # None: where its pods run is not known
    named_by: str = ""  # who names the lease: a scheduler that does not hold it schedules nothing then
    own_hosts: frozenset[str] = frozenset()  # of its pods
    hosts_are_certain: bool = False  # none of its pods shares the network of its node
    other_hosts: Mapping[str, str] = {}  # of other schedulers: the pod, as namespace/name
    serves_default: bool = True

    @property
    def key(self) -> str:
        """What an observation calls it."""
        parts = [str(part) for part in (self.lease, self.pods) if part is not None]
        if self.wants_the_lease_of_another:
            parts.insert(0, self.name)  # the Lease says of each of them something else
        return "; ".join(parts)

    @property
    def wants_the_lease_of_another(self) -> bool:
        """Whether its Lease is the one that the cluster's default scheduler has, which it is not."""
        return self.lease == _USUAL_LEASE and not self.serves_default

    def competitor(self, holder: str) -> str:
        """The pod of another scheduler that holds the Lease, as namespace/name; empty for none."""
        host = _host_of(holder)
        other = self.other_hosts.get(host, "")
        if host not in self.own_hosts:
            return other
        # Both share the network of one node.
        return other if self.wants_the_lease_of_another else ""

    def may_be_held_by_the_nodes_own(self, holder: str) -> bool:
        """Whether the default scheduler, which need not run in a pod, may be who holds its Lease."""
        shared = self.wants_the_lease_of_another and not self.hosts_are_certain
        return shared and _host_of(holder) in self.own_hosts

    def is_held_by_a_stranger(self, holder: str) -> bool:
        """Whether the holder is none of its pods, which are all known by name or must be."""
        must_be_known = self.hosts_are_certain or self.wants_the_lease_of_another
        return must_be_known and _host_of(holder) not in self.own_hosts


_USUAL_LEASE = LeaseName("kube-system", "kube-scheduler")
_MAX_HOST_NAME = 63


def _host_of(holder: str) -> str:
    """The host in the identity of a holder, behind which kube-scheduler writes ``_`` and a random name."""
    return holder.rpartition("_")[0] or holder


def _hosts(pods: Iterable[SchedulerPod], snapshot: Snapshot) -> dict[str, str]:
    """By host name: the pod that runs there under that name, as namespace/name."""
    table = snapshot.pods
    sharing = {item.index: bool(item.pod.spec.host_network) for item in pods}
    hosts: dict[str, str] = {}
    for row in np.flatnonzero(np.isin(table.pod_class, list(sharing))).tolist():
        host = table.names[row][:_MAX_HOST_NAME].rstrip("-.")
        if sharing[int(table.pod_class[row])]:
            node = int(table.node[row])
            host = snapshot.nodes.names[node] if node >= 0 else ""
        if host:
            hosts[host] = table.full_name(PodRow(row))
    return hosts


def schedulers_of(plan: Plan, inputs: PlanningInputs) -> tuple[SchedulerLocation, ...]:
    """The schedulers that own pods of the plan: one process serves all profiles of a configuration."""
    pods = inputs.snapshot.pods
    names = {pods.class_of(pods.row[move.pod.namespace, move.pod.name]).scheduler_name for move in plan.moves}
    return tuple(
        locate(scheduler, inputs.schedulers, inputs.snapshot)
        for scheduler in inputs.schedulers
        if not names.isdisjoint(scheduler.configuration.scheduler_names)
    )


def locate(
    scheduler: SchedulerFacts, schedulers: Iterable[SchedulerFacts], snapshot: Snapshot
) -> SchedulerLocation:
    """Where a scheduler shows that it is alive; ``schedulers`` are all that the policy knows."""
    known = [item for each in schedulers for item in each.pods]
    own = {item.index for item in scheduler.pods}
    others = [item for item in (*pods_of_schedulers(snapshot), *known) if item.index not in own]
    location = SchedulerLocation(
        scheduler.name,
        pods=_selection(scheduler),
        own_hosts=frozenset(_hosts(scheduler.pods, snapshot)),
        hosts_are_certain=bool(own) and not any(item.pod.spec.host_network for item in scheduler.pods),
        other_hosts=_hosts(others, snapshot),
        serves_default=scheduler.serves_default,
    )
    stated = scheduler.settings.lease
    configured = scheduler.configuration.leader_election
    election = leader_election_of(scheduler.pods, configured)
    if stated is not None:
        lease = LeaseName(stated.namespace, stated.name)
        return replace(location, lease=lease, named_by=NAMED_BY_POLICY)
    if not election.enabled:
        where = "--leader-elect=false of its pods" if configured.enabled else "its configuration"
        return replace(location, lease=None, why_no_lease=f"{where} turns leader election off")
    lease = LeaseName(election.namespace, election.name)
    if not election.named:
        return replace(location, lease=lease)
    if election == replace(configured, enabled=True):
        return replace(location, lease=lease, named_by=f"leaderElection of {scheduler.configuration.source}")
    return replace(location, lease=lease, named_by=f"{LEASE_NAME_FLAG} of its pods")


NAMED_BY_POLICY = "scheduler.lease of the policy"


def _selection(scheduler: SchedulerFacts) -> PodSelection | None:
    settings = scheduler.settings
    if settings.pods is not None:
        return PodSelection((settings.pods.namespace,), selector=settings.pods)
    place = settings.config_map
    if place is not None and (not scheduler.pods or any(item.mounts(place) for item in scheduler.pods)):
        return PodSelection((place.namespace,), place.name)
    namespaces = tuple(sorted({item.pod.namespace for item in scheduler.pods}))
    static = any(item.is_static for item in scheduler.pods)
    return PodSelection(namespaces, static=static) if namespaces else None


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
    if observation.starts is None or not counts_recent_pods(scheduler):
        return None
    return observation.starts.get(location.key, SchedulerStart(None, "nobody looked when it was recorded"))


def why_not_alive(name: str, life: SchedulerLife, safety: Safety) -> str:
    """Why nobody may count on a scheduler, and what to do; empty where it is alive or need not be."""
    if life.alive:
        return ""
    if life.alive is False:
        return f"the scheduler {name} is not alive: {life.because}"
    if safety.unknown_scheduler == "proceed":
        return ""
    unknown = f"whether the scheduler {name} is alive is not known: {life.because}"
    if life.says_what_to_do:
        return f"{unknown}. Until it is, safety.unknownScheduler: proceed accepts this"
    return (
        f"{unknown}. Name the pods that run it (scheduler.pods in the policy) or the Lease that it holds "
        "(scheduler.lease), or accept this with safety.unknownScheduler: proceed"
    )


def _listed_nodes_at(observation: Observation, scheduler: SchedulerFacts) -> tuple[float, ...]:
    """When the scheduler may have listed the nodes, as it does when it starts; Unix seconds.

    Its pods are ready since they started, replicas that only wait as well. Where none is seen it may have
    started before any node was created, and at the latest when it acquired its Lease, if that was read.
    """
    seen = ready_since(scheduler.pods, observation.snapshot)
    if seen:
        return tuple(sorted({seen[0], seen[len(seen) // 2], seen[-1]}))  # of three one leads, any of them
    start = scheduler.start
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
        plugin = described_query(item.name, item.prometheus_score)
        arguments = None
    else:
        assert item.plugin is not None
        where = (*path, "plugin")
        known = CATALOGUE
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
