"""EBSLimits, GCEPDLimits and AzureDiskLimits, until v1beta3.

They count disks of the old in-tree kinds. Once those are migrated to CSI drivers (the default from 1.25 on)
NodeVolumeLimits counts them and these reject nothing, which is what is modelled; a pod that mounts such a
disk itself is named by ``unread_inputs``.

Source: kubernetes v1.25 pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go.
"""

from __future__ import annotations

from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import Plugin


class EbsLimits(Plugin):
    """Passes every node."""

    name = "EBSLimits"
    points = frozenset({ExtensionPoint.FILTER})
    static = True


class GcePdLimits(EbsLimits):
    """Passes every node."""

    name = "GCEPDLimits"


class AzureDiskLimits(EbsLimits):
    """Passes every node."""

    name = "AzureDiskLimits"
