"""Every plugin we know by name: where it may be enabled, its arguments, and what it reads.

In-tree plugins are those of kube-scheduler v1.35 and, by version, those it dropped; the others are Trimaran's
and the article plugins. Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/default_plugins.go:30,
scheduler-plugins v0.34.7 cmd/scheduler/main.go:44.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalancer.profiles import arguments as args
from rebalancer.profiles import load_arguments as load_args
from rebalancer.profiles.arguments import Arguments
from rebalancer.profiles.types import ExtensionPoint, Input, PluginDescription

P = ExtensionPoint
I = Input  # noqa: E741

_OWNERS = (I.SERVICES, I.REPLICA_SETS, I.STATEFUL_SETS, I.REPLICATION_CONTROLLERS)
_CLAIMS = (I.PERSISTENT_VOLUME_CLAIMS, I.PERSISTENT_VOLUMES, I.STORAGE_CLASSES)
_FILTER = (P.PRE_FILTER, P.FILTER)
_SCORE = (P.PRE_SCORE, P.SCORE)
_BEFORE_V1 = frozenset(("v1beta1", "v1beta2", "v1beta3"))
_BEFORE_V1BETA3 = frozenset(("v1beta1", "v1beta2"))
_V1BETA1 = frozenset(("v1beta1",))


def _plugin(
    name: str,
    points: tuple[ExtensionPoint, ...],
    arguments: type[Arguments] | None = None,
    reads: tuple[Input, ...] = (),
    versions: frozenset[str] = frozenset(),
) -> PluginDescription:
    """A row of the table; nodes and pods are always read."""
    inputs = frozenset((I.NODES, I.PODS, *reads))
    return PluginDescription(name, frozenset(points), arguments, inputs, versions)


_IN_TREE = (
    _plugin("SchedulingGates", (P.PRE_ENQUEUE,)),
    _plugin("PrioritySort", (P.QUEUE_SORT,)),
    _plugin("NodeUnschedulable", (P.FILTER,)),
    _plugin("NodeName", (P.FILTER,)),
    _plugin("TaintToleration", (P.FILTER, *_SCORE)),
    _plugin("NodeAffinity", (*_FILTER, *_SCORE), args.NodeAffinityArguments),
    _plugin("NodePorts", _FILTER),
    _plugin("NodeResourcesFit", (*_FILTER, *_SCORE), args.NodeResourcesFitArguments),
    _plugin("VolumeRestrictions", _FILTER, reads=(I.PERSISTENT_VOLUME_CLAIMS,)),
    _plugin("NodeVolumeLimits", _FILTER, reads=(*_CLAIMS, I.CSI_NODES, I.VOLUME_ATTACHMENTS, I.CSI_DRIVERS)),
    _plugin(
        "VolumeBinding",
        (*_FILTER, P.RESERVE, P.PRE_BIND, *_SCORE),
        args.VolumeBindingArguments,
        (*_CLAIMS, I.CSI_NODES, I.CSI_DRIVERS, I.CSI_STORAGE_CAPACITIES),
    ),
    _plugin("VolumeZone", _FILTER, reads=_CLAIMS),
    _plugin(
        "PodTopologySpread",
        (*_FILTER, *_SCORE),
        args.PodTopologySpreadArguments,
        _OWNERS,
    ),
    _plugin("InterPodAffinity", (*_FILTER, *_SCORE), args.InterPodAffinityArguments, (I.NAMESPACES,)),
    _plugin(
        "DynamicResources",
        (P.PRE_ENQUEUE, *_FILTER, P.POST_FILTER, P.SCORE, P.RESERVE, P.PRE_BIND),
        args.DynamicResourcesArguments,
        (I.RESOURCE_CLAIMS,),
    ),
    _plugin("DefaultPreemption", (P.PRE_ENQUEUE, P.POST_FILTER), args.DefaultPreemptionArguments),
    _plugin(
        "NodeResourcesBalancedAllocation",
        _SCORE,
        args.NodeResourcesBalancedAllocationArguments,
    ),
    _plugin("ImageLocality", (P.SCORE,)),
    _plugin("DefaultBinder", (P.BIND,)),
    _plugin("NodeDeclaredFeatures", _FILTER),
    _plugin("GangScheduling", (P.PRE_ENQUEUE, P.RESERVE, P.PERMIT)),
)

_DROPPED = (
    _plugin("EBSLimits", (P.FILTER,), reads=_CLAIMS, versions=_BEFORE_V1),
    _plugin("GCEPDLimits", (P.FILTER,), reads=_CLAIMS, versions=_BEFORE_V1),
    _plugin("AzureDiskLimits", (P.FILTER,), reads=_CLAIMS, versions=_BEFORE_V1),
    _plugin("CinderLimits", (P.FILTER,), reads=_CLAIMS, versions=_BEFORE_V1),
    _plugin("SelectorSpread", _SCORE, reads=_OWNERS, versions=_BEFORE_V1BETA3),
    _plugin("NodePreferAvoidPods", (P.SCORE,), versions=_BEFORE_V1BETA3),
    _plugin(
        "NodeResourcesLeastAllocated",
        (P.SCORE,),
        args.NodeResourcesLeastAllocatedArguments,
        versions=_V1BETA1,
    ),
    _plugin(
        "NodeResourcesMostAllocated", (P.SCORE,), args.NodeResourcesMostAllocatedArguments, versions=_V1BETA1
    ),
    _plugin(
        "RequestedToCapacityRatio", (P.SCORE,), args.RequestedToCapacityRatioArguments, versions=_V1BETA1
    ),
)

_OUT_OF_TREE = (
    _plugin("TargetLoadPacking", (P.SCORE,), load_args.TargetLoadPackingArguments, (I.WATCHER,)),
    _plugin(
        "LoadVariationRiskBalancing",
        (P.SCORE,),
        load_args.LoadVariationRiskBalancingArguments,
        (I.WATCHER,),
    ),
    _plugin("LowRiskOverCommitment", _SCORE, load_args.LowRiskOverCommitmentArguments, (I.WATCHER,)),
    _plugin("Peaks", (P.SCORE,), load_args.PeaksArguments, (I.WATCHER,)),
    _plugin("PodCapacityOfNode", (P.SCORE,)),
    _plugin("NetworkTraffic", (P.SCORE,), load_args.NetworkTrafficArguments, (I.PROMETHEUS,)),
)

CATALOGUE: Mapping[str, PluginDescription] = {
    description.name: description for description in (*_IN_TREE, *_DROPPED, *_OUT_OF_TREE)
}
"""Every known plugin by name."""

TRIMARAN = frozenset(("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks"))
"""The plugins that run load-watcher inside the scheduler when they have no ``watcherAddress``."""


def known_to(version: str) -> dict[str, PluginDescription]:
    """The plugins that configurations of an API version (``v1``) may enable."""
    return {
        name: description
        for name, description in CATALOGUE.items()
        if not description.versions or version in description.versions
    }
