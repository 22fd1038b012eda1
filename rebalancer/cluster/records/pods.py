"""Pods and nodes, with the fields that scheduling and eviction look at.

Of command lines only that of a kube-scheduler is kept, as far as it decides placements or says where the
scheduler shows that it is alive: its feature gates, the version that it emulates, the file of its
configuration and its leader election. Others are dropped as soon as they are decoded: they may hold secrets.

    command: [kube-scheduler, --config=/etc/c.yaml, --feature-gates=A=true]    is kept as
    command: [kube-scheduler], args: [--config=/etc/c.yaml, --feature-gates=A=true]
    command: [sh, -c, "kube-scheduler $FLAGS"]                                 is kept as nothing: not known
"""

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from rebalancer.cluster.records import base

PROGRAM = "kube-scheduler"
_FLAG = "--feature-gates"
CONFIG_FLAG = "--config"
_LEADER_ELECT_FLAG = "--leader-elect"
LEASE_NAMESPACE_FLAG = "--leader-elect-resource-namespace"
LEASE_NAME_FLAG = "--leader-elect-resource-name"
EMULATED_FLAG = "--emulated-version"
_KEPT_FLAGS = (CONFIG_FLAG, _FLAG, EMULATED_FLAG, LEASE_NAMESPACE_FLAG, LEASE_NAME_FLAG)
_COMPONENT = "kube"  # which of the components within a program a flag means, as in kube:A=true and kube=1.37
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def image_name(image: str) -> str:
    """The last part of an image's path, without its registry, tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def is_scheduler(image: str) -> bool:
    """Whether an image is that of a kube-scheduler."""
    return image_name(image) == PROGRAM


def kept_arguments(image: str, command: Sequence[str], arguments: Sequence[str]) -> list[str] | None:
    """What is kept of a kube-scheduler's command line; None for any other, or if not understood."""
    tokens = [*command, *arguments]
    if not is_scheduler(image) or not tokens:
        return None
    if tokens[0].rpartition("/")[2] == PROGRAM:
        del tokens[0]
    if tokens and not tokens[0].startswith("-"):
        return None  # a shell, or another program that starts it
    arguments_used = [f"{flag}={text}" for flag in _KEPT_FLAGS for text in flag_values(tokens, flag)]
    elects = stated_leader_election(tokens)
    if elects is not None:
        arguments_used.append(f"{_LEADER_ELECT_FLAG}={str(elects).lower()}")
    return arguments_used


def flag_values(tokens: Sequence[str], name: str) -> list[str]:
    """The values of a flag, given with = or as the next token."""
    joined_values = [token.removeprefix(f"{name}=") for token in tokens if token.startswith(f"{name}=")]
    return joined_values + [value for flag, value in itertools.pairwise(tokens) if flag == name]


def stated_leader_election(tokens: Iterable[str]) -> bool | None:
    """Whether the last flag of a kube-scheduler's leader election turns it on or off; None without one.

    A flag of a boolean has no value in the next token: without a value it means true.
    """
    elects = None
    for token in tokens:
        flag, _, text = token.partition("=")
        if flag == _LEADER_ELECT_FLAG:
            elects = True if token == flag else _BOOLEANS.get(text.lower())
    return elects


def stated_gates(arguments: Iterable[str]) -> dict[str, bool] | None:
    """The feature gates of arguments that were kept; None when a value is not a boolean.

    From 1.31 on the component may stand before the name. Source: kubernetes v1.38.0-beta.0
    k8s.io/component-base compatibility/registry.go.
    """
    stated: dict[str, bool] = {}
    for text in flag_values(list(arguments), _FLAG):
        for gate in filter(None, text.split(",")):
            name, _, value = gate.partition("=")
            component, _, name = name.strip().rpartition(":")
            if component not in ("", _COMPONENT):
                continue
            state = _BOOLEANS.get(value.strip().lower())
            if state is None:
                return None
            stated[name] = state
    return stated


def emulated_version(arguments: Iterable[str]) -> str:
    """The version whose feature gates a scheduler's flags ask for, such as 1.37; empty without one."""
    version = ""
    for text in flag_values(list(arguments), EMULATED_FLAG):
        for stated in text.split(","):
            component, _, value = stated.strip().rpartition("=")
            if component in ("", _COMPONENT):
                version = value.removeprefix("v")
    return version


class ContainerPort(base.Record, frozen=True):
    """ports[] of a container."""

    container_port: base.Int32 = 0
    host_port: base.Int32 = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class RestartRule(base.Record, frozen=True):
    """restartPolicyRules[] of a container."""

    action: str = ""


class Container(base.Record, frozen=True):
    """A container or init container; of its command line the ``kept_arguments`` stay."""

    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    resources: base.ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None

    def __post_init__(self) -> None:
        """Drop what may hold secrets before anything can keep or write it."""
        if self.command or self.args:
            arguments_used = kept_arguments(self.image, self.command or (), self.args or ())
            msgspec.structs.force_setattr(self, "command", None if arguments_used is None else [PROGRAM])
            msgspec.structs.force_setattr(self, "args", arguments_used or None)


class ClaimSource(base.Record, frozen=True):
    """volumes[].persistentVolumeClaim."""

    claim_name: str = ""
    read_only: bool = False


class GcePersistentDisk(base.Record, frozen=True):
    """volumes[].gcePersistentDisk."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(base.Record, frozen=True):
    """volumes[].awsElasticBlockStore."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class AzureDisk(base.Record, frozen=True):
    """volumes[].azureDisk, and that of a persistent volume."""

    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str | None = None


class Cinder(base.Record, frozen=True):
    """volumes[].cinder, and that of a persistent volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class PortworxVolume(base.Record, frozen=True):
    """volumes[].portworxVolume, and that of a persistent volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class Iscsi(base.Record, frozen=True):
    """volumes[].iscsi."""

    iqn: str = ""
    read_only: bool = False


class Rbd(base.Record, frozen=True):
    """volumes[].rbd."""

    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class ImageVolume(base.Record, frozen=True):
    """volumes[].image."""

    reference: str = ""


class ConfigMapSource(base.Record, frozen=True):
    """volumes[].configMap: of a scheduler's pod it is the configuration that it runs with."""

    name: str = ""


class Present(base.Record, frozen=True):
    """A field of which only the presence matters."""


class EmptyDir(base.Record, frozen=True):
    """volumes[].emptyDir."""

    medium: str = ""  # Memory, or the node's disk when empty


class Volume(base.Record, frozen=True):
    """spec.volumes[]."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    empty_dir: EmptyDir | None = None
    host_path: Present | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    image: ImageVolume | None = None
    config_map: ConfigMapSource | None = None


class SchedulingGate(base.Record, frozen=True):
    """spec.schedulingGates[]."""

    name: str = ""


class ResourceClaim(base.Record, frozen=True):
    """spec.resourceClaims[]."""

    name: str = ""


class PodSpec(base.Record, frozen=True):
    """spec of a pod, and of the pod template of a workload."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: base.Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: base.Labels | None = None
    resources: base.ResourceRequirements | None = None
    node_selector: base.Labels | None = None
    affinity: base.Affinity | None = None
    tolerations: list[base.Toleration] | None = None
    topology_spread_constraints: list[base.TopologySpreadConstraint] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[ResourceClaim] | None = None
    volumes: list[Volume] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    scheduling_group: Present | None = None
    workload_ref: Present | None = None
    termination_grace_period_seconds: base.Int64 | None = None
    active_deadline_seconds: base.Int64 | None = None
    restart_policy: str = ""
    runtime_class_name: str = ""
    # The first field found that is neither here nor among those known to matter nothing: ``known_fields``
    # finds it, and recordings keep it. Empty: there is none.
    unknown_field: str = ""

    @property
    def every_container(self) -> tuple[Container, ...]:
        """Its containers, and then its init containers."""
        return *(self.containers or ()), *(self.init_containers or ())


class RuntimeOverhead(base.Record, frozen=True):
    """overhead of a RuntimeClass."""

    pod_fixed: base.Labels | None = None


class RuntimeScheduling(base.Record, frozen=True):
    """scheduling of a RuntimeClass."""

    node_selector: base.Labels | None = None
    tolerations: list[base.Toleration] | None = None


class RuntimeClass(base.ApiObject, frozen=True):
    """node.k8s.io/v1 RuntimeClass."""

    overhead: RuntimeOverhead | None = None
    scheduling: RuntimeScheduling | None = None


class DeviceClassSpec(base.Record, frozen=True):
    """spec of a DeviceClass."""

    extended_resource_name: str | None = None


class DeviceClass(base.ApiObject, frozen=True):
    """resource.k8s.io/v1 DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class ContainerStateWaiting(base.Record, frozen=True):
    """state.waiting of a container."""

    reason: str = ""


class ContainerStateTerminated(base.Record, frozen=True):
    """state.terminated of a container, or lastState.terminated."""

    reason: str = ""
    exit_code: base.Int32 = 0


class ContainerState(base.Record, frozen=True):
    """state of a container, or lastState: neither of these while it runs."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(base.Record, frozen=True):
    """status.containerStatuses[]: what it has been through, and what an in-place resize left."""

    name: str = ""
    ready: bool = False
    restart_count: base.Int32 = 0
    state: ContainerState | None = ContainerState()
    last_state: ContainerState | None = ContainerState()
    resources: base.ResourceRequirements | None = None
    allocated_resources: base.Labels | None = None


class PodStatus(base.Record, frozen=True):
    """status of a pod."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[base.Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None
    resources: base.ResourceRequirements | None = None
    allocated_resources: base.Labels | None = None


class Pod(base.ApiObject, frozen=True):
    """v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class EncodedPod(base.ApiObject, frozen=True):
    """v1 Pod whose spec is still encoded: most repeat that of a sibling, and need not be decoded."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatus = PodStatus()


class NodeImage(base.Record, frozen=True):
    """status.images[] of a node."""

    names: list[str] | None = None
    size_bytes: base.Int64 = 0


class NodeSpec(base.Record, frozen=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: list[base.Taint] | None = None


class NodeAddress(base.Record, frozen=True):
    """status.addresses[] of a node."""

    type: str = ""
    address: str = ""


class NodeInfo(base.Record, frozen=True):
    """status.nodeInfo of a node."""

    kubelet_version: str = ""


class NodeStatus(base.Record, frozen=True):
    """status of a node."""

    allocatable: base.Labels | None = None
    capacity: base.Labels | None = None
    conditions: list[base.Condition] | None = None
    images: list[NodeImage] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeInfo | None = None


class Node(base.ApiObject, frozen=True):
    """v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeMetrics(base.ApiObject, frozen=True):
    """metrics.k8s.io/v1beta1 NodeMetrics."""

    timestamp: str = ""
    window: str = ""
    usage: base.Labels | None = None


class ContainerMetrics(base.Record, frozen=True):
    """containers[] of PodMetrics."""

    name: str = ""
    usage: base.Labels | None = None


class PodMetrics(base.ApiObject, frozen=True):
    """metrics.k8s.io/v1beta1 PodMetrics."""

    timestamp: str = ""
    window: str = ""
    containers: list[ContainerMetrics] | None = None
