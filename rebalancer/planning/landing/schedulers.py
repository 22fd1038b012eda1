"""One scheduler for each profile of the cluster's configuration, and why the model cannot place some pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import msgspec
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
from rebalancer.planning.inputs import PlanningInputs, SchedulerFacts
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
    snapshot = inputs.snapshot
    by_name: dict[str, _Predictability] = {}
    for scheduler in inputs.schedulers:
        of_all_profiles = _Predictability(scheduler, inputs)
        by_name.update(dict.fromkeys(scheduler.configuration.scheduler_names, of_all_profiles))
    of_strangers = _Predictability(inputs.schedulers[0], inputs)
    gangs = _gangs(snapshot.pods)
    reasons: dict[int, str] = {}
    for index, pod in enumerate(snapshot.pods.classes):
        predictability = by_name.get(pod.scheduler_name, of_strangers)
        if why := predictability.why_not(pod, gangs.get(index, "")):
            reasons[index] = why
    return reasons


class _Predictability:
    """Whether the model can place the pods of one scheduler."""

    def __init__(self, scheduler: SchedulerFacts, inputs: PlanningInputs) -> None:
        snapshot = inputs.snapshot
        self._configuration = scheduler.configuration
        self._release = scheduler.release
        self._by_profile = {
            profile.scheduler_name: _profile_reason(profile, scheduler, snapshot)
            or _start_reason(profile, scheduler, inputs.now)
            for profile in self._configuration.profiles
        }
        objects = ObjectsRead(snapshot, self._release)
        self._unread = {
            profile.scheduler_name: UnreadInputs(profile, objects) for profile in self._configuration.profiles
        }
        self._readers = BindingLabelReaders(snapshot, self._release)
        self._devices = _resources_of_device_classes(snapshot)
        self._settled = _SettledRules(objects, snapshot)

    def why_not(self, pod: PodClass, gang: str) -> str:
        """Why pods of a class cannot be placed; ``gang`` is why where they are placed with others."""
        why = (
            _class_reason(pod, self._release, self._devices, self._settled.of(pod))
            or gang
            or _extender_reason(pod, self._configuration)
            or self._by_profile.get(pod.scheduler_name, "")
        )
        if not why and pod.scheduler_name in self._unread:
            lacking = ", ".join(self._unread[pod.scheduler_name].of(pod))
            why = lacking and f"where it would land depends on what was not read: {lacking}"
        if not why and self._readers.concerns(pod):
            why = _BINDING_LABELS_ARE_READ
        return why


def _profile_reason(profile: Profile, scheduler: SchedulerFacts, snapshot: Snapshot) -> str:
    """Why no pod of a profile can be placed by the model."""
    configuration = scheduler.configuration
    view = scheduler.view
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


def _start_reason(profile: Profile, scheduler: SchedulerFacts, now: float) -> str:
    """Why no pod of a profile can be placed while its scheduler has only just started.

    It lists the running pods then, and plugins that add pods which the figures do not show yet take all of
    them to be such, until the window of the figures ends a minute later. The scheduler's own figures may be
    older than ours.
    """
    start = scheduler.start
    if start is None:
        return ""
    for name in sorted(profile.plugin_names):
        description = scheduler.configuration.plugins.get(name)
        if description is None or not description.counts_recent_pods or description.of_extender:
            continue
        counts = f"{name} counts every running pod as just bound"
        if start.at is None:
            return (
                f"{counts} for some time after its scheduler starts, and when that was is not known: "
                f"{start.because} (scheduler.lease of the policy can name its lease)"
            )
        watcher = scheduler.view.watchers.get(getattr(profile.argument(name), "watcher_address", ""))
        if watcher is None:
            continue
        left = start.at + RECENT_AFTER_START_SECONDS + scheduler.view.lag_seconds - watcher.window_end
        if left > 0:
            return f"{counts} until about {times.render(now + left)}: {start.because}"
    return ""


def _forgot_at(scheduler: SchedulerFacts, now: float) -> set[float]:
    """When the scheduler last forgot some of the pods that it took to be just bound, or soon will."""
    start = scheduler.start
    if start is None or start.at is None:
        return set()
    forgot_at = (last_forgot_at(start.at, at) for at in (now, now + _PLAN_SECONDS))
    return {at for at in forgot_at if at is not None}


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
        asked = drivers is None or any(driver.spec.prevent_pod_scheduling_if_missing for driver in drivers)
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
    reasons: dict[int, str] = {}
    for index, gangs in named.items():
        gang_name = f"gang {min(gangs)}"
        if len(gangs) > 1:
            gang_name += " or another"
        reasons[index] = placed_together(gang_name)
    return reasons


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
    by_resource: dict[str, str] = {}
    for device_class in listing.records:
        if isinstance(device_class, DeviceClass):
            name = device_class.metadata.name
            by_resource[f"{DEVICE_CLASS_PREFIX}{name}"] = name
            if device_class.spec.extended_resource_name:
                by_resource[device_class.spec.extended_resource_name] = name
    return by_resource


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
    """Places pods of any class by the profile that its schedulerName picks.

    A scheduler of another version, or which came to know the nodes in another order, sees a state of its own.
    """

    def __init__(self, inputs: PlanningInputs) -> None:
        self.inputs = inputs
        self.facts: Mapping[str, SchedulerFacts] = inputs.scheduler_of
        views = list(dict.fromkeys(map(_view_of, inputs.schedulers)))
        self.state, *others = (_state_of(inputs.snapshot, view) for view in views)
        if others:
            self.state.stand_beside(others)
        self.plugin_inputs: dict[str, PluginInputs] = {}  # by schedulerName
        self._making: dict[str, _Making] = {}
        self.by_name: dict[str, Scheduler] = {}
        self._stale: dict[str, tuple[Scheduler, ...]] = {}
        self.number_of: dict[str, int] = {}  # by schedulerName
        for number, scheduler in enumerate(inputs.schedulers):
            making = _Making(scheduler, number, views.index(_view_of(scheduler)))
            own = PluginInputs.of(inputs.snapshot, scheduler.view, scheduler.release)
            earlier = scheduler.stale_views or (scheduler.view,)
            stale = [older for view in earlier for older in replace(own, view=view).with_stale_windows]
            stale += [
                replace(older, forgot_at=at) for at in _forgot_at(scheduler, inputs.now) for older in stale
            ]
            for profile in scheduler.configuration.profiles:
                name = profile.scheduler_name
                self.by_name[name] = making.make(profile, own)
                self._stale[name] = making.seeing(profile, own, stale)
                self.number_of[name] = number
                self._making[name] = making
                self.plugin_inputs[name] = own
        self._owners = next(iter(self.plugin_inputs.values())).owners
        self.neutral = tuple(
            dict.fromkeys(
                name
                for scheduler in inputs.schedulers
                for name in neutral_everywhere(scheduler.configuration)
            )
        )
        self._node_scores: dict[str, NodeScores] = {}
        self._next_revisions: dict[int, PodClassIndex] = {}

    def seeing(self, scheduler_name: str, inputs: PluginInputs) -> Scheduler:
        """The scheduler of a profile, by what else it may see."""
        return self._making[scheduler_name].make(self.by_name[scheduler_name].profile, inputs)

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

    def number(self, pod_class: int) -> int:
        """Which of the schedulers places a class; they decide in an order that nobody knows."""
        return self.number_of.get(self.state.classes[pod_class].scheduler_name, -1)

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
        by_rule: dict[str, RuleScore] = {}
        for rule in self.inputs.policy.hot_nodes.every_rule:
            if not isinstance(rule, ScoreRule):
                continue
            for profile in self._acting():
                configuration = self.facts[profile.scheduler_name].configuration
                plugins = rule.score.plugins or configuration.load_plugins(profile)
                scores = self._scores_of(profile)
                enabled = tuple(name for name in plugins if name in scores.by_plugin)
                if not enabled:
                    continue
                described = configuration.plugins
                scored = frozenset[str]().union(*(described[name].scored_resources for name in enabled))
                score = RuleScore(enabled, scores.known_mean_of(enabled), scored)
                by_rule.setdefault(score_key(rule), score)
        return by_rule

    def node_scores(self) -> NodeScores | None:
        """All score plugins of the first profile that acts, for a plain pod; None where it has none."""
        profile = next(iter(self._acting()), None)
        scores = None if profile is None else self._scores_of(profile)
        return scores if scores is not None and scores.by_plugin else None

    def _acting(self) -> tuple[Profile, ...]:
        """The profiles the policy acts for, in its order; none where there is no node to score."""
        if not self.inputs.snapshot.nodes:
            return ()
        return tuple(self.by_name[name].profile for name in self.inputs.acts_on)

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
        classes = self.state.classes
        pod_classes = self.inputs.snapshot.pods.pod_class
        own = np.array([pod.scheduler_name == profile.scheduler_name for pod in classes], np.bool_)
        pod_classes = pod_classes[own[pod_classes]] if len(pod_classes) else pod_classes

        def median(resource: str) -> int:
            requested = np.array(
                [request.incoming.get(resource, 0) for request in classes.requests], np.int64
            )
            return int(np.median(requested[pod_classes])) if len(pod_classes) else 0

        cpu = median("cpu")
        memory = median("memory")
        resources = ResourceRequirements(requests={"cpu": f"{cpu}m", "memory": str(memory)})
        spec = PodSpec(scheduler_name=profile.scheduler_name, containers=[Container(resources=resources)])
        return classes.add(PodClass("", {}, NO_OWNER, spec, (), False))


class _View(msgspec.Struct, frozen=True):
    """By what two schedulers see the same pods on the same nodes differently."""

    release: Release
    listed_nodes_at: tuple[float, ...]
    shuffles: tuple[int, ...]


def _view_of(scheduler: SchedulerFacts) -> _View:
    return _View(scheduler.release, scheduler.listed_nodes_at, scheduler.shuffles)


def _state_of(snapshot: Snapshot, view: _View) -> ClusterState:
    listings = itertools.product(view.listed_nodes_at, view.shuffles)
    return ClusterState.of(
        snapshot,
        view.release,
        [listed_since(snapshot.nodes, *listing) for listing in listings],
    )


class _Making(msgspec.Struct, frozen=True):
    """Makes the profiles of one scheduler."""

    facts: SchedulerFacts
    number: int
    view: int

    def make(self, profile: Profile, inputs: PluginInputs) -> Scheduler:
        """The model of a profile that sees these inputs."""
        configuration = self.facts.configuration
        return make_scheduler(configuration, profile, inputs, number=self.number, view=self.view)

    def seeing(
        self, profile: Profile, ours: PluginInputs, others: Iterable[PluginInputs]
    ) -> tuple[Scheduler, ...]:
        """A profile's scheduler by each of the other inputs by which it sees nodes differently."""
        different = [ours]
        for other in others:
            if all(sees_otherwise(self.facts.configuration, profile, before, other) for before in different):
                different.append(other)
        return tuple(self.make(profile, other) for other in different[1:])


def sees_otherwise(
    configuration: SchedulerConfiguration, profile: Profile, inputs: PluginInputs, stale: PluginInputs
) -> bool:
    """Whether a profile's plugins see nodes differently by other inputs, as when their figures are older."""
    for plugin in profile.weights:
        address = getattr(profile.arguments.get(plugin), "watcher_address", None)
        ours = inputs.view.watchers.get(address or "")
        theirs = stale.view.watchers.get(address or "")
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
