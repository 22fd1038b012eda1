"""EBSLimits, GCEPDLimits and AzureDiskLimits, until v1beta3.

They count disks of the old in-tree kinds. Once those are migrated to CSI drivers (the default from 1.25 on),
NodeVolumeLimits counts them and these reject nothing. That is what is modelled; a pod that mounts such a disk
itself depends on limits that are never read.

Source: kubernetes v1.25 pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.profiles.types import ExtensionPoint, Input
from rebalancer.scheduling.framework.plugin import Plugin


class EbsLimits(Plugin):
    """Passes every node."""

    name = "EBSLimits"
    points = frozenset({ExtensionPoint.FILTER})
    inputs = frozenset({Input.PERSISTENT_VOLUME_CLAIMS, Input.PERSISTENT_VOLUMES, Input.STORAGE_CLASSES})
    versions = frozenset({"v1beta1", "v1beta2", "v1beta3"})
    static = True
    disk: ClassVar[str] = "aws_elastic_block_store"  # the field of a volume that such a disk fills

    @classmethod
    def never_read(cls, pod: PodClass) -> Iterable[str]:
        """The limits of disks that are not behind a CSI driver."""
        if any(getattr(volume, cls.disk) is not None for volume in pod.spec.volumes or () if cls.disk):
            yield f"the limits that {cls.name} keeps"


class GcePdLimits(EbsLimits):
    """Passes every node."""

    name = "GCEPDLimits"
    disk = "gce_persistent_disk"


class AzureDiskLimits(EbsLimits):
    """Passes every node; disks of this kind are not decoded, so their use is not noticed."""

    name = "AzureDiskLimits"
    disk = ""
