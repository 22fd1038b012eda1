"""Typed records of the Kubernetes objects we read, with the fields we use and no others.

Decoded by msgspec straight from bytes. Maps and lists may be ``null`` on the wire, so both are optional;
the helpers of ``selectors`` and ``requests`` read them as empty. Quantities and times stay text until
they are needed: a malformed one is then reported with the object it stands in.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Labels = dict[str, str]
# The integers of the Kubernetes API: one that does not fit makes its object malformed, as it would in Go.
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The base of all records: immutable, camelCase on the wire, absent when default."""


class OwnerReference(Record, frozen=True):
    """metadata.ownerReferences[]."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Metadata(Record, frozen=True):
    """metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: list[OwnerReference] | None = None


class Requirement(Record, frozen=True):
    """One expression of a label selector or a node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Record, frozen=True):
    """A label selector: all of matchLabels and matchExpressions."""

    match_labels: Labels | None = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(Record, frozen=True):
    """One term of a node selector; its expressions are ANDed."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Record, frozen=True):
    """A node selector; its terms are ORed."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Record, frozen=True):
    """A node preference and its weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Record, frozen=True):
    """spec.affinity.nodeAffinity, and addedAffinity of the NodeAffinity plugin."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTerm(Record, frozen=True):
    """A required pod (anti-)affinity term."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Record, frozen=True):
    """A preferred pod (anti-)affinity term and its weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Record, frozen=True):
    """spec.affinity.podAffinity or podAntiAffinity."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Record, frozen=True):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Record, frozen=True):
    """spec.topologySpreadConstraints[]."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(Record, frozen=True):
    """spec.tolerations[]."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class Taint(Record, frozen=True):
    """spec.taints[] of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ResourceRequirements(Record, frozen=True):
    """resources of a container, of a pod, or of a container's status."""

    requests: Labels | None = None
    limits: Labels | None = None


class ContainerPort(Record, frozen=True):
    """ports[] of a container."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class Container(Record, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class ClaimSource(Record, frozen=True):
    """volumes[].persistentVolumeClaim."""

    claim_name: str = ""
    read_only: bool = False


class GcePersistentDisk(Record, frozen=True):
    """volumes[].gcePersistentDisk."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(Record, frozen=True):
    """volumes[].awsElasticBlockStore."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class Iscsi(Record, frozen=True):
    """volumes[].iscsi."""

    iqn: str = ""
    read_only: bool = False


class Rbd(Record, frozen=True):
    """volumes[].rbd."""

    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class Present(Record, frozen=True):
    """A volume source of which only the presence matters."""


class Volume(Record, frozen=True):
    """spec.volumes[]."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    empty_dir: Present | None = None
    host_path: Present | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None


class SchedulingGate(Record, frozen=True):
    """spec.schedulingGates[]."""

    name: str = ""


class ResourceClaim(Record, frozen=True):
    """spec.resourceClaims[]."""

    name: str = ""


class PodSpec(Record, frozen=True):
    """spec of a pod, and of the pod template of a workload."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Labels | None = None
    resources: ResourceRequirements | None = None
    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[ResourceClaim] | None = None
    volumes: list[Volume] | None = None
    host_network: bool | None = None
    termination_grace_period_seconds: Int64 | None = None
    restart_policy: str = ""


class Condition(Record, frozen=True):
    """status.conditions[]."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Record, frozen=True):
    """status.containerStatuses[]: what an in-place resize left."""

    name: str = ""
    ready: bool = False
    resources: ResourceRequirements | None = None
    allocated_resources: Labels | None = None


class PodStatus(Record, frozen=True):
    """status of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Record, frozen=True):
    """v1 Pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeImage(Record, frozen=True):
    """status.images[] of a node."""

    names: list[str] | None = None
    size_bytes: Int64 = 0


class NodeSpec(Record, frozen=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeAddress(Record, frozen=True):
    """status.addresses[] of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(Record, frozen=True):
    """status of a node."""

    allocatable: Labels | None = None
    capacity: Labels | None = None
    conditions: list[Condition] | None = None
    images: list[NodeImage] | None = None
    addresses: list[NodeAddress] | None = None


class Node(Record, frozen=True):
    """v1 Node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class DisruptionBudgetSpec(Record, frozen=True):
    """spec of a PodDisruptionBudget."""

    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class DisruptionBudgetStatus(Record, frozen=True):
    """status of a PodDisruptionBudget, as the disruption controller wrote it."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0
    disrupted_pods: dict[str, str] | None = None


class DisruptionBudget(Record, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: Metadata = Metadata()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus | None = None


class PodTemplate(Record, frozen=True):
    """spec.template of a workload."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


class OnExitCodes(Record, frozen=True):
    """onExitCodes of a pod failure policy's rule; only its presence matters."""


class OnPodCondition(Record, frozen=True):
    """onPodConditions[] of a pod failure policy's rule."""

    type: str = ""
    status: str = "True"


class PodFailureRule(Record, frozen=True):
    """spec.podFailurePolicy.rules[] of a Job."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] | None = None


class PodFailurePolicy(Record, frozen=True):
    """spec.podFailurePolicy of a Job."""

    rules: list[PodFailureRule] | None = None


class WorkloadSpec(Record, frozen=True):
    """spec of a ReplicaSet, StatefulSet, Deployment, ReplicationController, DaemonSet or Job."""

    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    backoff_limit: Int32 | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    # A ReplicationController's selector is a plain map, every other workload's a LabelSelector.
    selector: Any = None
    template: PodTemplate | None = None


class WorkloadStatus(Record, frozen=True):
    """status of a workload."""

    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    updated_replicas: Int32 = 0
    observed_generation: Int64 = 0
    active: Int32 = 0
    failed: Int32 = 0
    current_revision: str = ""
    update_revision: str = ""


class Workload(Record, frozen=True):
    """Any controller of pods."""

    metadata: Metadata = Metadata()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class Namespace(Record, frozen=True):
    """v1 Namespace."""

    metadata: Metadata = Metadata()


class ServiceSpec(Record, frozen=True):
    """spec of a Service."""

    selector: Labels | None = None


class Service(Record, frozen=True):
    """v1 Service."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()


class PriorityClass(Record, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Metadata = Metadata()
    value: Int32 = 0
    global_default: bool = False


class NodeMetrics(Record, frozen=True):
    """metrics.k8s.io/v1beta1 NodeMetrics."""

    metadata: Metadata = Metadata()
    timestamp: str = ""
    window: str = ""
    usage: Labels | None = None


class ContainerMetrics(Record, frozen=True):
    """containers[] of PodMetrics."""

    name: str = ""
    usage: Labels | None = None


class PodMetrics(Record, frozen=True):
    """metrics.k8s.io/v1beta1 PodMetrics."""

    metadata: Metadata = Metadata()
    timestamp: str = ""
    window: str = ""
    containers: list[ContainerMetrics] | None = None


class ClaimSpec(Record, frozen=True):
    """spec of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None
    resources: ResourceRequirements | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    selector: LabelSelector | None = None


class ClaimStatus(Record, frozen=True):
    """status of a PersistentVolumeClaim."""

    phase: str = ""


class PersistentVolumeClaim(Record, frozen=True):
    """v1 PersistentVolumeClaim."""

    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClaimReference(Record, frozen=True):
    """spec.claimRef of a PersistentVolume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiVolume(Record, frozen=True):
    """spec.csi of a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Record, frozen=True):
    """spec.nodeAffinity of a PersistentVolume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Record, frozen=True):
    """spec of a PersistentVolume."""

    capacity: Labels | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None
    csi: CsiVolume | None = None


class PersistentVolume(Record, frozen=True):
    """v1 PersistentVolume."""

    metadata: Metadata = Metadata()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: ClaimStatus = ClaimStatus()


class TopologyExpression(Record, frozen=True):
    """allowedTopologies[].matchLabelExpressions[] of a StorageClass."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Record, frozen=True):
    """allowedTopologies[] of a StorageClass; its expressions are ANDed."""

    match_label_expressions: list[TopologyExpression] | None = None


class StorageClass(Record, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: Metadata = Metadata()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class CsiLimit(Record, frozen=True):
    """allocatable of a driver on a node."""

    count: Int32 | None = None


class CsiNodeDriver(Record, frozen=True):
    """spec.drivers[] of a CSINode."""

    name: str = ""
    allocatable: CsiLimit | None = None


class CsiNodeSpec(Record, frozen=True):
    """spec of a CSINode."""

    drivers: list[CsiNodeDriver] | None = None


class CsiNode(Record, frozen=True):
    """storage.k8s.io/v1 CSINode."""

    metadata: Metadata = Metadata()
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Record, frozen=True):
    """spec of a CSIDriver."""

    storage_capacity: bool | None = None


class CsiDriver(Record, frozen=True):
    """storage.k8s.io/v1 CSIDriver."""

    metadata: Metadata = Metadata()
    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(Record, frozen=True):
    """storage.k8s.io/v1 CSIStorageCapacity."""

    metadata: Metadata = Metadata()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None


class AttachmentSource(Record, frozen=True):
    """spec.source of a VolumeAttachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Record, frozen=True):
    """spec of a VolumeAttachment."""

    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Record, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    metadata: Metadata = Metadata()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class TargetReference(Record, frozen=True):
    """scaleTargetRef or targetRef of an autoscaler."""

    kind: str = ""
    name: str = ""


class HorizontalAutoscalerSpec(Record, frozen=True):
    """spec of a HorizontalPodAutoscaler."""

    scale_target_ref: TargetReference = TargetReference()


class HorizontalAutoscalerStatus(Record, frozen=True):
    """status of a HorizontalPodAutoscaler."""

    current_replicas: Int32 = 0
    desired_replicas: Int32 = 0
    last_scale_time: str | None = None


class HorizontalAutoscaler(Record, frozen=True):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    metadata: Metadata = Metadata()
    spec: HorizontalAutoscalerSpec = HorizontalAutoscalerSpec()
    status: HorizontalAutoscalerStatus = HorizontalAutoscalerStatus()


class UpdatePolicy(Record, frozen=True):
    """spec.updatePolicy of a VerticalPodAutoscaler."""

    update_mode: str | None = None


class VerticalAutoscalerSpec(Record, frozen=True):
    """spec of a VerticalPodAutoscaler."""

    target_ref: TargetReference = TargetReference()
    update_policy: UpdatePolicy | None = None


class VerticalAutoscaler(Record, frozen=True):
    """autoscaling.k8s.io/v1 VerticalPodAutoscaler."""

    metadata: Metadata = Metadata()
    spec: VerticalAutoscalerSpec = VerticalAutoscalerSpec()


class ResourceQuotaSpec(Record, frozen=True):
    """spec of a ResourceQuota."""

    hard: Labels | None = None
    scopes: list[str] | None = None


class ResourceQuotaStatus(Record, frozen=True):
    """status of a ResourceQuota."""

    hard: Labels | None = None
    used: Labels | None = None


class ResourceQuota(Record, frozen=True):
    """v1 ResourceQuota."""

    metadata: Metadata = Metadata()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class Anything(Record, frozen=True):
    """An object of a kind of which only the metadata is used so far."""

    metadata: Metadata = Metadata()
