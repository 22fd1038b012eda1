"""Volume claims, volumes, storage classes, and what CSI drivers report about nodes and capacity."""

from rebalancer.cluster.records import base, pods


class ClaimSpec(base.Record, frozen=True):
    """spec of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None
    resources: base.ResourceRequirements | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    selector: base.LabelSelector | None = None


class ClaimStatus(base.Record, frozen=True):
    """status of a PersistentVolumeClaim."""

    phase: str = ""


class PersistentVolumeClaim(base.ApiObject, frozen=True):
    """v1 PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClaimReference(base.Record, frozen=True):
    """spec.claimRef of a PersistentVolume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiVolume(base.Record, frozen=True):
    """spec.csi of a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(base.Record, frozen=True):
    """spec.nodeAffinity of a PersistentVolume."""

    required: base.NodeSelector | None = None


class PersistentVolumeSpec(base.Record, frozen=True):
    """spec of a PersistentVolume."""

    capacity: base.Labels | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None
    csi: CsiVolume | None = None
    aws_elastic_block_store: pods.AwsElasticBlockStore | None = None
    gce_persistent_disk: pods.GcePersistentDisk | None = None
    azure_disk: pods.AzureDisk | None = None
    cinder: pods.Cinder | None = None
    portworx_volume: pods.PortworxVolume | None = None


class PersistentVolume(base.ApiObject, frozen=True):
    """v1 PersistentVolume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: ClaimStatus = ClaimStatus()


class TopologyExpression(base.Record, frozen=True):
    """allowedTopologies[].matchLabelExpressions[] of a StorageClass."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(base.Record, frozen=True):
    """allowedTopologies[] of a StorageClass; its expressions are ANDed."""

    match_label_expressions: list[TopologyExpression] | None = None


class StorageClass(base.ApiObject, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class CsiLimit(base.Record, frozen=True):
    """allocatable of a driver on a node."""

    count: base.Int32 | None = None


class CsiNodeDriver(base.Record, frozen=True):
    """spec.drivers[] of a CSINode."""

    name: str = ""
    allocatable: CsiLimit | None = None


class CsiNodeSpec(base.Record, frozen=True):
    """spec of a CSINode."""

    drivers: list[CsiNodeDriver] | None = None


class CsiNode(base.ApiObject, frozen=True):
    """storage.k8s.io/v1 CSINode."""

    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(base.Record, frozen=True):
    """spec of a CSIDriver."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriver(base.ApiObject, frozen=True):
    """storage.k8s.io/v1 CSIDriver."""

    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(base.ApiObject, frozen=True):
    """storage.k8s.io/v1 CSIStorageCapacity."""

    storage_class_name: str = ""
    node_topology: base.LabelSelector | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None


class AttachmentSource(base.Record, frozen=True):
    """spec.source of a VolumeAttachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(base.Record, frozen=True):
    """spec of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(base.ApiObject, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
