"""The warnings of a plan: what its reader must know, the most important first.

``of_inputs`` warns of what was read and of the policy, before the search; ``of_plan`` and ``of_landings``
warn of what only the search shows. ``sentences`` puts all of them in order, and keeps one warning a subject:
where a score rule names a misspelt plugin, it does not also warn that the rule has no effect.

    About.NAME      scheduler.profiles names the profile trimarann, which the configuration does not have ...
    About.CLUSTER   not read: nodes (metrics.k8s.io) (not in the dump)
    About.LOAD      metrics-server: figures of node n1 are older than load.maxAge (3m) and are not used
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.kinds import METRICS
from rebalancer.cluster.pod_classes import OF_THEIR_NODE
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.load.report import LoadReport, named
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning import other_deschedulers
from rebalancer.planning.hotness import coverage_of, leaving_load, pressure_after_cooling, score_key
from rebalancer.planning.inputs import About, Observation, PlanningInputs, PlanWarning, SchedulerFacts
from rebalancer.planning.insecure_connections import insecure_connections
from rebalancer.planning.landing.scenarios import Scenarios
from rebalancer.planning.landing.schedulers import neutral_everywhere
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.scheduler_facts import SWEEPING
from rebalancer.planning.scheduler_pods import gates_of, versions_of
from rebalancer.planning.unmatched_settings import settings_without_effect, unmatched_names
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.load_sources import RequestsSource
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import DEFAULTS_SOURCE, OF_KUBERNETES, Profile
from rebalancer.scheduling.versions.release import Release, major_minor
from rebalancer.scheduling.versions.rules import GATES_OF_RULES, OPPORTUNISTIC_BATCHING
from rebalancer.scheduling.versions.verified import version_warnings
from rebalancer.state.run_state import RunState, why_refused

_MAX_GATES = 10  # a sentence lists no more feature gates than these


def sentences(warnings: Iterable[PlanWarning]) -> tuple[str, ...]:
    """The sentences that a plan prints: the most important first, one about each subject, none twice."""
    sentence_by_subject: dict[str, str] = {}
    for warning in sorted(warnings, key=lambda warning: warning.about):
        sentence_by_subject.setdefault(warning.subject or warning.sentence, warning.sentence)
    return tuple(dict.fromkeys(sentence_by_subject.values()))


def of_inputs(
    observation: Observation,
    policy: RebalancePolicy,
    schedulers: Sequence[SchedulerFacts],
    watched: SchedulerView,
    load: LoadReport,
) -> tuple[PlanWarning, ...]:
    """The warnings before the search; of a scheduler only if the policy moves its pods.

    ``watched`` is what rebalancer read from the load-watchers that the policy names as load sources.
    """
    snapshot = observation.snapshot
    acting = [scheduler for scheduler in schedulers if scheduler.acts_on]
    return (
        *unmatched_names(policy, snapshot, schedulers, observation.assumed_neutral),
        *settings_without_effect(policy, snapshot, schedulers),
        *insecure_connections(policy, schedulers, observation.server.unprotected),
        *_about(About.REFUSAL, (text for scheduler in acting for text in _refusals(scheduler))),
        *_about(About.REFUSAL, _of_other_deschedulers(snapshot, policy)),
        *_about(About.SCHEDULER, (text for scheduler in acting for text in _of_scheduler(scheduler))),
        *_about(About.CLUSTER, _of_cluster(snapshot, policy)),
        *_about(About.LOAD, (text for scheduler in acting for text in _seen_by_plugins(scheduler.view))),
        *_about(About.LOAD, _not_watched(watched)),
        *_about(About.LOAD, load.warnings),
    )


def _refusals(scheduler: SchedulerFacts) -> Iterator[str]:
    """Why a run would not move the pods of a scheduler, one sentence a reason."""
    if scheduler.not_alive:
        yield f"the pods of {scheduler.name} stay: {scheduler.not_alive}"
    if not scheduler.version and not scheduler.settings.allow_unverified_version:
        yield from version_warnings("", scheduler.configuration.api_version)


def _about(about: About, sentences: Iterable[str]) -> Iterator[PlanWarning]:
    return (PlanWarning(about, sentence) for sentence in sentences)


def of_agreement(policy: RebalancePolicy, state: RunState | None, now: float) -> Iterator[PlanWarning]:
    """Warns where rebalancer does not know that the schedulers decide as it computes."""
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
    started_with: set[str] = set()
    for pod in scheduler.pods:
        started_with.update(pod.configuration_files)
    if started_with and not settings.configured_by and configuration.source == DEFAULTS_SOURCE:
        files = ", ".join(sorted(started_with)[:3])
        yield (
            f"the scheduler {scheduler.name} is started with --config={files}, which was not given: the "
            "defaults are assumed; name it in scheduler.configMap or scheduler.file"
        )
    config_map = settings.config_map
    # Of a live cluster that lacks it rebalancer makes no plan, so this one is a recording.
    if config_map and configuration.source == DEFAULTS_SOURCE:
        yield (
            f"configmap {config_map.namespace}/{config_map.name}, which scheduler.configMap names, was not "
            "recorded: the defaults are assumed; add it as scheduler-config.yaml, or give it by "
            "--scheduler-config"
        )
    yield from _of_its_version(scheduler)
    if neutral := neutral_everywhere(configuration):
        yield not_modelled(neutral)
    for extender in configuration.extenders:
        if extender.url in configuration.computed:
            continue
        protected = "all pods of its scheduler"
        resources = ", ".join(resource.name for resource in extender.managed_resources)
        if resources:
            protected = f"pods that ask for {resources}"
        yield (
            f"extender {extender.name} is not modelled: {protected} are protected, unless "
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
    """Warns where rebalancer assumes the version of a scheduler, or has not verified the version."""
    configuration = scheduler.configuration
    settings = scheduler.settings
    if scheduler.other_versions:
        versions = ", ".join((scheduler.version, *scheduler.other_versions))
        yield (
            f"the pods of scheduler {scheduler.name} have different versions ({versions}): the rules of the "
            "lowest are used; scheduler.version can state another one"
        )
    versions_of_pods = versions_of(scheduler.pods)
    stated = major_minor(settings.version or "")
    if stated and versions_of_pods and stated not in versions_of_pods:
        yield (
            f"scheduler.version says {stated}, but the pods of scheduler {scheduler.name} have version "
            f"{', '.join(versions_of_pods)}; the policy is followed"
        )
    # The scheduler of the control plane is as new as the API server, which needs no warning.
    is_known = bool(scheduler.serves_default or settings.version or versions_of_pods)
    if scheduler.is_as_kubelets:
        yield (
            f"the recording does not tell the version of scheduler {scheduler.name}: rebalancer takes it to "
            f"be {scheduler.version}, as the newest kubelet is; scheduler.version can state another one"
        )
    elif scheduler.version and not is_known:
        yield (
            f"no pod was seen that runs the scheduler {scheduler.name}: it is taken to be "
            f"{scheduler.version}, as the API server is; name its pods in scheduler.pods, or state "
            "scheduler.version"
        )
    is_allowed = settings.allow_unverified_version
    if scheduler.version or is_allowed:
        api_version = ""
        if configuration.source != DEFAULTS_SOURCE:
            api_version = configuration.api_version
        yield from version_warnings(scheduler.version, api_version, is_allowed=is_allowed)


def reuses_orders(profile: Profile, release: Release) -> bool:
    """Whether a profile may place a pod by the order of nodes that it computed for the pod before.

    It does so for equal pods, if every plugin can tell whether two pods are equal to it. PodTopologySpread
    with default constraints cannot, nor can any plugin from outside Kubernetes. Source: kubernetes v1.36.3
    pkg/scheduler, framework/runtime/batch.go and SignPod of the plugins.
    """
    if not release.has(OPPORTUNISTIC_BATCHING) or profile.plugin_names - OF_KUBERNETES:
        return False
    if "PodTopologySpread" not in profile.plugin_names:
        return True
    arguments = profile.argument("PodTopologySpread")
    has_constraints_of_kubernetes = getattr(arguments, "defaulting_type", "") != "List"
    has_constraints_of_its_own = bool(getattr(arguments, "default_constraints", ()))
    return not (has_constraints_of_kubernetes or has_constraints_of_its_own)


def not_modelled(plugins: Iterable[str]) -> str:
    """The sentence that rebalancer does not model these plugins of the scheduler."""
    return f"not modelled, so ignored: {', '.join(plugins)}"


def contradicted_gates(scheduler: SchedulerFacts) -> Iterator[str]:
    """One sentence for each feature gate that the scheduler's command line sets against the policy."""
    running = gates_of(scheduler.pods) or {}
    for name, value in sorted(scheduler.settings.feature_gates.items()):
        if running.get(name, value) != value:
            stated = str(value).lower()
            started = str(running[name]).lower()
            yield (
                f"scheduler.featureGates says {name}: {stated}, but the scheduler was started with "
                f"{name}={started}; the policy is followed"
            )


def unknown_gates(scheduler: SchedulerFacts) -> Iterator[str]:
    """Warns of gates that no rule of the model has, and of an emulated version, which hides what is on."""
    running = gates_of(scheduler.pods) or {}
    unknown = sorted(running.keys() - GATES_OF_RULES - SWEEPING)
    if unknown:
        names = ", ".join(unknown[:_MAX_GATES])
        if len(unknown) > _MAX_GATES:
            names += f" and {len(unknown) - _MAX_GATES} more"
        what = "the feature gate" if len(unknown) == 1 else "the feature gates"
        yield (
            f"the scheduler {scheduler.name} was started with {what} {names}, which rebalancer does not "
            "know: it may decide otherwise than computed; rebalancer agreement shows whether it does"
        )
    emulated = sorted({pod.emulates for pod in scheduler.pods} - {""})
    if emulated:
        yield (
            f"the scheduler {scheduler.name} emulates {' and '.join(emulated)}: which feature gates are on "
            "is not known, and pods that depend on one stay; say so in scheduler.featureGates"
        )


def _of_cluster(snapshot: Snapshot, policy: RebalancePolicy) -> Iterator[str]:
    """Warns of kinds and objects that were not read, and of pods on nodes that the cluster does not have."""
    not_needed: set[str] = set()
    if all(isinstance(source, RequestsSource) for source in policy.load.sources):
        not_needed = {kind.plural for kind in METRICS}
    # A dump that somebody made by hand lacks many kinds for the same reason: one sentence lists them.
    plurals_by_reason: dict[str, list[str]] = {}
    for plural, why in sorted(snapshot.recording.unread.items()):
        if plural not in not_needed:
            plurals_by_reason.setdefault(why, []).append(plural)
    for why, plurals in plurals_by_reason.items():
        yield f"not read: {', '.join(plurals)} ({why})"
    yield from snapshot.recording.warnings
    for malformed in snapshot.malformed:
        yield f"could not be read: {malformed}"
    yield from _on_unknown_nodes(snapshot)


def _on_unknown_nodes(snapshot: Snapshot) -> Iterator[str]:
    pods = snapshot.pods
    rows = [
        PodRow(row)
        for row in np.flatnonzero(pods.node_unknown & ~pods.terminating).tolist()
        if pods.class_of(PodRow(row)).owner.kind not in OF_THEIR_NODE
    ]
    if rows:
        pods_run = counted(len(rows), "pod runs on a node", "pods run on nodes")
        yield (
            f"{pods_run} that the cluster does not have, e.g. {pods.full_name(rows[0])}: "
            "they, and what replaces them, count nowhere"
        )


def _not_watched(view: SchedulerView) -> Iterator[str]:
    """One sentence for each load-watcher of ``load.sources`` that did not answer."""
    for address, why in sorted(view.missing.items()):
        yield f"load.sources: {address}: {why}"


def _seen_by_plugins(view: SchedulerView) -> Iterator[str]:
    """One sentence for each source of figures of the scheduler's plugins that did not answer."""
    for address, why in sorted(view.missing.items()):
        yield f"seen by plugins: {address or 'built-in load-watcher'}: {why}"


def of_landings(scenarios: Scenarios) -> Iterator[PlanWarning]:
    """Warns where the plan follows only some of the scheduler's possible choices among equal nodes."""
    if scenarios.are_some:
        yield PlanWarning(
            About.SCHEDULER,
            f"chances of landings are approximate: the plan follows only {len(scenarios.all)} of the ways in "
            "which equal nodes may be chosen",
        )


def of_plan(prepared: PreparedInputs, *, says_runs: bool = False) -> Iterator[PlanWarning]:
    """The warnings that need the model of the scheduler and the places of the Pending pods.

    ``says_runs``: the plan says by itself in how many runs a node has to be hot.
    """
    inputs = prepared.inputs
    if prepared.options.ignore_coverage:
        coverage = coverage_of(inputs).share
        min_coverage = inputs.policy.load.min_coverage
        if coverage < min_coverage:
            yield PlanWarning(
                About.REFUSAL,
                f"load is known of {coverage:.0%} of the nodes, load.minCoverage is {min_coverage:.0%}: "
                "a run would refuse to act",
            )
    yield from _score_rules(prepared)
    yield from _about(About.LOAD, _of_figures(prepared, says_runs=says_runs))
    yield from _about(About.PODS, _of_pods(prepared))


def _of_figures(prepared: PreparedInputs, *, says_runs: bool) -> Iterator[str]:
    """Warns of nodes without a figure, of figures that contradict, and of a state that was not given."""
    inputs = prepared.inputs
    nodes_without_figure = int(np.count_nonzero(~inputs.load.known))
    if nodes_without_figure:
        nodes_have = counted(nodes_without_figure, "node has", "nodes have")
        yield f"{nodes_have} no fresh load figure: neither hot nor a landing to count on"
    if inputs.state is None:
        yield from _without_state(inputs.policy, says_runs=says_runs)
    yield from _figures_that_differ(inputs)
    leaving = leaving_load(inputs, prepared.hotness, prepared.eviction.leaving)
    for node, sentence in leaving.items():
        yield f"{node}: {sentence}"


def _without_state(policy: RebalancePolicy, *, says_runs: bool) -> Iterator[str]:
    """What of the policy needs the state of earlier runs."""
    if policy.limits.rates:
        rates = " and ".join(policy.limits.rates)
        yield f"no state of earlier runs: what they evicted is not counted against {rates}"
    runs = policy.hot_nodes.for_runs
    if runs > 1 and policy.hot_nodes.every_rule and not says_runs:
        yield f"no state of earlier runs: hot nodes count as hot in {runs} runs (hotNodes.forRuns)"


def _of_pods(prepared: PreparedInputs) -> Iterator[str]:
    """Warns of pods that are still slowed down, and of Pending pods."""
    pressure = pressure_after_cooling(prepared.inputs, prepared.hotness)
    for node, sentence in pressure.items():
        yield f"{node}: {sentence}"
    pending = prepared.pending
    if pending.unplaced:
        yield f"{counted(pending.unplaced, 'Pending pod does', 'Pending pods do')} not fit on any node now"
    if pending.of_others:
        pods_have = counted(sum(pending.of_others.values()), "Pending pod has", "Pending pods have")
        schedulers = ", ".join(sorted(pending.of_others))
        yield (
            f"{pods_have} a scheduler that is not configured ({schedulers}): which nodes they take is not "
            "known, and no landing allows for them"
        )
    if prepared.pods.nominated:
        pods_are = counted(len(prepared.pods.nominated), "Pending pod is", "Pending pods are")
        yield f"{pods_are} nominated to a node by preemption"


# In percentage points of allocatable. Windows and clocks that differ explain a smaller difference.
_CONTRADICTING_POINTS = 10.0


def _figures_that_differ(inputs: PlanningInputs) -> Iterator[str]:
    """Warns where the figures of a node's pods add up to more than the figure of the node."""
    load = inputs.load
    columns = [load.percent_resources.index(name) for name in load.resources]
    # All four are (nodes, measured resources).
    allocatable = np.where(load.allocatable[:, columns] > 0, load.allocatable[:, columns], np.nan)
    percent_of_pods = np.nan_to_num(100.0 * load.least_usage / allocatable)
    percent_of_nodes = np.nan_to_num(100.0 * load.usage / allocatable)
    difference = np.where(load.known[:, None], percent_of_pods - percent_of_nodes, 0.0)
    rows = np.flatnonzero((difference > _CONTRADICTING_POINTS).any(axis=1)).tolist()
    if not rows:
        return
    worst = np.unravel_index(np.argmax(difference), difference.shape)
    row, column = map(int, worst)
    names = inputs.snapshot.nodes.names
    nodes = named([names[row] for row in rows])
    yield (
        f"pods use more than their nodes report: {nodes} (most on {names[row]}: {load.resources[column]} "
        f"{percent_of_pods[worst]:.0f} % and {percent_of_nodes[worst]:.0f} %); a node's "
        "own figure decides whether it is hot, the larger one what may land there"
    )


def _score_rules(prepared: PreparedInputs) -> Iterator[PlanWarning]:
    """Warns of score rules without effect, and of nodes whose score is not known."""
    inputs = prepared.inputs
    rule_scores = prepared.schedulers.rule_scores()
    is_known = inputs.load.known
    names = inputs.snapshot.nodes.names
    for rule in inputs.policy.hot_nodes.every_rule:
        if not isinstance(rule, ScoreRule):
            continue
        score = rule_scores.get(score_key(rule))
        if score is None:
            # ``settings_without_effect`` warns of a rule that does name plugins.
            if not rule.score.plugins:
                text = "hotNodes: a score rule names no plugins, and no profile has one that looks at load"
                yield PlanWarning(About.SETTING, text)
            continue
        not_scored = sorted(rule.floor.keys() - score.resources)
        if not_scored:
            text = (
                f"hotNodes: a score rule has a floor for {' and '.join(not_scored)}, which "
                f"{', '.join(score.plugins)} does not score: it has no effect"
            )
            yield PlanWarning(About.SETTING, text)
        rows_without_score = np.flatnonzero(np.isnan(score.score) & is_known).tolist()
        if rows_without_score:
            nodes = named([names[row] for row in rows_without_score])
            plugins = ", ".join(score.plugins)
            text = f"hotNodes: {plugins} has no figure of {nodes}: its score makes no node hot there"
            yield PlanWarning(About.LOAD, text)
