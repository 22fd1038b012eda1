"""The plugins each version of the configuration API enables by default, in order and with weights.

Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/default_plugins.go:30. Versions with
MultiPoint list all there; older ones point by point.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

GROUP = "kubescheduler.config.k8s.io"

Enabled = tuple[tuple[str, int], ...]


class VersionDefaults(msgspec.Struct, frozen=True):
    """What a version of the API enables by itself, and how it merges what is configured.

    ``points`` maps ``multiPoint`` or an extension point to names and weights (0: none given). With
    ``replaces_in_place`` a configured plugin takes the place of its default; otherwise it is appended.
    """

    points: Mapping[str, Enabled]
    has_multi_point: bool = True
    replaces_in_place: bool = True


def _listed(names: str) -> Enabled:
    """Names in order, each with its weight where it has one: ``NodeName TaintToleration=3``."""
    parts = (item.partition("=") for item in names.split())
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
    "preFilter": _listed(
        "NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity VolumeBinding "
        "NodeAffinity"
    ),
    "score": _listed(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 "
        "NodeAffinity=1 PodTopologySpread=2 TaintToleration=1"
    ),
}
_V1BETA1: Mapping[str, Enabled] = {
    **_POINT_BY_POINT,
    "preFilter": _listed(
        "NodeResourcesFit NodePorts PodTopologySpread InterPodAffinity VolumeBinding NodeAffinity"
    ),
    "score": _listed(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 "
        "NodeResourcesLeastAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 "
        "TaintToleration=1"
    ),
}

OF_KUBERNETES = frozenset(name for name, _ in _V1)
"""The plugins that are part of Kubernetes."""

DEFAULTS: Mapping[str, VersionDefaults] = {
    "v1": VersionDefaults({"multiPoint": _V1}),
    "v1beta3": VersionDefaults({"multiPoint": _V1BETA3}),
    "v1beta2": VersionDefaults(_V1BETA2, has_multi_point=False),
    "v1beta1": VersionDefaults(_V1BETA1, has_multi_point=False, replaces_in_place=False),
}
"""The defaults of every version of the API that we read."""
