"""Which plugins are modelled, and how each is made from its arguments and inputs."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.load.view import NOTHING_SEEN, SchedulerView
from rebalancer.profiles.arguments import (
    Arguments,
    InterPodAffinityArguments,
    NodeAffinityArguments,
    NodeResourcesBalancedAllocationArguments,
    NodeResourcesFitArguments,
    NodeResourcesLeastAllocatedArguments,
    NodeResourcesMostAllocatedArguments,
    PodTopologySpreadArguments,
    RequestedToCapacityRatioArguments,
)
from rebalancer.profiles.load_arguments import (
    LoadVariationRiskBalancingArguments,
    LowRiskOverCommitmentArguments,
    NetworkTrafficArguments,
    PeaksArguments,
    TargetLoadPackingArguments,
)
from rebalancer.profiles.types import ExtensionPoint, Profile, SchedulerConfiguration
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.matching.affinity_terms import NamespaceLabels
from rebalancer.scheduling.matching.owners import Owners
from rebalancer.scheduling.plugins.articles.network_traffic import NetworkTraffic, published_query, rate_query
from rebalancer.scheduling.plugins.articles.pod_capacity_of_node import PodCapacityOfNode
from rebalancer.scheduling.plugins.dynamic_resources import DynamicResources
from rebalancer.scheduling.plugins.image_locality import ImageLocality
from rebalancer.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.plugins.node_affinity import NodeAffinity
from rebalancer.scheduling.plugins.node_name import NodeName
from rebalancer.scheduling.plugins.node_ports import NodePorts
from rebalancer.scheduling.plugins.node_prefer_avoid_pods import NodePreferAvoidPods
from rebalancer.scheduling.plugins.node_resources.allocated import (
    NodeResourcesLeastAllocated,
    NodeResourcesMostAllocated,
    RequestedToCapacityRatioScore,
)
from rebalancer.scheduling.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from rebalancer.scheduling.plugins.node_resources.fit import NodeResourcesFit
from rebalancer.scheduling.plugins.node_unschedulable import NodeUnschedulable
from rebalancer.scheduling.plugins.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.plugins.taint_toleration import TaintToleration
from rebalancer.scheduling.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from rebalancer.scheduling.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from rebalancer.scheduling.plugins.trimaran.peaks import Peaks
from rebalancer.scheduling.plugins.trimaran.target_load_packing import TargetLoadPacking
from rebalancer.scheduling.plugins.volumes.binding import VolumeBinding
from rebalancer.scheduling.plugins.volumes.csi_limits import NodeVolumeLimits
from rebalancer.scheduling.plugins.volumes.in_tree_limits import AzureDiskLimits, EbsLimits, GcePdLimits
from rebalancer.scheduling.plugins.volumes.restrictions import VolumeRestrictions
from rebalancer.scheduling.plugins.volumes.zone import VolumeZone

# A pod bound less than this before the window's end is not in the window's figures yet
# (scheduler-plugins v0.34.7 pkg/trimaran/targetloadpacking/targetloadpacking.go:157).
_UNSEEN_SECONDS = 60.0
# How much older than ours the window that the scheduler knows may be: it asks this often.
SCHEDULER_LAG_SECONDS = 30.0
# At the points that decide where a pod lands.
_DECIDING = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.SCORE)


@dataclass(frozen=True, slots=True, eq=False)
class PluginInputs:
    """What plugins are made from besides their arguments."""

    view: SchedulerView = NOTHING_SEEN
    bound_at: FloatArray | None = None  # (pods,) Unix seconds, NaN when unknown
    node: Sequence[int] = ()  # by pod: its node's row
    pod_class: Sequence[int] = ()  # by pod
    owners: Owners = field(default_factory=Owners)
    namespaces: NamespaceLabels = field(default_factory=dict)  # labels by name
    unseen_seconds: float = _UNSEEN_SECONDS

    @property
    def lagging(self) -> PluginInputs:
        """The same as of the oldest window that the scheduler may still know."""
        return replace(self, unseen_seconds=_UNSEEN_SECONDS + SCHEDULER_LAG_SECONDS)

    def recently_bound(self, window_end: float) -> tuple[tuple[int, int], ...]:
        """(class, node) of the pods bound too late for a window's figures to show them."""
        if self.bound_at is None:
            return ()
        rows = np.flatnonzero(self.bound_at > window_end - self.unseen_seconds)
        return tuple((self.pod_class[row], self.node[row]) for row in rows.tolist() if self.node[row] >= 0)

    @classmethod
    def of(cls, snapshot: Snapshot, view: SchedulerView) -> PluginInputs:
        """The inputs a snapshot and the scheduler's view of the load give."""
        pods = snapshot.pods
        return cls(
            view,
            pods.started,
            pods.node.tolist(),
            pods.pod_class.tolist(),
            Owners.of(snapshot),
            snapshot.namespaces or {},
        )


Factory = Callable[[Arguments | None, PluginInputs], Plugin]


def _target_load_packing(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
    given = arguments if isinstance(arguments, TargetLoadPackingArguments) else TargetLoadPackingArguments()
    watcher = inputs.view.watchers.get(given.watcher_address)
    recent = inputs.recently_bound(watcher.window_end) if watcher else ()
    return TargetLoadPacking(given, watcher, recent)


def _load_variation(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
    given = (
        arguments
        if isinstance(arguments, LoadVariationRiskBalancingArguments)
        else LoadVariationRiskBalancingArguments()
    )
    return LoadVariationRiskBalancing(given, inputs.view.watchers.get(given.watcher_address))


def _low_risk(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
    given = (
        arguments
        if isinstance(arguments, LowRiskOverCommitmentArguments)
        else LowRiskOverCommitmentArguments()
    )
    return LowRiskOverCommitment(given, inputs.view.watchers.get(given.watcher_address))


def _peaks(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
    given = arguments if isinstance(arguments, PeaksArguments) else PeaksArguments()
    return Peaks(given, inputs.view.watchers.get(given.watcher_address))


def _network_traffic(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
    """The article's query if that was asked, else the rate."""
    if not isinstance(arguments, NetworkTrafficArguments):
        return NetworkTraffic({})
    for query in (published_query(arguments), rate_query(arguments)):
        if (arguments.ip, query) in inputs.view.queries:
            return NetworkTraffic(inputs.view.queries[arguments.ip, query])
    return NetworkTraffic({})


def _least_allocated(arguments: Arguments | None, _: PluginInputs) -> Plugin:
    if isinstance(arguments, NodeResourcesLeastAllocatedArguments):
        return NodeResourcesLeastAllocated(arguments)
    return NodeResourcesLeastAllocated(NodeResourcesLeastAllocatedArguments())


def _most_allocated(arguments: Arguments | None, _: PluginInputs) -> Plugin:
    if isinstance(arguments, NodeResourcesMostAllocatedArguments):
        return NodeResourcesMostAllocated(arguments)
    return NodeResourcesMostAllocated(NodeResourcesMostAllocatedArguments())


def _capacity_ratio(arguments: Arguments | None, _: PluginInputs) -> Plugin:
    if isinstance(arguments, RequestedToCapacityRatioArguments):
        return RequestedToCapacityRatioScore(arguments)
    raise InputError("RequestedToCapacityRatio needs a shape", hint="give it in pluginConfig")


def _node_affinity(arguments: Arguments | None, _: PluginInputs) -> Plugin:
    return NodeAffinity(
        arguments if isinstance(arguments, NodeAffinityArguments) else NodeAffinityArguments()
    )


def _fit(arguments: Arguments | None, _: PluginInputs) -> Plugin:
    if isinstance(arguments, NodeResourcesFitArguments):
        return NodeResourcesFit(arguments)
    return NodeResourcesFit(NodeResourcesFitArguments())


def _balanced(arguments: Arguments | None, _: PluginInputs) -> Plugin:
    if isinstance(arguments, NodeResourcesBalancedAllocationArguments):
        return NodeResourcesBalancedAllocation(arguments)
    return NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArguments())


def _spread(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
    given = arguments if isinstance(arguments, PodTopologySpreadArguments) else PodTopologySpreadArguments()
    return PodTopologySpread(given, inputs.owners)


def _inter_pod(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
    given = arguments if isinstance(arguments, InterPodAffinityArguments) else InterPodAffinityArguments()
    return InterPodAffinity(given, inputs.namespaces)


MODELLED: dict[str, Factory] = {
    NodeUnschedulable.name: lambda _arguments, _inputs: NodeUnschedulable(),
    NodeName.name: lambda _arguments, _inputs: NodeName(),
    TaintToleration.name: lambda _arguments, _inputs: TaintToleration(),
    NodeAffinity.name: _node_affinity,
    NodePorts.name: lambda _arguments, _inputs: NodePorts(),
    NodeResourcesFit.name: _fit,
    NodeResourcesBalancedAllocation.name: _balanced,
    PodTopologySpread.name: _spread,
    InterPodAffinity.name: _inter_pod,
    VolumeRestrictions.name: lambda _arguments, _inputs: VolumeRestrictions(),
    NodeVolumeLimits.name: lambda _arguments, _inputs: NodeVolumeLimits(),
    VolumeBinding.name: lambda _arguments, _inputs: VolumeBinding(),
    VolumeZone.name: lambda _arguments, _inputs: VolumeZone(),
    ImageLocality.name: lambda _arguments, _inputs: ImageLocality(),
    DynamicResources.name: lambda _arguments, _inputs: DynamicResources(),
    LoadVariationRiskBalancing.name: _load_variation,
    LowRiskOverCommitment.name: _low_risk,
    Peaks.name: _peaks,
    TargetLoadPacking.name: _target_load_packing,
    NetworkTraffic.name: _network_traffic,
    NodePreferAvoidPods.name: lambda _arguments, _inputs: NodePreferAvoidPods(),
    EbsLimits.name: lambda _arguments, _inputs: EbsLimits(),
    GcePdLimits.name: lambda _arguments, _inputs: GcePdLimits(),
    AzureDiskLimits.name: lambda _arguments, _inputs: AzureDiskLimits(),
    NodeResourcesLeastAllocated.name: _least_allocated,
    NodeResourcesMostAllocated.name: _most_allocated,
    RequestedToCapacityRatioScore.name: _capacity_ratio,
    PodCapacityOfNode.name: lambda _arguments, _inputs: PodCapacityOfNode(),
}


def neutral_plugins(profile: Profile, extra: Container[str] = ()) -> tuple[str, ...]:
    """Plugins enabled where landings are decided, and not modelled: they pass and score all nodes alike.

    ``extra`` names those from outside this package, which are modelled by whoever brought them.
    """
    deciding = dict.fromkeys(name for point in _DECIDING for name in profile.enabled(point))
    return tuple(sorted(name for name in deciding if name not in MODELLED and name not in extra))


def make_scheduler(
    configuration: SchedulerConfiguration, profile: Profile, inputs: PluginInputs
) -> Scheduler:
    """The model of one profile; plugins from outside this package are made as they say."""
    factories = MODELLED | {
        name: plugin.make for name, plugin in configuration.extra_plugins.items() if plugin.make
    }
    plugins = {
        name: factories[name](profile.argument(name), inputs)
        for name in sorted(profile.plugin_names & factories.keys())
    }
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = configuration.percentage_of_nodes_to_score
    return Scheduler(profile, plugins, percentage)
