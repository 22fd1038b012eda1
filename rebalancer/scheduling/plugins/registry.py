"""The modelled plugins, the catalogue made from their classes, and schedulers made from profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from rebalancer.errors import InputError
from rebalancer.profiles.arguments import Arguments
from rebalancer.profiles.types import (
    ExtensionPoint,
    Input,
    PluginDescription,
    Profile,
    SchedulerConfiguration,
)
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.inputs import PluginInputs
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.framework.sampling import Workers
from rebalancer.scheduling.plugins.articles.network_traffic import NetworkTraffic
from rebalancer.scheduling.plugins.articles.pod_capacity_of_node import PodCapacityOfNode
from rebalancer.scheduling.plugins.dynamic_resources import DynamicResources
from rebalancer.scheduling.plugins.node_properties.image_locality import ImageLocality
from rebalancer.scheduling.plugins.node_properties.node_affinity import NodeAffinity
from rebalancer.scheduling.plugins.node_properties.node_name import NodeName
from rebalancer.scheduling.plugins.node_properties.node_ports import NodePorts
from rebalancer.scheduling.plugins.node_properties.node_prefer_avoid_pods import NodePreferAvoidPods
from rebalancer.scheduling.plugins.node_properties.node_unschedulable import NodeUnschedulable
from rebalancer.scheduling.plugins.node_properties.taint_toleration import TaintToleration
from rebalancer.scheduling.plugins.node_resources.allocated import (
    NodeResourcesLeastAllocated,
    NodeResourcesMostAllocated,
    RequestedToCapacityRatioScore,
)
from rebalancer.scheduling.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from rebalancer.scheduling.plugins.node_resources.fit import NodeResourcesFit
from rebalancer.scheduling.plugins.not_modelled import NOT_MODELLED
from rebalancer.scheduling.plugins.topology.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.plugins.topology.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from rebalancer.scheduling.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from rebalancer.scheduling.plugins.trimaran.peaks import Peaks
from rebalancer.scheduling.plugins.trimaran.target_load_packing import TargetLoadPacking
from rebalancer.scheduling.plugins.volumes.binding import VolumeBinding
from rebalancer.scheduling.plugins.volumes.csi_limits import NodeVolumeLimits
from rebalancer.scheduling.plugins.volumes.in_tree_limits import AzureDiskLimits, EbsLimits, GcePdLimits
from rebalancer.scheduling.plugins.volumes.restrictions import VolumeRestrictions
from rebalancer.scheduling.plugins.volumes.zone import VolumeZone

_PLUGINS: tuple[type[Plugin], ...] = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    EbsLimits,
    GcePdLimits,
    AzureDiskLimits,
    NodePreferAvoidPods,
    NodeResourcesLeastAllocated,
    NodeResourcesMostAllocated,
    RequestedToCapacityRatioScore,
    TargetLoadPacking,
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    Peaks,
    PodCapacityOfNode,
    NetworkTraffic,
)
# The extension points that decide where a pod lands.
_DECIDING = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.SCORE)


def describe(plugin: type[Plugin]) -> PluginDescription:
    """The description of a plugin, from what its class declares."""
    return PluginDescription(
        name=plugin.name,
        points=plugin.points,
        arguments=plugin.Arguments,
        inputs=frozenset({Input.NODES, Input.PODS}) | plugin.inputs,
        versions=plugin.versions,
        make=_maker(plugin),
        scored_resources=plugin.scored_resources,
        counts_recent_pods=plugin.counts_recent_pods,
        process_wide_arguments=plugin.process_wide_arguments,
    )


def _maker(plugin: type[Plugin]) -> Callable[[Arguments | None, Any], Plugin]:
    """Makes the plugin; with default arguments if it was assumed neutral and has none of its type."""

    def make(arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
        kind = plugin.Arguments
        if kind is None or isinstance(arguments, kind):
            return plugin.make(arguments, inputs)
        try:
            return plugin.make(kind(), inputs)
        except ValidationError as error:
            raise InputError(f"{plugin.name} needs arguments", hint="give them in pluginConfig") from error

    return make


MODELLED: Mapping[str, type[Plugin]] = {plugin.name: plugin for plugin in _PLUGINS}
"""The modelled plugins by name."""

CATALOGUE: Mapping[str, PluginDescription] = {
    description.name: description for description in (*map(describe, _PLUGINS), *NOT_MODELLED)
}
"""Every known plugin by name: kube-scheduler's, those it has dropped, Trimaran's and the articles'."""


def neutral_plugins(configuration: SchedulerConfiguration, profile: Profile) -> tuple[str, ...]:
    """Plugins that take part in deciding landings without a model: they pass and score all nodes alike."""
    deciding = dict.fromkeys(name for point in _DECIDING for name in profile.enabled(point))
    return tuple(sorted(name for name in deciding if _make_of(configuration, name) is None))


def make_scheduler(
    configuration: SchedulerConfiguration, profile: Profile, inputs: PluginInputs
) -> Scheduler:
    """The model of one profile with its modelled plugins."""
    plugins = {}
    for name in sorted(profile.plugin_names):
        make = _make_of(configuration, name)
        if make is not None:
            plugins[name] = make(profile.argument(name), inputs)
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = configuration.percentage_of_nodes_to_score
    return Scheduler(profile, plugins, percentage, Workers(configuration.parallelism, inputs.cores))


def _make_of(
    configuration: SchedulerConfiguration, name: str
) -> Callable[[Arguments | None, Any], Any] | None:
    description = configuration.plugins.get(name)
    return description.make if description is not None else None
