"""What a scheduler configuration comes to: profiles with plugins in final order, weights and arguments.

The arguments of each plugin are declared beside the plugin, in ``rebalancer.scheduling.plugins``; their base
is here.

Each version of the configuration API enables plugins by default, in order and with weights. Versions with
MultiPoint list all there; older ones point by point.
Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/default_plugins.go:30.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import msgspec
from pydantic import Field, model_validator

from rebalancer.cluster.kinds import Kind
from rebalancer.documents.models import WrittenModel

if TYPE_CHECKING:
    from rebalancer.cluster.pod_classes import PodClass  # imports numpy


DEFAULT_SCHEDULER_NAME = "default-scheduler"
MAX_INT32 = 2**31 - 1


class Arguments(WrittenModel):
    """Arguments of a plugin."""


class RawArguments(Arguments):
    """Arguments of a plugin we do not know, kept as they are."""

    values: Mapping[str, Any] = Field(default={})


class MetricProvider(Arguments):
    """Where the load-watcher that is built into the plugin reads, when ``watcherAddress`` is absent."""

    type: Literal["", "KubernetesMetricsServer", "Prometheus", "SignalFx", "Datadog"] = (
        "KubernetesMetricsServer"
    )
    address: str = ""
    token: str = Field(default="", repr=False)
    insecure_skip_verify: bool | None = None


class ExtensionPoint(StrEnum):
    """A place in the scheduling cycle where plugins are called; the value is its key in the configuration."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"


class Input(StrEnum):
    """Something a plugin reads: a kind of object, or a measurement."""

    NODES = "nodes"
    PODS = "pods"
    NAMESPACES = "namespaces"
    SERVICES = "services"
    REPLICA_SETS = "replicasets"
    STATEFUL_SETS = "statefulsets"
    REPLICATION_CONTROLLERS = "replicationcontrollers"
    PERSISTENT_VOLUMES = "persistentvolumes"
    PERSISTENT_VOLUME_CLAIMS = "persistentvolumeclaims"
    STORAGE_CLASSES = "storageclasses"
    CSI_NODES = "csinodes"
    CSI_DRIVERS = "csidrivers"
    CSI_STORAGE_CAPACITIES = "csistoragecapacities"
    VOLUME_ATTACHMENTS = "volumeattachments"
    RESOURCE_CLAIMS = "resourceclaims"
    WATCHER = "watcher"
    PROMETHEUS = "prometheus"

    @property
    def is_load(self) -> bool:
        """Whether this is a measurement rather than a kind of object."""
        return self in (Input.WATCHER, Input.PROMETHEUS)


def extension_points(keys: str) -> frozenset[ExtensionPoint]:
    """The points with these keys of the configuration, such as ``preFilter filter``."""
    return frozenset(map(ExtensionPoint, keys.split()))


def inputs_of(*kinds: Kind) -> frozenset[Input]:
    """What a plugin reads that looks at objects of these kinds."""
    return frozenset(Input(kind.plural) for kind in kinds)


class PluginQuery(msgspec.Struct, frozen=True):
    """A PromQL expression that a plugin reads: one value a node, named by a label of its series."""

    address: str  # of the Prometheus
    query: str
    node_label: str = "nodename"


class PluginDescription(msgspec.Struct, frozen=True):
    """What is known of a plugin: where it may be enabled, its arguments, what it reads.

    ``versions`` are the configuration API versions that know the plugin; empty means all of them. ``make``
    makes the model of the plugin from its arguments and a ``PluginInputs``; None for a plugin that is known
    but not modelled. ``every_node`` says that its ``queries`` must have a value for every Ready node to be
    predictable. ``scored_resources`` are the resources whose use its score follows. ``counts_recent_pods``:
    it adds pods that were bound too recently for the measured load to show. ``process_wide_arguments`` are
    the fields that the Go plugin keeps once per process, so that the last profile sets them for all.
    ``of_extender``: it is a score of an extender, which does not start with the scheduler.
    """

    name: str
    points: frozenset[ExtensionPoint]
    arguments: type[Arguments] | None = None
    inputs: frozenset[Input] = frozenset((Input.NODES, Input.PODS))
    versions: frozenset[str] = frozenset()
    make: Callable[[Arguments | None, Any], Any] | None = None
    queries: tuple[PluginQuery, ...] = ()
    every_node: bool = True
    scored_resources: frozenset[str] = frozenset()
    counts_recent_pods: bool = False
    process_wide_arguments: tuple[str, ...] = ()
    of_extender: bool = False

    @property
    def follows_load(self) -> bool:
        """Whether its score follows measured load or the number of pods, rather than requests or labels."""
        return any(plugin_input.is_load for plugin_input in self.inputs) or "pods" in self.scored_resources


class Profile(msgspec.Struct, frozen=True):
    """One schedulerName: its plugins at each extension point in final order, their weights and arguments."""

    scheduler_name: str
    plugins: Mapping[ExtensionPoint, tuple[str, ...]]
    weights: Mapping[str, int]
    arguments: Mapping[str, Arguments]
    percentage_of_nodes_to_score: int | None = None

    def enabled(self, point: ExtensionPoint) -> tuple[str, ...]:
        """The plugins called at an extension point, in order."""
        return self.plugins.get(point, ())

    @property
    def plugin_names(self) -> frozenset[str]:
        """Every plugin enabled anywhere."""
        return frozenset(name for names in self.plugins.values() for name in names)

    def argument(self, plugin: str) -> Arguments | None:
        """The arguments of a plugin; None when it takes none."""
        return self.arguments.get(plugin)


class ManagedResource(Arguments):
    """A resource an extender looks after."""

    name: str = Field(min_length=1)
    ignored_by_scheduler: bool = False


class Extender(Arguments):
    """A process that filters or scores over HTTP."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = Field(default=0, ge=0, le=MAX_INT32)
    enable_https: bool = Field(default=False, validation_alias="enableHTTPS")
    tls_config: Any = None
    http_timeout: Any = Field(default=None, validation_alias="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    @model_validator(mode="after")
    def _weighs_what_it_scores(self) -> Self:
        if self.prioritize_verb and not self.weight:
            raise ValueError("weight must be positive where there is a prioritizeVerb")
        return self

    @property
    def url(self) -> str:
        """Its address, by which a policy names it."""
        return self.url_prefix.rstrip("/")

    @property
    def name(self) -> str:
        """Its address as messages say it; kube-scheduler starts with one that has none, and cannot ask it."""
        return self.url_prefix or "without a urlPrefix"

    def is_interested(self, pod: PodClass) -> bool:
        """Whether it is asked about pods of a class: all of them, or those that ask for what it manages.

        Source: kubernetes v1.36.3 pkg/scheduler/extender.go, IsInterested.
        """
        managed = {resource.name for resource in self.managed_resources}
        return not managed or any(
            not managed.isdisjoint(names or ())
            for container in pod.spec.every_container
            if container.resources
            for names in (container.resources.requests, container.resources.limits)
        )


class LeaderElection(msgspec.Struct, frozen=True):
    """The Lease by which the replicas of a scheduler choose their leader.

    Defaults: Kubernetes v1.35 pkg/scheduler/apis/config/v1/defaults.go. ``named`` says that the configuration
    itself names the Lease, or a flag.
    """

    enabled: bool = True
    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    named: bool = False


class ConfigurationText(msgspec.Struct, frozen=True):
    """A KubeSchedulerConfiguration as written, and where; empty where none is named: the defaults."""

    text: str
    source: str
    scores: Mapping[str, str] = {}  # by an extender's address: the text of its scores
    decides_nothing: ClassVar[Mapping[str, str]] = {
        "source": "it names a file or an object in messages",
    }


DEFAULTS_SOURCE = "defaults"
"""The source of what a scheduler runs without a configuration."""


class SchedulerConfiguration(msgspec.Struct, frozen=True):
    """A whole KubeSchedulerConfiguration, merged with the defaults of its version.

    ``text`` is what it was loaded from, to be recorded with a snapshot. ``plugins`` describes the enabled
    plugins by name, except those assumed neutral; ``extra_plugins`` are those of them that come from outside
    this package. What extenders at the addresses ``computed`` answer is among the plugins.
    """

    api_version: str
    profiles: tuple[Profile, ...]
    percentage_of_nodes_to_score: int = 0
    parallelism: int = 16
    extenders: tuple[Extender, ...] = ()
    computed: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    assumed_neutral: tuple[str, ...] = ()
    source: str = DEFAULTS_SOURCE
    text: str = ""
    plugins: Mapping[str, PluginDescription] = {}
    extra_plugins: Mapping[str, PluginDescription] = {}
    leader_election: LeaderElection = LeaderElection()

    def __repr__(self) -> str:
        return f"SchedulerConfiguration({self.source!r})"  # its text may hold a token

    def profile(self, scheduler_name: str) -> Profile | None:
        """The profile of a schedulerName; None when this configuration has none."""
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)

    def load_plugins(self, profile: Profile) -> tuple[str, ...]:
        """The score plugins of a profile that follow load or the number of pods."""
        enabled = profile.enabled(ExtensionPoint.SCORE)
        return tuple(name for name in enabled if name in self.plugins and self.plugins[name].follows_load)

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """The schedulerNames of all profiles."""
        return tuple(profile.scheduler_name for profile in self.profiles)


GROUP = "kubescheduler.config.k8s.io"

Enabled = tuple[tuple[str, int], ...]


class VersionDefaults(msgspec.Struct, frozen=True):
    """What a version of the API enables by itself, and how it merges what is configured.

    ``points`` maps ``multiPoint`` or an extension point to names and weights (0: none given). With
    ``replaces_in_place`` a configured plugin takes the place of its default; otherwise it is appended.
    Fields: kubernetes v1.26.15 staging/src/k8s.io/kube-scheduler/config and v1.22.17. v1beta2 has
    ``multiPoint`` from 1.23 on, which is not read.
    """

    points: Mapping[str, Enabled]
    has_multi_point: bool = True
    has_addresses: bool = False  # healthzBindAddress and metricsBindAddress
    has_percentage_of_profiles: bool = False
    replaces_in_place: bool = True


def _listed(names: str) -> Enabled:
    """Names in order, each with its weight where it has one: ``NodeName TaintToleration=3``."""
    parts = (name_and_weight.partition("=") for name_and_weight in names.split())
    return tuple((name, int(weight or 0)) for name, _, weight in parts)


_V1 = _listed(
    "SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration=3 NodeAffinity=2 NodePorts "
    "NodeResourcesFit=1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread=2 "
    "InterPodAffinity=2 DynamicResources=2 DefaultPreemption NodeResourcesBalancedAllocation=1 "
    "ImageLocality=1 DefaultBinder"
)
_V1BETA3 = _listed(
    "PrioritySort NodeUnschedulable NodeName TaintToleration=3 NodeAffinity=2 NodePorts "
    "NodeResourcesFit=1 VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits "
    "VolumeBinding VolumeZone PodTopologySpread=2 InterPodAffinity=2 DefaultPreemption "
    "NodeResourcesBalancedAllocation=1 ImageLocality=1 DefaultBinder"
)
_POINT_BY_POINT: Mapping[str, Enabled] = {
    "queueSort": _listed("PrioritySort"),
    "preFilter": _listed(
        "NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity VolumeBinding "
        "NodeAffinity"
    ),
    "filter": _listed(
        "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
        "VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding "
        "VolumeZone PodTopologySpread InterPodAffinity"
    ),
    "postFilter": _listed("DefaultPreemption"),
    "preScore": _listed("InterPodAffinity PodTopologySpread TaintToleration NodeAffinity"),
    "reserve": _listed("VolumeBinding"),
    "preBind": _listed("VolumeBinding"),
    "bind": _listed("DefaultBinder"),
}
_V1BETA2: Mapping[str, Enabled] = {
    **_POINT_BY_POINT,
    "score": _listed(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 "
        "NodeAffinity=1 PodTopologySpread=2 TaintToleration=1"
    ),
}
_V1BETA1: Mapping[str, Enabled] = {
    **_POINT_BY_POINT,
    # SelectorSpread scores up to 1.19, whose defaults it is among.
    "preScore": (*_POINT_BY_POINT["preScore"], *_listed("SelectorSpread")),
    "score": _listed(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 "
        "NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 "
        "TaintToleration=1 SelectorSpread=1"
    ),
}

OF_KUBERNETES = frozenset(name for name, _ in _V1)
"""The plugins that are part of Kubernetes."""

DEFAULTS: Mapping[str, VersionDefaults] = {
    "v1": VersionDefaults({"multiPoint": _V1}, has_percentage_of_profiles=True),
    "v1beta3": VersionDefaults({"multiPoint": _V1BETA3}),
    "v1beta2": VersionDefaults(_V1BETA2, has_multi_point=False, has_addresses=True),
    "v1beta1": VersionDefaults(_V1BETA1, has_multi_point=False, has_addresses=True, replaces_in_place=False),
}
"""The defaults of every version of the API that we read."""
