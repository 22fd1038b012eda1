"""One scheduler for each profile of the cluster's configuration, and why the model cannot place some pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import PodClassIndex
from rebalancer.cluster.kinds import CSI_DRIVERS, DEVICE_CLASSES
from rebalancer.cluster.pod_classes import NO_OWNER, PodClass
from rebalancer.cluster.pods import GANG, PodTable
from rebalancer.cluster.records import (
    Container,
    DeviceClass,
    PersistentVolumeClaim,
    PodSpec,
    ResourceRequirements,
)
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning.hotness import NodeScores, RuleScore, score_key
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.workloads.templates import placed_together, why_not_placed
from rebalancer.policy.hotness import ScoreRule
from rebalancer.profiles.types import (
    ExtensionPoint,
    Input,
    PluginDescription,
    PluginQuery,
    Profile,
    SchedulerConfiguration,
)
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import (
    RECENT_AFTER_START_SECONDS,
    ObjectsRead,
    PluginInputs,
    last_forgot_at,
)
from rebalancer.scheduling.matching import BindingLabelReaders
from rebalancer.scheduling.registry import (
    PASSING,
    UnreadInputs,
    make_scheduler,
    neutral_plugins,
    queries_of,
)
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.nodes import listed_since
from rebalancer.scheduling.state.volumes import claim_names
from rebalancer.scheduling.versions.release import Release, Rule
from rebalancer.scheduling.versions.rules import (
    DEVICE_CLASS_PREFIX,
    DRA_EXTENDED_RESOURCES,
    STORAGE_CAPACITY_SCORING,
    VOLUME_LIMIT_SCALING,
    extended_resources,
)
from rebalancer.scheduling.versions.verified import unpredictable_rule

_BINDING_LABELS_ARE_READ = (
    "a selector asks for a zone or region among the labels of pods, which they only get when they are bound"
)
# Its webhook gives these pods a scheduling gate (Kueue v0.10 pkg/controller/jobs/pod/pod_webhook.go).
_KUEUE_LABEL = "kueue.x-k8s.io/managed"
# Labels of Coscheduling's pod groups: scheduler-plugins v0.34.7 apis/scheduling/v1alpha1/types.go:112, and
# koordinator apis/extension/coscheduling.go, which names them by an annotation as well.
_POD_GROUP_LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)


def find_unpredictable(inputs: PlanningInputs) -> Mapping[int, str]:
    """Why pods of a class cannot be placed by the model, by class; predictable classes are absent."""
    configuration, snapshot = inputs.scheduler.configuration, inputs.snapshot
    release = inputs.scheduler.release
    by_profile = {
        profile.scheduler_name: _profile_reason(profile, configuration, inputs.view, snapshot)
        or _start_reason(profile, inputs)
        for profile in configuration.profiles
    }
    objects = ObjectsRead(snapshot, release)
    unread = {profile.scheduler_name: UnreadInputs(profile, objects) for profile in configuration.profiles}
    readers = BindingLabelReaders(snapshot, release)
    devices = _resources_of_device_classes(snapshot)
    settled = _SettledRules(objects, snapshot)
    gangs = _gangs(snapshot.pods)
    found: dict[int, str] = {}
    for index, pod in enumerate(snapshot.pods.classes):
        unpredictable_reason = (
            _class_reason(pod, release, devices, settled.of(pod))
            or gangs.get(index, "")
            or _extender_reason(pod, configuration)
            or by_profile.get(pod.scheduler_name, "")
        )
        if not unpredictable_reason and pod.scheduler_name in unread:
            lacking = ", ".join(unread[pod.scheduler_name].of(pod))
            unpredictable_reason = lacking and f"where it would land depends on what was not read: {lacking}"
        if not unpredictable_reason and readers.concerns(pod):
            unpredictable_reason = _BINDING_LABELS_ARE_READ
        if unpredictable_reason:
            found[index] = unpredictable_reason
    return found


def _profile_reason(
    profile: Profile, configuration: SchedulerConfiguration, view: SchedulerView, snapshot: Snapshot
) -> str:
    """Why no pod of a profile can be placed by the model."""
    permitting = [name for name in profile.enabled(ExtensionPoint.PERMIT) if name not in PASSING]
    if permitting:
        return f"plugin {permitting[0]} may hold it back (permit)"
    for name in sorted(profile.plugin_names):
        description = configuration.plugins.get(name)
        if description is None:
            continue
        unpredictable_reason = ""
        address = getattr(profile.argument(name), "watcher_address", "")
        if Input.WATCHER in description.inputs and address not in view.watchers:
            unpredictable_reason = view.missing.get(address, "its figures were not read")
        for query in queries_of(configuration, profile, name):
            unpredictable_reason = unpredictable_reason or _query_reason(query, description, view, snapshot)
        if unpredictable_reason:
            return f"what {name} sees is unknown: {unpredictable_reason}"
    return ""


def _start_reason(profile: Profile, inputs: PlanningInputs) -> str:
    """Why no pod of a profile can be placed while its scheduler has only just started.

    It lists the running pods then, and plugins that add pods which the figures do not show yet take all of
    them to be such, until the window of the figures ends a minute later. The scheduler's own figures may be
    older than ours.
    """
    start = inputs.scheduler.start
    if start is None:
        return ""
    for name in sorted(profile.plugin_names):
        description = inputs.scheduler.configuration.plugins.get(name)
        if description is None or not description.counts_recent_pods or description.of_extender:
            continue
        counts = f"{name} counts every running pod as just bound"
        if start.at is None:
            return (
                f"{counts} for some time after its scheduler starts, and when that was is not known: "
                f"{start.because} (scheduler.lease of the policy can name its lease)"
            )
        watcher = inputs.view.watchers.get(getattr(profile.argument(name), "watcher_address", ""))
        if watcher is None:
            continue
        left = start.at + RECENT_AFTER_START_SECONDS + inputs.view.lag_seconds - watcher.window_end
        if left > 0:
            return f"{counts} until about {times.render(inputs.now + left)}: {start.because}"
    return ""


def _forgot_at(inputs: PlanningInputs) -> set[float]:
    """When the scheduler last forgot some of the pods that it took to be just bound, or soon will."""
    start = inputs.scheduler.start
    if start is None or start.at is None:
        return set()
    found = (last_forgot_at(start.at, at) for at in (inputs.now, inputs.now + _PLAN_SECONDS))
    return {at for at in found if at is not None}


def _query_reason(
    query: PluginQuery, description: PluginDescription, view: SchedulerView, snapshot: Snapshot
) -> str:
    """Why the values of a query are not known, or not those of every node that could be compared."""
    answers = [values for (address, _), values in view.queries.items() if address == query.address]
    if not answers:
        return view.missing.get(query.address, "its query was not asked")
    values = view.queries.get((query.address, query.query), answers[0])
    if not values:
        return f"Prometheus {query.address} knows no node by {query.node_label}"
    if not description.every_node:
        return ""
    nodes = snapshot.nodes
    lacking = [name for row, name in enumerate(nodes.names) if nodes.ready[row] and name not in values]
    others = f" and {counted(len(lacking) - 1, 'other')}" if len(lacking) > 1 else ""
    return f"Prometheus {query.address} has no value of node {lacking[0]}{others}" if lacking else ""


class _SettledRules:
    """Rules of volumes that decide nothing about a pod, whether their gates are open or not."""

    def __init__(self, objects: ObjectsRead, snapshot: Snapshot) -> None:
        self._objects = objects
        drivers = snapshot.recording.records(CSI_DRIVERS) if objects.has(CSI_DRIVERS) else None
        asked = drivers is None or any(item.spec.prevent_pod_scheduling_if_missing for item in drivers)
        self._always = () if asked else (VOLUME_LIMIT_SCALING,)

    def of(self, pod: PodClass) -> tuple[Rule, ...]:
        """Those about pods of a class: nothing is scored for claims that are all bound."""
        bound = all((pod.namespace, name) in self._objects.bound_claims for name in claim_names(pod.spec))
        return (*self._always, STORAGE_CAPACITY_SCORING) if bound else self._always


def _class_reason(
    pod: PodClass, release: Release, devices: Mapping[str, str] | None, settled: tuple[Rule, ...]
) -> str:
    """Why pods of a class cannot be placed by the model, whatever their profile."""
    if pod.labels.get(_KUEUE_LABEL) == "true":
        return "Kueue admitted it: its replacement waits at a gate until Kueue has admitted that one too"
    for group in filter(None, map(pod.labels.get, _POD_GROUP_LABELS)):
        return placed_together(f"pod group {group}")
    return (
        why_not_placed(pod.spec)
        or unpredictable_rule(release, pod, (*settled, DRA_EXTENDED_RESOURCES))
        or _device_reason(pod, release, devices, settled)
    )


def _gangs(pods: PodTable) -> Mapping[int, str]:
    """Why classes cannot be placed whose pods name a gang of koordinator's: an annotation is in no class."""
    named: dict[int, set[str]] = {}
    for row, honoured in pods.annotations.items():
        if gang := honoured.get(GANG):
            index = int(pods.pod_class[row])
            for each in {index, pods.class_before_binding.get(index, index)}:
                named.setdefault(each, set()).add(gang)
    return {
        index: placed_together(f"gang {min(gangs)}" + " or another" * (len(gangs) > 1))
        for index, gangs in named.items()
    }


def _device_reason(
    pod: PodClass, release: Release, devices: Mapping[str, str] | None, settled: tuple[Rule, ...]
) -> str:
    """Why a class cannot be placed whose extended resources may be those of a DeviceClass.

    Source: kubernetes v1.36.3 pkg/scheduler/framework/plugins/noderesources/fit.go, its
    shouldDelegateResourceToDRA.
    """
    requested = extended_resources(pod)
    served = sorted(requested if devices is None else requested & devices.keys())
    reason = unpredictable_rule(release, pod, settled) if served else ""
    if not reason:
        return ""
    if devices is None:
        return f"{reason} ({DEVICE_CLASSES.plural} were not read: one of them may serve {served[0]})"
    return f"{reason} (DeviceClass {devices[served[0]]} serves {served[0]})"


def _resources_of_device_classes(snapshot: Snapshot) -> Mapping[str, str] | None:
    """The DeviceClass that serves an extended resource, by its name; None when not all were read."""
    listing = snapshot.recording.listings.get(DEVICE_CLASSES.plural)
    if listing is None or listing.malformed:
        return None
    found: dict[str, str] = {}
    for item in listing.records:
        if isinstance(item, DeviceClass):
            name = item.metadata.name
            found[f"{DEVICE_CLASS_PREFIX}{name}"] = name
            if item.spec.extended_resource_name:
                found[item.spec.extended_resource_name] = name
    return found


def _extender_reason(pod: PodClass, configuration: SchedulerConfiguration) -> str:
    """Why a class cannot be placed whose pods an extender is asked about that is not computed."""
    for extender in configuration.extenders:
        if extender.url in configuration.computed or not extender.is_interested(pod):
            continue
        return (
            f"extender {extender.name} takes part in placing it, "
            "and scheduler.extenders of the policy does not say what it computes"
        )
    return ""


_PLAN_SECONDS = 60.0  # within which the pods of a wave are decided on; the next wave is planned anew
_FIT = "NodeResourcesFit"  # the filter by requests


class ProfileSchedulers:
    """Places pods of any class by the profile that its schedulerName picks."""

    def __init__(self, inputs: PlanningInputs) -> None:
        self.inputs = inputs
        nodes, facts = inputs.snapshot.nodes, inputs.scheduler
        listings = itertools.product(facts.listed_nodes_at, facts.shuffles)
        self.state = ClusterState.of(
            inputs.snapshot,
            facts.release,
            [listed_since(nodes, *listing) for listing in listings],
        )
        plugin_inputs = PluginInputs.of(inputs.snapshot, inputs.view, facts.release)
        self.plugin_inputs = plugin_inputs
        configuration = inputs.scheduler.configuration
        self.by_name: Mapping[str, Scheduler] = {
            profile.scheduler_name: make_scheduler(configuration, profile, plugin_inputs)
            for profile in configuration.profiles
        }
        earlier = inputs.scheduler.stale_views or (inputs.view,)
        stale = [item for view in earlier for item in replace(plugin_inputs, view=view).with_stale_windows]
        stale += [replace(item, forgot_at=at) for at in _forgot_at(inputs) for item in stale]
        self._stale: Mapping[str, tuple[Scheduler, ...]] = {
            profile.scheduler_name: _seeing(configuration, profile, plugin_inputs, stale)
            for profile in configuration.profiles
        }
        every = itertools.chain(self.by_name.values(), *self._stale.values())
        self.state.tell_apart(pod for scheduler in every for pod in scheduler.recent_pods)
        self.neutral = neutral_everywhere(configuration)
        self._node_scores: dict[str, NodeScores] = {}
        self._owners = plugin_inputs.owners
        self._next_revisions: dict[int, PodClassIndex] = {}

    def scheduler(self, pod_class: int) -> Scheduler:
        """The scheduler of a class; KeyError when no profile has its schedulerName."""
        return self.by_name[self.state.classes[pod_class].scheduler_name]

    def is_foreign(self, pod_class: int) -> bool:
        """Whether pods of a class have a scheduler that is not configured."""
        return self.state.classes[pod_class].scheduler_name not in self.by_name

    def likely_scheduler(self, pod_class: int) -> Scheduler:
        """The scheduler of a class; where it is not configured, one of those that are."""
        name = self.state.classes[pod_class].scheduler_name
        return self.by_name.get(name) or next(iter(self.by_name.values()))

    @property
    def claims(self) -> Mapping[tuple[str, str], PersistentVolumeClaim]:
        """The PersistentVolumeClaims of the cluster, by namespace and name."""
        return self.state.classes.volumes.claims

    @property
    def max_views(self) -> int:
        """In how many ways a scheduler may see the load of the nodes."""
        return 1 + max(map(len, self._stale.values()), default=0)

    def views(self, pod_class: int) -> tuple[Scheduler, ...]:
        """The scheduler of a class by the figures we have and, where its own may be older, by those too."""
        scheduler = self.scheduler(pod_class)
        return (scheduler, *self._stale[scheduler.profile.scheduler_name])

    def needs_requested_room(self, pod_class: int) -> bool:
        """Whether a node must have room for all that pods of a class request."""
        profile = self.scheduler(pod_class).profile
        arguments = profile.arguments.get(_FIT)
        ignored = getattr(arguments, "ignored_resources", ()) or getattr(
            arguments, "ignored_resource_groups", ()
        )
        return _FIT in profile.enabled(ExtensionPoint.FILTER) and not ignored

    def next_revision(self, pod_class: int) -> PodClassIndex:
        """The class of the pods that a Deployment makes in place of those of a class when it is restarted."""
        if pod_class not in self._next_revisions:
            pod = self._owners.next_revision(self.inputs.snapshot.pods.classes[pod_class])
            self._next_revisions[pod_class] = PodClassIndex(self.state.classes.add(pod))
        return self._next_revisions[pod_class]

    def rule_scores(self) -> Mapping[str, RuleScore]:
        """By score rule of the policy: the weighted mean of its plugins for a plain pod, and what they score.

        A rule that names no plugins means those that look at load or pod counts.
        """
        found: dict[str, RuleScore] = {}
        described = self.inputs.scheduler.configuration.plugins
        for rule in self.inputs.policy.hot_nodes.every_rule:
            if isinstance(rule, ScoreRule):
                for profile in self._acting():
                    plugins = rule.score.plugins or self.inputs.scheduler.configuration.load_plugins(profile)
                    scores = self._scores_of(profile)
                    enabled = tuple(name for name in plugins if name in scores.by_plugin)
                    if enabled:
                        scored = frozenset[str]().union(
                            *(described[name].scored_resources for name in enabled)
                        )
                        found.setdefault(
                            score_key(rule), RuleScore(enabled, scores.known_mean_of(enabled), scored)
                        )
        return found

    def node_scores(self) -> NodeScores | None:
        """All score plugins of the first profile that acts, for a plain pod; None where it has none."""
        profile = next(iter(self._acting()), None)
        scores = None if profile is None else self._scores_of(profile)
        return scores if scores is not None and scores.by_plugin else None

    def _acting(self) -> tuple[Profile, ...]:
        """The profiles the policy acts for, in its order; none where there is no node to score."""
        if not self.inputs.snapshot.nodes:
            return ()
        configuration = self.inputs.scheduler.configuration
        names = self.inputs.policy.scheduler.profiles or configuration.scheduler_names
        return tuple(found for found in map(configuration.profile, names) if found is not None)

    def _scores_of(self, profile: Profile) -> NodeScores:
        """How a profile rates every node for a plain pod; computed once."""
        name = profile.scheduler_name
        if name not in self._node_scores:
            plain = self._plain_pod(profile)
            scheduler = self.by_name[name]
            self._node_scores[name] = NodeScores(
                scheduler.scores_everywhere(self.state, plain),
                profile.weights,
                scheduler.has_figures(self.state, plain),
            )
        return self._node_scores[name]

    def _plain_pod(self, profile: Profile) -> int:
        """A pod without constraints that requests the median of the profile's pods."""
        classes, pod_classes = self.state.classes, self.inputs.snapshot.pods.pod_class
        own = np.array([pod.scheduler_name == profile.scheduler_name for pod in classes], np.bool_)
        pod_classes = pod_classes[own[pod_classes]] if len(pod_classes) else pod_classes

        def median(resource: str) -> int:
            requested = np.array([item.incoming.get(resource, 0) for item in classes.requests], np.int64)
            return int(np.median(requested[pod_classes])) if len(pod_classes) else 0

        cpu, memory = median("cpu"), median("memory")
        resources = ResourceRequirements(requests={"cpu": f"{cpu}m", "memory": str(memory)})
        spec = PodSpec(scheduler_name=profile.scheduler_name, containers=[Container(resources=resources)])
        return classes.add(PodClass("", {}, NO_OWNER, spec, (), False))


def _seeing(
    configuration: SchedulerConfiguration,
    profile: Profile,
    ours: PluginInputs,
    others: Iterable[PluginInputs],
) -> tuple[Scheduler, ...]:
    """A profile's scheduler by each of the other inputs by which it sees nodes differently."""
    kept = [ours]
    for item in others:
        if all(sees_otherwise(configuration, profile, before, item) for before in kept):
            kept.append(item)
    return tuple(make_scheduler(configuration, profile, item) for item in kept[1:])


def sees_otherwise(
    configuration: SchedulerConfiguration, profile: Profile, inputs: PluginInputs, stale: PluginInputs
) -> bool:
    """Whether a profile's plugins see nodes differently by other inputs, as when their figures are older."""
    for plugin in profile.weights:
        address = getattr(profile.arguments.get(plugin), "watcher_address", None)
        ours, theirs = inputs.view.watchers.get(address or ""), stale.view.watchers.get(address or "")
        if address is None or ours is None or theirs is None:
            continue
        if ours.nodes != theirs.nodes:
            return True
        unseen = stale.recently_bound(theirs.window_end)
        description = configuration.plugins.get(plugin)
        counts_recent = description is not None and description.counts_recent_pods
        if counts_recent and unseen != inputs.recently_bound(ours.window_end):
            return True
    asked = [
        (it.address, it.query) for name in profile.weights for it in queries_of(configuration, profile, name)
    ]
    return any(inputs.view.queries.get(key) != stale.view.queries.get(key) for key in asked)


def neutral_everywhere(configuration: SchedulerConfiguration) -> tuple[str, ...]:
    """Plugins of any profile that are not modelled and so count as neutral."""
    names = {name for profile in configuration.profiles for name in neutral_plugins(configuration, profile)}
    return tuple(sorted(names | set(configuration.assumed_neutral)))
