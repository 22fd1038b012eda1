"""Warns of settings of a policy that have no effect, most often because they name what is not there.

Nothing fails because of such a setting. A misspelt namespace in a protection protects no pod, one in a
selection selects none, and a policy that was written for another cluster moves nothing: without a warning the
plan looks as if there were nothing to do.

    evictable.namespaces.include names the namespace shpo, which the cluster does not have
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.kinds import BY_NAME, NAMESPACES, NODES, STORAGE_CLASSES
from rebalancer.cluster.leaving_nodes import matches_taint
from rebalancer.cluster.pod_classes import OF_THEIR_NODE
from rebalancer.cluster.pods import PHASES
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.documents.models import did_you_mean, to_camel
from rebalancer.errors import InputError
from rebalancer.planning.hotness import score_key
from rebalancer.planning.inputs import About, PlanWarning, SchedulerFacts
from rebalancer.planning.scheduler_facts import SWEEPING
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.model import Selector
from rebalancer.policy.schema import Namespaces, RebalancePolicy, share_of
from rebalancer.policy.scopes import Scope, namespace_matches
from rebalancer.profiles.types import DEFAULTS_SOURCE, ExtensionPoint
from rebalancer.scheduling.versions.rules import GATES_OF_RULES

_MAX_NAMES = 10  # a sentence lists no more names than these
_SURELY_ALIKE = 0.75  # of 1: whoever exempts what has a label knows that nothing may have it yet
_ALWAYS_EXCLUDED = "kube-system"  # every policy excludes it by default: a cluster without it gets no warning


def settings_without_effect(
    policy: RebalancePolicy, snapshot: Snapshot, schedulers: Sequence[SchedulerFacts]
) -> Iterator[PlanWarning]:
    """One warning for each setting that another setting, or the cluster's pods and plugins, makes void."""
    for sentence in (*policy.without_effect(), *_numbers_that_bound_nothing(policy, snapshot)):
        yield PlanWarning(About.SETTING, sentence)
    names_of_pods = {pod.scheduler_name for pod in snapshot.pods.classes}
    for scheduler in schedulers:
        acting = scheduler.acts_on
        if scheduler.settings.profiles and acting and names_of_pods.isdisjoint(acting):
            text = f"scheduler.profiles: no pod has schedulerName {' or '.join(acting)}: no pod is moved"
            yield PlanWarning(About.SETTING, text)
    scoring = {
        name
        for scheduler in schedulers
        for profile in scheduler.configuration.profiles
        if profile.scheduler_name in scheduler.acts_on
        for name in profile.enabled(ExtensionPoint.SCORE)
    }
    for rule, plugins in _score_rules(policy):
        if plugins and scoring.isdisjoint(plugins):
            text = f"hotNodes: no profile that the policy acts on scores by {' or '.join(plugins)}"
            yield PlanWarning(About.SETTING, f"{text}: this score rule makes no node hot", _subject(rule))


def _numbers_that_bound_nothing(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    """Sentences on numbers that are as large as what they count, where a percentage may be meant."""
    per_workload = policy.limits.per_workload
    pods = snapshot.pods
    owners = (pods.classes[index].owner for index in pods.pod_class[pods.node >= 0].tolist())
    counts = Counter(owner.uid for owner in owners if owner.kind and owner.kind not in OF_THEIR_NODE)
    largest = max(counts.values(), default=0)
    said_already = any(policy.limits.without_effect())
    if not per_workload.percent and per_workload.number >= largest > 1 and not said_already:
        yield (
            f"limits.perWorkload {per_workload} bounds no workload here: the largest has "
            f"{counted(largest, 'pod')}; {share_of(per_workload)} would be a share of its replicas"
        )
    not_ready = policy.safety.max_not_ready_nodes
    nodes = len(snapshot.nodes)
    if not not_ready.percent and not_ready.number >= nodes > 1:
        yield (
            f"safety.maxNotReadyNodes {not_ready} stops no run here: the cluster has "
            f"{counted(nodes, 'node')}; {share_of(not_ready)} would be a share of them"
        )


def _score_rules(policy: RebalancePolicy) -> Iterator[tuple[ScoreRule, Sequence[str]]]:
    """The score rules, each with the plugins that it names; none: it goes by all plugins that score load."""
    for rule in policy.hot_nodes.every_rule:
        if isinstance(rule, ScoreRule):
            yield rule, rule.score.plugins or ()


def _subject(rule: ScoreRule) -> str:
    """What warnings about a score rule are about, so that a plan has only one of them."""
    return f"score rule {score_key(rule)}"


def unmatched_names(
    policy: RebalancePolicy,
    snapshot: Snapshot,
    schedulers: Sequence[SchedulerFacts],
    assumed_neutral: Iterable[str] = (),
) -> Iterator[PlanWarning]:
    """One warning for each name, in the policy or in --assume-neutral, of something that is not there."""
    for scheduler in schedulers:
        yield from _unmatched_in_configuration(scheduler)
    yield from _unmatched_in_every_configuration(policy, schedulers, assumed_neutral)
    for sentence in unmatched_protections(policy, snapshot):
        yield PlanWarning(About.PROTECTION, sentence)
    for sentence in _unmatched_in_cluster(policy, snapshot):
        yield PlanWarning(About.NAME, sentence)


def unmatched_protections(policy: RebalancePolicy, snapshot: Snapshot) -> tuple[str, ...]:
    """One sentence for each name in a protection that the cluster does not have.

    A run would evict the pods that the misspelt name should protect. A pattern, such as ``istio-*``, and a
    label that must not exist are no names: whoever writes one knows that it may match nothing. What ``NotIn``
    keeps out by a label that nothing has, it does not keep out.
    """
    protected_namespaces: list[tuple[str, Sequence[str]]] = [
        ("evictable.namespaces.exclude", policy.evictable.namespaces.exclude)
    ]
    for place, scope in _scopes(policy):
        protected_namespaces.append((f"{place}.namespaces", scope.namespaces))
    unmatched_kinds: list[str] = []
    kinds = _owner_kinds(snapshot)
    for strategy, settings in policy.strategies:
        for key, value in settings or ():
            place = f"strategies.{to_camel(strategy)}.{to_camel(key)}"
            if isinstance(value, Namespaces):
                protected_namespaces.append((f"{place}.exclude", value.exclude))
            elif key == "exclude_owner_kinds":
                unmatched_kinds += _unmatched_in(place, "kind", value, kinds)
    unmatched_namespaces: list[str] = []
    # A recording without Namespaces shows only those that have pods: an empty one may well exist.
    if snapshot.has(NAMESPACES):
        for place, names in protected_namespaces:
            literal = [name for name in names if "*" not in name]
            unmatched_namespaces += _unmatched_namespaces([(place, literal)], snapshot)
    return (
        *(*unmatched_namespaces, *unmatched_kinds, *_unmatched_storage_classes(policy, snapshot)),
        *_unmatched_labels_of_protections(policy, snapshot),
    )


def ensure_protections(policy: RebalancePolicy, snapshot: Snapshot) -> None:
    """Raise InputError where the policy protects, by name, what the cluster does not have."""
    unmatched = unmatched_protections(policy, snapshot)
    if unmatched:
        raise InputError(
            f"protects nothing: {'; '.join(unmatched)}",
            where=f"policy {policy.metadata.name}",
            hint="correct the name; a pattern such as shop* may match nothing, and so may a DoesNotExist",
        )


def _unmatched_in_configuration(scheduler: SchedulerFacts) -> Iterator[PlanWarning]:
    """What the policy names for one scheduler, and that scheduler does not have."""
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
    for name in sorted(settings.feature_gates.keys() - GATES_OF_RULES - SWEEPING):
        text = _unmatched(
            "scheduler.featureGates", "feature gate", name, GATES_OF_RULES, "the model of the scheduler"
        )
        yield PlanWarning(About.NAME, text)


def _unmatched_in_every_configuration(
    policy: RebalancePolicy, schedulers: Sequence[SchedulerFacts], assumed_neutral: Iterable[str]
) -> Iterator[PlanWarning]:
    """What the policy names for all of its schedulers, and none of them has."""
    sources = [scheduler.configuration.source for scheduler in schedulers]
    given = [source for source in sources if source != DEFAULTS_SOURCE]
    where = f"the scheduler's configuration ({' and '.join(given) or 'defaults'})"
    yield from _unmatched_neutral("--assume-neutral", assumed_neutral, schedulers, where)
    enabled = _enabled_plugins(schedulers)
    for rule, plugins in _score_rules(policy):
        for plugin in plugins:
            if plugin not in enabled:
                text = _unmatched("hotNodes score.plugins", "plugin", plugin, enabled, where)
                # A rule with one plugin has no effect without it, which needs no second warning.
                subject = _subject(rule) if len(plugins) == 1 else ""
                yield PlanWarning(About.NAME, text, subject)


def _enabled_plugins(schedulers: Iterable[SchedulerFacts]) -> set[str]:
    return {
        plugin
        for scheduler in schedulers
        for profile in scheduler.configuration.profiles
        for plugin in profile.plugin_names
    }


def _unmatched_neutral(
    setting: str, plugins: Iterable[str], schedulers: Sequence[SchedulerFacts], where: str
) -> Iterator[PlanWarning]:
    """Warns of plugins named as neutral that no profile enables, or whose scores rebalancer models."""
    enabled = _enabled_plugins(schedulers)
    for plugin in plugins:
        if plugin not in enabled:
            yield PlanWarning(About.NAME, _unmatched(setting, "plugin", plugin, enabled, where))
        elif not any(plugin in scheduler.configuration.assumed_neutral for scheduler in schedulers):
            text = f"{setting} names the plugin {plugin}, which is known: it is not taken to be neutral"
            yield PlanWarning(About.NAME, text)


def _unmatched_in_cluster(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    """One sentence for each setting that names or selects what the cluster does not have."""
    settings = _include_exclude("evictable.namespaces", policy.evictable.namespaces)
    for place, scope in _scopes(policy):
        settings.append((f"{place}.namespaces", scope.namespaces))
    yield from _unmatched_namespaces(settings, snapshot)
    yield from _unmatched_node_selectors(policy, snapshot)
    yield from _unmatched_pod_selectors(policy, snapshot)
    yield from _misspelt_exemptions(policy, snapshot)
    yield from _unmatched_storage_classes(policy, snapshot)
    yield from _unmatched_in_strategies(policy, snapshot)


def _scopes(policy: RebalancePolicy) -> Iterator[tuple[str, Scope]]:
    """The settings that apply to some nodes or namespaces only, each with its place in the policy."""
    evictable = policy.evictable
    lists: dict[str, Sequence[Scope]] = {
        "evictable.windows": evictable.windows,
        "evictable.blackouts": evictable.blackouts,
        "limits.scoped": policy.limits.scoped,
    }
    for place, scopes in lists.items():
        for index, scope in enumerate(scopes):
            yield f"{place}[{index}]", scope


def _include_exclude(place: str, settings: Namespaces) -> list[tuple[str, Sequence[str]]]:
    return [(f"{place}.include", settings.include), (f"{place}.exclude", settings.exclude)]


def _unmatched_namespaces(settings: Iterable[tuple[str, Sequence[str]]], snapshot: Snapshot) -> Iterator[str]:
    """One sentence for each name, or pattern, of these settings that matches no namespace."""
    namespaces = {*snapshot.pods.namespaces}
    namespaces.update(record.metadata.name for record in snapshot.recording.records(NAMESPACES))
    for setting, names in settings:
        for name in names:
            if name == _ALWAYS_EXCLUDED:
                continue
            if not any(namespace_matches(namespace, (name,)) for namespace in namespaces):
                yield _unmatched(setting, "namespace", name, namespaces, "the cluster")


def _unmatched_node_selectors(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    labels_of_nodes = [node.metadata.labels or {} for node in snapshot.recording.records(NODES)]
    selectors = [("hotNodes.nodeSelector", policy.hot_nodes.node_selector)]
    selectors += [
        (f"hotNodes.pools {pool.name}: nodeSelector", pool.node_selector) for pool in policy.hot_nodes.pools
    ]
    for place, scope in _scopes(policy):
        selectors.append((f"{place}.nodeSelector", scope.node_selector))
    for setting, selector in selectors:
        if selector is not None and not any(map(selector.selects, labels_of_nodes)):
            yield _selects_nothing(setting, "node", selector, labels_of_nodes)


def _unmatched_pod_selectors(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    pod_selector = policy.evictable.pod_selector
    labels_of_pods = [pod.labels for pod in snapshot.pods.classes]
    if pod_selector is not None and not any(map(pod_selector.selects, labels_of_pods)):
        yield _selects_nothing("evictable.podSelector", "pod", pod_selector, labels_of_pods)
    namespace_selector = policy.evictable.namespace_selector
    labels_by_namespace = snapshot.namespaces
    if namespace_selector is None or labels_by_namespace is None:
        return
    if not any(map(namespace_selector.selects, labels_by_namespace.values())):
        labels = labels_by_namespace.values()
        yield _selects_nothing("evictable.namespaceSelector", "namespace", namespace_selector, labels)


def _unmatched_storage_classes(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    if not snapshot.has(STORAGE_CLASSES):
        return
    existing = [record.metadata.name for record in snapshot.recording.records(STORAGE_CLASSES)]
    yield from _unmatched_in(
        "evictable.protectStorageClasses",
        "storage class",
        policy.evictable.protect_storage_classes,
        existing,
    )


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
    kinds_of_owners = {pod.owner.kind for pod in snapshot.pods.classes}
    return frozenset({*BY_NAME, *kinds_of_owners} - {""})


def _states(snapshot: Snapshot) -> frozenset[str]:
    pods = snapshot.pods.with_finished
    # The pods that have a reason, or a state of a container: most have neither.
    rows = {*pods.columns.few("reason"), *pods.columns.few("containers")}
    return _USUAL_STATES.union(*(pods.fields(row).reasons(init=True) for row in rows))


def _taints(snapshot: Snapshot) -> frozenset[str]:
    """``key`` or ``key=value`` of every taint."""
    taints = (taint for node in snapshot.nodes.records for taint in node.spec.taints or ())
    return frozenset(f"{taint.key}={taint.value}" if taint.value else taint.key for taint in taints)


def _instance_types(snapshot: Snapshot) -> frozenset[str]:
    label = "node.kubernetes.io/instance-type"
    return frozenset((node.metadata.labels or {}).get(label, "") for node in snapshot.nodes.records) - {""}


def _workloads(snapshot: Snapshot) -> frozenset[str]:
    workloads = Workloads(snapshot)
    return frozenset(workloads.of(PodRow(row)).key for row in range(len(snapshot.pods)))


# A strategy's lists, and maps by their keys, that name something: the noun for it, and the names that exist.
LISTS_OF_NAMES: Mapping[str, tuple[str, Callable[[Snapshot], frozenset[str]]]] = {
    "include_owner_kinds": ("kind", _owner_kinds),
    "exclude_owner_kinds": ("kind", _owner_kinds),
    "reasons": ("reason", _states),
    "states": ("state", _states),
    "excluded_taints": ("taint", _taints),
    "included_taints": ("taint", _taints),
    "prices": ("instance type", _instance_types),
    "workloads": ("workload", _workloads),
}


def _unmatched_in_strategies(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    """One sentence for each name in a strategy's settings that nothing has, unless it is there by default."""
    taints = [taint for node in snapshot.nodes.records for taint in node.spec.taints or ()]
    for strategy, settings in policy.strategies:
        for key, value in settings or ():
            place = f"strategies.{to_camel(strategy)}.{to_camel(key)}"
            if isinstance(value, Namespaces):
                yield from _unmatched_namespaces(_include_exclude(place, value), snapshot)
            elif isinstance(value, Selector):
                yield from _unmatched_selector(place, key, value, snapshot)
            elif key in LISTS_OF_NAMES:
                noun, names_that_exist = LISTS_OF_NAMES[key]
                existing = names_that_exist(snapshot)
                names_by_default = type(settings).model_fields[key].default or ()
                for name in value or ():
                    if name in existing or name in names_by_default:
                        continue
                    if not any(matches_taint(taint, (name,)) for taint in taints):
                        yield _unmatched(place, noun, name, existing, "the cluster")


def _unmatched_selector(place: str, key: str, selector: Selector, snapshot: Snapshot) -> Iterator[str]:
    """The sentence on a strategy's selector that selects nothing."""
    noun = "pod"
    labels = [pod.labels for pod in snapshot.pods.classes]
    if key == "node_selector":
        noun = "node"
        labels = [node.metadata.labels or {} for node in snapshot.nodes.records]
    if not any(map(selector.selects, labels)):
        yield _selects_nothing(place, noun, selector, labels)


_Labels = Collection[Mapping[str, str]]  # of each object of a kind


def _unmatched_labels_of_protections(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    """One sentence for each label by which a selector protects, and that nothing has."""
    for place, noun, selector in _choosing_selectors(policy):
        for key, operator in _requirements(selector):
            if operator == "NotIn":
                yield from _unmatched_label(place, noun, key, _labels_of(noun, snapshot))
    for place, scope in _scopes(policy):
        if scope.node_selector is None:
            continue
        labels = _labels_of("node", snapshot)
        needed_keys = [
            key for key, operator in _requirements(scope.node_selector) if operator in ("In", "Exists")
        ]
        if not _keys(labels).issuperset(needed_keys):
            yield _selects_nothing(f"{place}.nodeSelector", "node", scope.node_selector, labels)


def _misspelt_exemptions(policy: RebalancePolicy, snapshot: Snapshot) -> Iterator[str]:
    """One sentence for each label that must not exist, that nothing has, and that is nearly one of those."""
    for place, noun, selector in _choosing_selectors(policy):
        labels = _labels_of(noun, snapshot)
        for key, operator in _requirements(selector):
            prefix, _, name = key.rpartition("/")
            alike = [
                other.rpartition("/")[2] for other in _keys(labels) if other.rpartition("/")[0] == prefix
            ]
            if operator == "DoesNotExist" and did_you_mean(name, alike, cutoff=_SURELY_ALIKE):
                yield from _unmatched_label(place, noun, key, labels)


def _choosing_selectors(policy: RebalancePolicy) -> Iterator[tuple[str, str, Selector]]:
    """The selectors of pods that may move, and of their nodes and namespaces: each with place and noun."""
    evictable = policy.evictable
    given = [
        ("evictable.podSelector", "pod", evictable.pod_selector),
        ("evictable.namespaceSelector", "namespace", evictable.namespace_selector),
        ("hotNodes.nodeSelector", "node", policy.hot_nodes.node_selector),
    ]
    for strategy, settings in policy.strategies:
        for key, value in settings or ():
            if isinstance(value, Selector):
                place = f"strategies.{to_camel(strategy)}.{to_camel(key)}"
                given.append((place, "node" if key == "node_selector" else "pod", value))
    yield from ((place, noun, selector) for place, noun, selector in given if selector is not None)


def _requirements(selector: Selector) -> Iterator[tuple[str, str]]:
    """The label and the operator of each requirement."""
    yield from ((key, "In") for key in selector.match_labels)
    yield from ((expression.key, expression.operator) for expression in selector.match_expressions)


def _labels_of(noun: str, snapshot: Snapshot) -> _Labels:
    """The labels of each pod, node or namespace; none where a recording does not have them."""
    if noun == "pod":
        return [pod.labels for pod in snapshot.pods.classes]
    if noun == "node":
        return [node.metadata.labels or {} for node in snapshot.nodes.records]
    return (snapshot.namespaces or {}).values()


def _keys(labels: _Labels) -> frozenset[str]:
    return frozenset(key for of_object in labels for key in of_object)


def _unmatched_label(place: str, noun: str, key: str, labels: _Labels) -> Iterator[str]:
    """The sentence that a selector names a label that nothing has; none where nothing is known of them."""
    if labels and key not in _keys(labels):
        yield f"{place} names the label {key}, which no {noun} has{_similar(key, labels)}"


def _selects_nothing(place: str, noun: str, selector: Selector, labels: _Labels) -> str:
    """The sentence that a selector selects nothing, with the labels that are the reason."""
    keys = _keys(labels)
    missing = [key for key, operator in _requirements(selector) if operator in ("In", "Exists")]
    lacking = [
        f"; no {noun} has the label {key}{_similar(key, labels)}" for key in missing if key not in keys
    ]
    return f"{place} selects no {noun}: {selector}{''.join(lacking)}"


def _similar(key: str, labels: _Labels) -> str:
    hint = did_you_mean(key, _keys(labels))
    return f" ({hint})" if hint else ""


def _unmatched_in(setting: str, noun: str, names: Iterable[str], existing: Collection[str]) -> Iterator[str]:
    """One sentence for each of these names that does not exist in the cluster."""
    for name in names:
        if name not in existing:
            yield _unmatched(setting, noun, name, existing, "the cluster")


def _unmatched(setting: str, noun: str, name: str, existing: Iterable[str], where: str) -> str:
    """The sentence that a setting names what is not there; it suggests a similar name, or lists all."""
    names = sorted(existing)
    hint = did_you_mean(name, names)
    if names and not hint:
        hint = f"it has: {', '.join(names[:_MAX_NAMES])}"
        if len(names) > _MAX_NAMES:
            hint += f" and {len(names) - _MAX_NAMES} more"
    sentence = f"{setting} names the {noun} {name}, which {where} does not have"
    if hint:
        sentence += f" ({hint})"
    return sentence
