"""All warnings of a plan: what its reader must know, each said once, the most important first.

``of_inputs`` says what is known before the search, of what was read and of the policy; ``of_plan`` adds what
only the search shows. ``sentences`` puts both in order. Two warnings about the same subject are one: a
misspelt profile moves no pod, and that its pods are not moved is not said again.

    About.NAME      scheduler.profiles names the profile trimarann, which the configuration does not have ...
    About.CLUSTER   not read: nodes (metrics.k8s.io) (not in the dump)
    About.LOAD      metrics-server: figures of node n1 are older than load.maxAge (3m) and are not used
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import numpy as np
from pydantic.alias_generators import to_camel

from rebalancer.addresses import is_read_on_the_way
from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.kinds import BY_NAME, METRICS, NAMESPACES, NODES, STORAGE_CLASSES
from rebalancer.cluster.leaving_nodes import matches_taint
from rebalancer.cluster.pod_classes import OF_THEIR_NODE
from rebalancer.cluster.pods import PHASES
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.documents.models import did_you_mean
from rebalancer.errors import InputError
from rebalancer.load.report import LoadReport, named
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning import other_deschedulers
from rebalancer.planning.hotness import coverage_of, leaving_load, pressure_after_cooling, score_key
from rebalancer.planning.inputs import About, Observation, PlanningInputs, PlanWarning, SchedulerFacts
from rebalancer.planning.landing.scenarios import Scenarios
from rebalancer.planning.landing.schedulers import neutral_everywhere
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.scheduler_facts import SWEEPING
from rebalancer.planning.scheduler_pods import gates_of, versions_of
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import PrometheusSource, RequestsSource
from rebalancer.policy.model import Selector
from rebalancer.policy.schema import Namespaces, RebalancePolicy
from rebalancer.policy.scopes import Scope, namespace_matches
from rebalancer.profiles.types import (
    DEFAULTS_SOURCE,
    OF_KUBERNETES,
    ExtensionPoint,
    Profile,
    SchedulerConfiguration,
)
from rebalancer.scheduling.versions.release import Release, major_minor
from rebalancer.scheduling.versions.rules import OPPORTUNISTIC_BATCHING, RULES
from rebalancer.scheduling.versions.verified import version_warnings
from rebalancer.state.run_state import RunState, why_refused

_MAX_NAMES = 10  # of what a cluster has, in one sentence
_ALWAYS_EXCLUDED = "kube-system"  # by default, whether it is there or not
_GATES_OF_RULES = frozenset(rule.gate.name for rule in RULES if rule.gate is not None)


def sentences(warnings: Iterable[PlanWarning]) -> tuple[str, ...]:
    """What is said: the most important first, and of each subject one sentence."""
    said: dict[str, str] = {}
    for warning in sorted(warnings, key=lambda item: item.about):
        said.setdefault(warning.subject or warning.sentence, warning.sentence)
    return tuple(dict.fromkeys(said.values()))


def of_inputs(
    observation: Observation,
    policy: RebalancePolicy,
    schedulers: Sequence[SchedulerFacts],
    watched: SchedulerView,
    load: LoadReport,
) -> tuple[PlanWarning, ...]:
    """What is known before the search; nothing of a scheduler whose pods the policy leaves alone.

    ``watched`` is what the load-watchers say that the policy itself names.
    """
    snapshot = observation.snapshot
    acting = [scheduler for scheduler in schedulers if scheduler.acts_on]
    return (
        *unmatched_names(policy, snapshot, schedulers, observation.assumed_neutral),
        *misfits(policy, snapshot, schedulers),
        *insecure_connections(policy, schedulers, observation.server.unprotected),
        *_about(About.REFUSAL, (text for scheduler in acting for text in _refusals(scheduler))),
        *_about(About.REFUSAL, _of_other_deschedulers(snapshot, policy)),
        *_about(About.SCHEDULER, (text for scheduler in acting for text in _of_scheduler(scheduler))),
        *_about(About.CLUSTER, _of_cluster(snapshot, policy)),
        *_about(About.LOAD, (text for scheduler in acting for text in _seen_by_plugins(scheduler.view))),
        *_about(About.LOAD, (f"load.sources: {at}: {why}" for at, why in sorted(watched.missing.items()))),
        *_about(About.LOAD, load.warnings),
    )


def _refusals(scheduler: SchedulerFacts) -> Iterator[str]:
    """Why a run would not move the pods of a scheduler."""
    if scheduler.not_alive:
        yield f"the pods of {scheduler.name} stay: {scheduler.not_alive}"
    if not scheduler.version:
        yield from version_warnings("", scheduler.configuration.api_version)


def _about(about: About, sentences: Iterable[str]) -> Iterator[PlanWarning]:
    return (PlanWarning(about, sentence) for sentence in sentences)


def of_agreement(policy: RebalancePolicy, state: RunState | None, now: float) -> Iterator[PlanWarning]:
    """Whether the cluster's schedulers are known to decide as computed."""
    measured = state.agreement if state is not None else None
    if refused := why_refused(policy.safety, measured, now):
        yield PlanWarning(About.REFUSAL, f"a run would refuse to act: {refused}")
    elif measured is not None and measured.is_known(now) and measured.share < 1:
        yield PlanWarning(About.SCHEDULER, measured.sentence())


def _of_other_deschedulers(snapshot: Snapshot, policy: RebalancePolicy) -> Iterator[str]:
    why = other_deschedulers.why_refused(snapshot, policy.safety)
    if why:
        yield f"a run would refuse to act: {why}"


def _of_scheduler(scheduler: SchedulerFacts) -> Iterator[str]:
    configuration = scheduler.configuration
    settings = scheduler.settings
    started_with = sorted({path for item in scheduler.pods for path in item.configuration_files})
    if started_with and not settings.configured_by and configuration.source == DEFAULTS_SOURCE:
        files = ", ".join(started_with[:3])
        yield (
            f"the scheduler {scheduler.name} is started with --config={files}, which was not given: the "
            "defaults are assumed; name it in scheduler.configMap or scheduler.file"
        )
    place = settings.config_map
    if place and configuration.source == DEFAULTS_SOURCE:  # a live cluster without it is refused
        yield (
            f"configmap {place.namespace}/{place.name}, which scheduler.configMap names, was not recorded: "
            "the defaults are assumed; add it as scheduler-config.yaml, or give it by --scheduler-config"
        )
    yield from _of_its_version(scheduler)
    if neutral := neutral_everywhere(configuration):
        yield not_modelled(neutral)
    for extender in configuration.extenders:
        if extender.url in configuration.computed:
            continue
        asked = ", ".join(item.name for item in extender.managed_resources)
        whom = f"pods that ask for {asked}" if asked else "all pods of its scheduler"
        yield (
            f"extender {extender.name} is not modelled: {whom} are protected, unless "
            "scheduler.extenders of the policy says what it computes"
        )
    for profile in configuration.profiles:
        # With extenders no two pods are taken to be equal (v1.36.3 framework/runtime/framework.go:824).
        if not configuration.extenders and reuses_orders(profile, scheduler.release):
            yield (
                f"OpportunisticBatching is live for {profile.scheduler_name}, and not modelled: of equal "
                "pods in a row one may land where the last one's order says, if that one's node is full"
            )
    yield from contradicted_gates(scheduler)
    yield from unknown_gates(scheduler)
    yield from configuration.warnings


def _of_its_version(scheduler: SchedulerFacts) -> Iterator[str]:
    """What is to be known of where the version of a scheduler comes from, and of the version."""
    configuration = scheduler.configuration
    settings = scheduler.settings
    if scheduler.other_versions:
        versions = ", ".join((scheduler.version, *scheduler.other_versions))
        yield (
            f"the pods of scheduler {scheduler.name} have different versions ({versions}): the rules of the "
            "lowest are used; scheduler.version can state another one"
        )
    seen = versions_of(scheduler.pods)
    stated = major_minor(settings.version or "")
    if stated and seen and stated not in seen:
        yield (
            f"scheduler.version says {stated}, but the pods of scheduler {scheduler.name} have version "
            f"{', '.join(seen)}; the policy is followed"
        )
    if scheduler.is_as_kubelets:
        yield (
            f"the recording does not tell the version of scheduler {scheduler.name}: rebalancer takes it to "
            f"be {scheduler.version}, as the newest kubelet is; scheduler.version can state another one"
        )
    elif scheduler.version and not (scheduler.serves_default or settings.version or seen):
        yield (
            f"no pod was seen that runs the scheduler {scheduler.name}: it is taken to be "
            f"{scheduler.version}, as the API server is; name its pods in scheduler.pods, or state "
            "scheduler.version"
        )
    if scheduler.version:
        api_version = configuration.api_version if configuration.source != DEFAULTS_SOURCE else ""
        yield from version_warnings(scheduler.version, api_version)


def reuses_orders(profile: Profile, release: Release) -> bool:
    """Whether a profile may place a pod by the order of nodes that was computed for the one before it.

    A plugin that cannot say when two pods are equal to it prevents that: PodTopologySpread with default
    constraints, and every plugin from outside Kubernetes. Source: kubernetes v1.36.3 pkg/scheduler,
    framework/runtime/batch.go and SignPod of the plugins.
    """
    if not release.has(OPPORTUNISTIC_BATCHING) or profile.plugin_names - OF_KUBERNETES:
        return False
    spread = profile.argument("PodTopologySpread")
    return "PodTopologySpread" not in profile.plugin_names or (
        getattr(spread, "defaulting_type", "") == "List" and not getattr(spread, "default_constraints", ())
    )


def not_modelled(plugins: Iterable[str]) -> str:
    """That plugins of the scheduler are not modelled, and what that means."""
    return f"not modelled, so ignored: {', '.join(plugins)}"


def contradicted_gates(scheduler: SchedulerFacts) -> Iterator[str]:
    """The feature gates that the policy states differently from the scheduler's command line."""
    running = gates_of(scheduler.pods) or {}
    for name, value in sorted(scheduler.settings.feature_gates.items()):
        if running.get(name, value) != value:
            stated, started = (str(item).lower() for item in (value, running[name]))
            yield (
                f"scheduler.featureGates says {name}: {stated}, but the scheduler was started with "
                f"{name}={started}; the policy is followed"
            )


def unknown_gates(scheduler: SchedulerFacts) -> Iterator[str]:
    """The feature gates of a scheduler that are in no rule of the model, and those that nobody can name."""
    unknown = sorted((gates_of(scheduler.pods) or {}).keys() - _GATES_OF_RULES - SWEEPING)
    if unknown:
        names = ", ".join(unknown[:_MAX_NAMES])
        if len(unknown) > _MAX_NAMES:
            names += f" and {len(unknown) - _MAX_NAMES} more"
        what = "the feature gate" if len(unknown) == 1 else "the feature gates"
        yield (
            f"the scheduler {scheduler.name} was started with {what} {names}, which rebalancer does not "
            "know: it may decide otherwise than computed; rebalancer agreement shows whether it does"
        )
    emulated = sorted({item.emulates for item in scheduler.pods} - {""})
    if emulated:
        yield (
            f"the scheduler {scheduler.name} emulates {' and '.join(emulated)}: which feature gates are on "
            "is not known, and pods that depend on one stay; say so in scheduler.featureGates"
        )


def _of_cluster(snapshot: Snapshot, policy: RebalancePolicy) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    measured = not all(isinstance(source, RequestsSource) for source in policy.load.sources)
    unused = () if measured else [kind.plural for kind in METRICS]
    for plural, why in sorted(snapshot.recording.unread.items()):
        if plural not in unused:  # a dump made by hand lacks many kinds for the same reason
            by_reason.setdefault(why, []).append(plural)
    yield from (f"not read: {', '.join(plurals)} ({why})" for why, plurals in by_reason.items())
    yield from snapshot.recording.warnings
    yield from (f"could not be read: {item}" for item in snapshot.malformed)
    pods = snapshot.pods
    lost = [
        PodRow(row)
        for row in np.flatnonzero(pods.node_unknown & ~pods.terminating).tolist()
        if pods.class_of(PodRow(row)).owner.kind not in OF_THEIR_NODE
    ]
    if lost:
        who = counted(len(lost), "pod runs on a node", "pods run on nodes")
        such = f"{who} that the cluster does not have, e.g. {pods.full_name(lost[0])}"
        yield f"{such}: they, and what replaces them, count nowhere"


def _seen_by_plugins(view: SchedulerView) -> Iterator[str]:
    for address, why in sorted(view.missing.items()):
        yield f"seen by plugins: {address or 'built-in load-watcher'}: {why}"


def of_landings(scenarios: Scenarios) -> Iterator[PlanWarning]:
    """What was not followed of where the moves may lead."""
    if scenarios.are_some:
        yield PlanWarning(
            About.SCHEDULER,
            f"chances of landings are approximate: the plan follows only {len(scenarios.all)} of the ways in "
            "which equal nodes may be chosen",
        )


def of_plan(prepared: PreparedInputs) -> Iterator[PlanWarning]:
    """What only shows once the scheduler is modelled and the Pending pods are placed."""
    inputs = prepared.inputs
    if prepared.options.ignore_coverage:
        known = coverage_of(inputs).share
        least = inputs.policy.load.min_coverage
        if known < least:
            yield PlanWarning(
                About.REFUSAL,
                f"load is known of {known:.0%} of the nodes, load.minCoverage is {least:.0%}: "
                "a run would refuse to act",
            )
    yield from _score_rules(prepared)
    yield from _about(About.LOAD, _of_figures(prepared))
    yield from _about(About.PODS, _of_pods(prepared))


def _of_figures(prepared: PreparedInputs) -> Iterator[str]:
    inputs = prepared.inputs
    if unknown := int(np.count_nonzero(~inputs.load.known)):
        nodes = counted(unknown, "node has", "nodes have")
        yield f"{nodes} no fresh load figure: neither hot nor a landing to count on"
    runs = inputs.policy.hot_nodes.for_runs
    if inputs.state is None and inputs.policy.limits.rates:
        rates = " and ".join(inputs.policy.limits.rates)
        yield f"no state of earlier runs: what they evicted is not counted against {rates}"
    if inputs.state is None and runs > 1 and inputs.policy.hot_nodes.every_rule:
        yield f"no state of earlier runs: hot nodes count as hot in {runs} runs (hotNodes.forRuns)"
    yield from _figures_that_differ(inputs)
    leaving = leaving_load(inputs, prepared.hotness, prepared.eviction.leaving)
    yield from (f"{name}: {words}" for name, words in leaving.items())


def _of_pods(prepared: PreparedInputs) -> Iterator[str]:
    pressure = pressure_after_cooling(prepared.inputs, prepared.hotness)
    pending = prepared.pending
    yield from (f"{name}: {words}" for name, words in pressure.items())
    if pending.unplaced:
        yield f"{counted(pending.unplaced, 'Pending pod does', 'Pending pods do')} not fit on any node now"
    if others := pending.of_others:
        yield (
            f"{counted(sum(others.values()), 'Pending pod has', 'Pending pods have')} a scheduler that is "
            f"not configured ({', '.join(sorted(others))}): which nodes they take is not known, "
            "and no landing allows for them"
        )
    if prepared.pods.nominated:
        nominated = counted(len(prepared.pods.nominated), "Pending pod is", "Pending pods are")
        yield f"{nominated} nominated to a node by preemption"


_CONTRADICTING_POINTS = 10.0  # of allocatable: windows and clocks explain less


def _figures_that_differ(inputs: PlanningInputs) -> Iterator[str]:
    """That pods add up to more than their nodes, and which of the two is believed."""
    load = inputs.load
    columns = [load.percent_resources.index(name) for name in load.resources]
    whole = load.allocatable[:, columns]
    pods, nodes = (
        np.nan_to_num(100.0 * amounts / np.where(whole > 0, whole, np.nan))
        for amounts in (load.least_usage, load.usage)
    )
    points = np.where(load.known[:, None], pods - nodes, 0.0)
    rows = np.flatnonzero((points > _CONTRADICTING_POINTS).any(axis=1)).tolist()
    if not rows:
        return
    row, column = (int(at) for at in np.unravel_index(np.argmax(points), points.shape))
    names = inputs.snapshot.nodes.names
    yield (
        f"pods use more than their nodes report: {named([names[at] for at in rows])} (most on {names[row]}: "
        f"{load.resources[column]} {pods[row, column]:.0f} % and {nodes[row, column]:.0f} %); a node's "
        "own figure decides whether it is hot, the larger one what may land there"
    )


def _score_rules(prepared: PreparedInputs) -> Iterator[PlanWarning]:
    """Score rules that apply to nothing, and the nodes whose score they do not know."""
    inputs = prepared.inputs
    rule_scores = prepared.schedulers.rule_scores()
    known = inputs.load.known
    names = inputs.snapshot.nodes.names
    for rule in inputs.policy.hot_nodes.every_rule:
        if not isinstance(rule, ScoreRule):
            continue
        score = rule_scores.get(score_key(rule))
        if score is None:
            if not rule.score.plugins:  # else ``misfits`` says so
                text = "hotNodes: a score rule names no plugins, and no profile has one that looks at load"
                yield PlanWarning(About.SETTING, text)
            continue
        stray = sorted(rule.floor.keys() - score.resources)
        if stray:
            text = (
                f"hotNodes: a score rule has a floor for {' and '.join(stray)}, which "
                f"{', '.join(score.plugins)} does not score: it has no effect"
            )
            yield PlanWarning(About.SETTING, text)
        dark = np.flatnonzero(np.isnan(score.score) & known).tolist()
        if dark:
            which = named([names[row] for row in dark])
            plugins = ", ".join(score.plugins)
            text = f"hotNodes: {plugins} has no figure of {which}: its score makes no node hot there"
            yield PlanWarning(About.LOAD, text)


def _score_rule(rule: ScoreRule) -> str:
    return f"score rule {score_key(rule)}"


# What in a policy has no effect here. A policy made for another cluster moves nothing and breaks nothing, a
# misspelt name in a protection protects nothing, and one in a selection selects nothing: without a word it
# looks as if there were nothing to do.


def misfits(
    policy: RebalancePolicy, snapshot: Snapshot, schedulers: Sequence[SchedulerFacts]
) -> Iterator[PlanWarning]:
    """Settings to which no pod, no plugin of the cluster and no other setting answers."""
    yield from _about(About.SETTING, policy.execution.without_effect())
    used = {pod.scheduler_name for pod in snapshot.pods.classes}
    for scheduler in schedulers:
        acting = scheduler.acts_on
        if scheduler.settings.profiles and acting and used.isdisjoint(acting):
            text = f"scheduler.profiles: no pod has schedulerName {' or '.join(acting)}: no pod is moved"
            yield PlanWarning(About.SETTING, text)
    scoring = {
        name
        for scheduler in schedulers
        for profile in scheduler.configuration.profiles
        if profile.scheduler_name in scheduler.acts_on
        for name in profile.enabled(ExtensionPoint.SCORE)
    }
    for rule in policy.hot_nodes.every_rule:
        plugins = (rule.score.plugins or ()) if isinstance(rule, ScoreRule) else ()
        if isinstance(rule, ScoreRule) and plugins and not scoring & set(plugins):
            text = f"hotNodes: no profile that the policy acts on scores by {' or '.join(plugins)}"
            yield PlanWarning(About.SETTING, f"{text}: this score rule makes no node hot", _score_rule(rule))


def unmatched_names(
    policy: RebalancePolicy,
    snapshot: Snapshot,
    schedulers: Sequence[SchedulerFacts],
    assumed_neutral: Iterable[str] = (),
) -> Iterator[PlanWarning]:
    """One sentence for each setting of the policy, or option, that names what is not there."""
    for scheduler in schedulers:
        yield from _unmatched_in_configuration(scheduler)
    yield from _unmatched_in_every_configuration(policy, schedulers, assumed_neutral)
    given = _include_exclude("evictable.namespaces", policy.evictable.namespaces)
    given += [(f"{place}.namespaces", scope.namespaces) for place, scope in _scopes(policy)]
    of_pods = (*_namespaces(given, snapshot), *_nodes(policy, snapshot), *_pods(policy, snapshot))
    yield from _about(About.PROTECTION, unmatched_protections(policy, snapshot))
    yield from _about(About.NAME, (*of_pods, *_strategies(policy, snapshot)))


def unmatched_protections(policy: RebalancePolicy, snapshot: Snapshot) -> tuple[str, ...]:
    """Names in what protects pods that nothing of the cluster has, one sentence each.

    A run that trusted them would evict what they were to keep. A pattern, such as ``istio-*``, says itself
    that there may be none, and so does a selector of labels.
    """
    given: list[tuple[str, Sequence[str]]] = [
        ("evictable.namespaces.exclude", policy.evictable.namespaces.exclude)
    ]
    given += [(f"{place}.namespaces", scope.namespaces) for place, scope in _scopes(policy)]
    kinds: list[str] = []
    known_kinds = _owner_kinds(snapshot)
    for strategy, settings in policy.strategies:
        for key, value in settings or ():
            place = f"strategies.{to_camel(strategy)}.{to_camel(key)}"
            if isinstance(value, Namespaces):
                given.append((f"{place}.exclude", value.exclude))
            elif key == "exclude_owner_kinds":
                unknown = [name for name in value if name not in known_kinds]
                kinds += [_unmatched(place, "kind", name, known_kinds, "the cluster") for name in unknown]
    namespaces: list[str] = []
    if snapshot.has(NAMESPACES):  # without them an empty one is not known to be absent
        for place, names in given:
            literal = [name for name in names if "*" not in name]
            namespaces += _namespaces([(place, literal)], snapshot)
    return (*namespaces, *kinds, *_storage_classes(policy, snapshot))


def ensure_protections(policy: RebalancePolicy, snapshot: Snapshot) -> None:
    """Raise InputError where the policy protects, by name, what the cluster does not have."""
    unmatched = unmatched_protections(policy, snapshot)
    if unmatched:
        raise InputError(
            f"protects nothing: {'; '.join(unmatched)}",
            where=f"policy {policy.metadata.name}",
            hint="correct the name; a pattern such as shop* may match nothing",
        )


def _unmatched_in_configuration(scheduler: SchedulerFacts) -> Iterator[PlanWarning]:
    configuration = scheduler.configuration
    settings = scheduler.settings
    where = f"the scheduler's configuration ({configuration.source})"
    names = configuration.scheduler_names
    for name in settings.profiles:
        if name not in names:
            text = _unmatched("scheduler.profiles", "profile", name, names, where)
            yield PlanWarning(About.NAME, f"{text}: no pod of it is moved")
    if settings.pods is not None and not scheduler.pods:
        text = f"scheduler.pods selects no pod of {settings.pods.namespace}: {settings.pods}"
        yield PlanWarning(About.NAME, text)
    yield from _unmatched_neutral("scheduler.assumeNeutral", settings.assume_neutral, (scheduler,), where)
    where_gates = "the model of the scheduler"
    for name in sorted(settings.feature_gates.keys() - _GATES_OF_RULES - SWEEPING):
        text = _unmatched("scheduler.featureGates", "feature gate", name, _GATES_OF_RULES, where_gates)
        yield PlanWarning(About.NAME, text)


def _unmatched_in_every_configuration(
    policy: RebalancePolicy, schedulers: Sequence[SchedulerFacts], assumed_neutral: Iterable[str]
) -> Iterator[PlanWarning]:
    """What the policy names for all of its schedulers, and none of them has."""
    given = [item.configuration.source for item in schedulers if item.configuration.source != DEFAULTS_SOURCE]
    where = f"the scheduler's configuration ({' and '.join(given) or 'defaults'})"
    yield from _unmatched_neutral("--assume-neutral", assumed_neutral, schedulers, where)
    enabled = _enabled(schedulers)
    for rule in policy.hot_nodes.every_rule:
        for plugin in (rule.score.plugins or ()) if isinstance(rule, ScoreRule) else ():
            if isinstance(rule, ScoreRule) and plugin not in enabled:
                text = _unmatched("hotNodes score.plugins", "plugin", plugin, enabled, where)
                alone = _score_rule(rule) if len(rule.score.plugins or ()) == 1 else ""
                yield PlanWarning(About.NAME, text, alone)


def _enabled(schedulers: Iterable[SchedulerFacts]) -> set[str]:
    return {
        plugin
        for scheduler in schedulers
        for profile in scheduler.configuration.profiles
        for plugin in profile.plugin_names
    }


def _unmatched_neutral(
    setting: str, plugins: Iterable[str], schedulers: Sequence[SchedulerFacts], where: str
) -> Iterator[PlanWarning]:
    enabled = _enabled(schedulers)
    for plugin in plugins:
        if plugin not in enabled:
            yield PlanWarning(About.NAME, _unmatched(setting, "plugin", plugin, enabled, where))
        elif not any(plugin in scheduler.configuration.assumed_neutral for scheduler in schedulers):
            text = f"{setting} names the plugin {plugin}, which is known: it is not taken to be neutral"
            yield PlanWarning(About.NAME, text)


def _scopes(policy: RebalancePolicy) -> list[tuple[str, Scope]]:
    """What is for some nodes or namespaces only, by its place in the policy."""
    evictable = policy.evictable
    scoped = policy.limits.scoped
    lists: dict[str, Sequence[Scope]] = {
        "evictable.windows": evictable.windows,
        "evictable.blackouts": evictable.blackouts,
        "limits.scoped": scoped,
    }
    return [(f"{place}[{at}]", item) for place, items in lists.items() for at, item in enumerate(items)]


def _include_exclude(place: str, settings: Namespaces) -> list[tuple[str, Sequence[str]]]:
    return [(f"{place}.include", settings.include), (f"{place}.exclude", settings.exclude)]


def _namespaces(given: Iterable[tuple[str, Sequence[str]]], snapshot: Snapshot) -> Iterator[str]:
    known = {*snapshot.pods.namespaces}
    known.update(item.metadata.name for item in snapshot.recording.records(NAMESPACES))
    for setting, names in given:
        for name in names:
            if name != _ALWAYS_EXCLUDED and not any(namespace_matches(item, (name,)) for item in known):
                yield _unmatched(setting, "namespace", name, known, "the cluster")


# Reasons and states that pods may come to have, whether or not one has them now.
_USUAL_STATES = frozenset(
    {
        *PHASES,
        *("Evicted", "NodeLost", "NodeShutdown", "NodeAffinity", "Shutdown", "Terminated", "Preempting"),
        *("UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "DeadlineExceeded"),
        *("OOMKilled", "Error", "Completed", "StartError", "ContainerCannotRun", "ContainerStatusUnknown"),
        *("PodInitializing", "ContainerCreating", "ImagePullBackOff", "ErrImagePull", "InvalidImageName"),
        *("CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    }
)


def _owner_kinds(snapshot: Snapshot) -> frozenset[str]:
    return frozenset({*BY_NAME, *(item.owner.kind for item in snapshot.pods.classes)} - {""})


def _states(snapshot: Snapshot) -> frozenset[str]:
    pods = snapshot.pods.with_finished
    rows = {*pods.columns.few("reason"), *pods.columns.few("containers")}
    return _USUAL_STATES.union(*(pods.fields(row).reasons(init=True) for row in rows))


def _taints(snapshot: Snapshot) -> frozenset[str]:
    found = (taint for node in snapshot.nodes.records for taint in node.spec.taints or ())
    return frozenset(f"{taint.key}={taint.value}" if taint.value else taint.key for taint in found)


def _instance_types(snapshot: Snapshot) -> frozenset[str]:
    label = "node.kubernetes.io/instance-type"
    return frozenset((node.metadata.labels or {}).get(label, "") for node in snapshot.nodes.records) - {""}


def _workloads(snapshot: Snapshot) -> frozenset[str]:
    workloads = Workloads(snapshot)
    return frozenset(workloads.of(PodRow(row)).key for row in range(len(snapshot.pods)))


# By the key of a strategy's list or map: what its items name, and which such things there are.
NAMED: Mapping[str, tuple[str, Callable[[Snapshot], frozenset[str]]]] = {
    "include_owner_kinds": ("kind", _owner_kinds),
    "exclude_owner_kinds": ("kind", _owner_kinds),
    "reasons": ("reason", _states),
    "states": ("state", _states),
    "excluded_taints": ("taint", _taints),
    "included_taints": ("taint", _taints),
    "prices": ("instance type", _instance_types),
    "workloads": ("workload", _workloads),
}


def _strategies(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    """Of the settings of strategies those that name what is not there, unless they do so by default."""
    taints = [taint for node in snapshot.nodes.records for taint in node.spec.taints or ()]
    for strategy, settings in policy.strategies:
        for key, value in settings or ():
            place = f"strategies.{to_camel(strategy)}.{to_camel(key)}"
            if isinstance(value, Namespaces):
                yield from _namespaces(_include_exclude(place, value), snapshot)
            elif isinstance(value, Selector):
                of_nodes = key == "node_selector"
                objects = [item.metadata.labels or {} for item in snapshot.nodes.records]
                labels = objects if of_nodes else [item.labels for item in snapshot.pods.classes]
                if not any(map(value.selects, labels)):
                    yield f"{place} selects no {'node' if of_nodes else 'pod'}: {value}"
            elif key in NAMED:
                noun, things = NAMED[key]
                known = things(snapshot)
                usual = type(settings).model_fields[key].default or ()
                for name in value or ():
                    there = any(matches_taint(taint, (name,)) for taint in taints) or name in known
                    if not there and name not in usual:
                        yield _unmatched(place, noun, name, known, "the cluster")


def _nodes(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    labels = [item.metadata.labels or {} for item in snapshot.recording.records(NODES)]
    selectors = [("hotNodes.nodeSelector", policy.hot_nodes.node_selector)]
    selectors += [
        (f"hotNodes.pools {pool.name}: nodeSelector", pool.node_selector) for pool in policy.hot_nodes.pools
    ]
    selectors += [(f"{place}.nodeSelector", scope.node_selector) for place, scope in _scopes(policy)]
    for setting, selector in selectors:
        if selector is not None and not any(map(selector.selects, labels)):
            yield f"{setting} selects no node: {selector}"


def _pods(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    selector = policy.evictable.pod_selector
    if selector is not None and not any(selector.selects(item.labels) for item in snapshot.pods.classes):
        yield f"evictable.podSelector selects no pod: {selector}"
    selector = policy.evictable.namespace_selector
    labels = snapshot.namespaces
    if selector is not None and labels is not None and not any(map(selector.selects, labels.values())):
        yield f"evictable.namespaceSelector selects no namespace: {selector}"
    yield from _storage_classes(policy, snapshot)


def _storage_classes(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    if not snapshot.has(STORAGE_CLASSES):
        return
    known = [item.metadata.name for item in snapshot.recording.records(STORAGE_CLASSES)]
    for name in policy.evictable.protect_storage_classes:
        if name not in known:
            yield _unmatched("evictable.protectStorageClasses", "storage class", name, known, "the cluster")


def _unmatched(setting: str, noun: str, name: str, known: Iterable[str], where: str) -> str:
    names = sorted(known)
    hint = did_you_mean(name, names)
    if names and not hint:
        listed = ", ".join(names[:_MAX_NAMES])
        more = len(names) - _MAX_NAMES
        hint = f"it has: {listed} and {more} more" if more > 0 else f"it has: {listed}"
    return f"{setting} names the {noun} {name}, which {where} does not have" + (f" ({hint})" if hint else "")


def insecure_connections(
    policy: RebalancePolicy, schedulers: Iterable[SchedulerFacts], server: str
) -> Iterator[PlanWarning]:
    """One warning that lists every connection without protection; none when all are protected.

    ``server`` is what ``unprotected_server`` says. Each of them was chosen in some file, often years ago and
    by somebody else: certificates that nobody checks, credentials sent unencrypted.
    """
    found = [*([server] if server else ()), *_of_the_policy(policy)]
    for scheduler in schedulers:
        found += _of_the_plugins(scheduler.configuration)
    if found:
        text = f"connections without protection: {'; '.join(dict.fromkeys(found))}"
        yield PlanWarning(About.SAFETY, text)


def unprotected_server(host: str, *, verifies_certificates: bool) -> str:
    """What the connection to an API server lacks; empty when it is protected."""
    if is_read_on_the_way(host):
        what = f"the API server {host} gets credentials over plain http"
        remedy = "write https:// as server"
        return f"{what} ({remedy} in the kubeconfig)"
    if not verifies_certificates and urlsplit(host).scheme == "https":
        what = f"the certificate of the API server {host} is not verified"
        return f"{what} (insecure-skip-tls-verify in the kubeconfig)"
    return ""


def _of_the_policy(policy: RebalancePolicy) -> Iterator[str]:
    for source in policy.load.sources:
        if not isinstance(source, PrometheusSource) or source.prometheus.address is None:
            continue
        settings = source.prometheus
        if settings.insecure_skip_verify and urlsplit(source.prometheus.address).scheme == "https":
            yield f"the certificate of Prometheus {settings.address} is not verified (insecureSkipVerify)"


def _of_the_plugins(configuration: SchedulerConfiguration) -> Iterator[str]:
    """Trimaran's own load-watcher skips verification unless configured otherwise; so do we."""
    for profile in configuration.profiles:
        for arguments in profile.arguments.values():
            provider = getattr(arguments, "metric_provider", None)
            if provider is None or provider.type != "Prometheus" or not provider.address:
                continue
            if getattr(arguments, "watcher_address", ""):
                continue
            address = provider.address if "://" in provider.address else f"http://{provider.address}"
            if provider.token and is_read_on_the_way(address):
                yield f"metricProvider {address} gets its token over plain http (write https://)"
            if address.startswith("https://") and provider.insecure_skip_verify is not False:
                yield (
                    f"the certificate of metricProvider {address} is not verified "
                    "(insecureSkipVerify, which is true unless set to false)"
                )
