"""What pods use that not every version has, and pods as seen by a scheduler that does not look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from rebalancer.cluster.columns.pod_classes import POD_ITSELF, PodClass
from rebalancer.cluster.records import Container, TopologySpreadConstraint

_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"


def without_sidecars(pod: PodClass) -> PodClass:
    """A pod whose sidecars are plain init containers."""

    def plain(container: Container) -> Container:
        return msgspec.structs.replace(container, restart_policy=None)

    starting = pod.spec.init_containers
    if not any(item.restart_policy for item in starting or ()):
        return pod
    return _with_spec(pod, init_containers=[plain(item) for item in starting or ()])


def without_pod_level(pod: PodClass) -> PodClass:
    """A pod without resources of its own."""
    return _with_spec(pod, resources=None) if pod.spec.resources is not None else pod


def without_resize(pod: PodClass) -> PodClass:
    """A pod that is not being resized."""
    if not pod.statuses and not pod.resize_infeasible:
        return pod
    return replace(pod, statuses=(), resize_infeasible=False)


def is_resized_as_a_whole(pod: PodClass) -> bool:
    """Whether its pod-level resources are being resized."""
    return any(status.name == POD_ITSELF for status in pod.statuses)


def without_pod_level_resize(pod: PodClass) -> PodClass:
    """A pod that is not being resized as a whole."""
    if not is_resized_as_a_whole(pod):
        return pod
    return replace(pod, statuses=tuple(item for item in pod.statuses if item.name != POD_ITSELF))


def without_of_constraints(*fields: str) -> Callable[[PodClass], PodClass]:
    """A function that drops fields of topology spread constraints."""

    def without(pod: PodClass) -> PodClass:
        def plain(item: TopologySpreadConstraint) -> TopologySpreadConstraint:
            return msgspec.structs.replace(item, **dict.fromkeys(fields))

        given = pod.spec.topology_spread_constraints or []
        if not any(getattr(item, field) is not None for item in given for field in fields):
            return pod
        return _with_spec(pod, topology_spread_constraints=[plain(item) for item in given])

    return without


def _with_spec(pod: PodClass, **changes: object) -> PodClass:
    return replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))


def has_sidecars(pod: PodClass) -> bool:
    """Whether it has init containers that restart always."""
    return any(item.restart_policy == "Always" for item in pod.spec.init_containers or ())


def has_sidecar_ports(pod: PodClass) -> bool:
    """Whether a sidecar wants a host port."""
    return any(
        item.restart_policy == "Always" and any(port.host_port for port in item.ports or ())
        for item in pod.spec.init_containers or ()
    )


def has_pod_level_requests(pod: PodClass) -> bool:
    """Whether the pod itself requests resources."""
    return bool(pod.spec.resources and pod.spec.resources.requests)


def has_own_or_sidecar_requests(pod: PodClass) -> bool:
    """Whether the pod itself, or a sidecar of it, may request resources."""
    return pod.spec.resources is not None or has_sidecars(pod)


def is_resized(pod: PodClass) -> bool:
    """Whether a resize is under way."""
    return bool(pod.statuses) or pod.resize_infeasible


def has_init_containers(pod: PodClass) -> bool:
    """Whether it has init containers."""
    return bool(pod.spec.init_containers)


def has_claims(pod: PodClass) -> bool:
    """Whether it has volumes that are claimed."""
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes or ())


def has_attached_volumes(pod: PodClass) -> bool:
    """Whether it has volumes that are attached to its node: claimed ones, or disks of the in-tree kinds."""
    return has_claims(pod) or any(
        volume.aws_elastic_block_store
        or volume.gce_persistent_disk
        or volume.azure_disk
        or volume.cinder
        or volume.portworx_volume
        for volume in pod.spec.volumes or ()
    )


def has_image_volumes(pod: PodClass) -> bool:
    """Whether it has volumes that are images."""
    return any(volume.image for volume in pod.spec.volumes or ())


def selects_namespaces(pod: PodClass) -> bool:
    """Whether an affinity term of it has a namespaceSelector."""
    affinity = pod.spec.affinity
    both = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    terms = [
        term
        for side in both
        if side is not None
        for term in (
            *(side.required or ()),
            *(item.pod_affinity_term for item in side.preferred or () if item.pod_affinity_term),
        )
    ]
    return any(term.namespace_selector is not None for term in terms)


def has_extended_resources(pod: PodClass) -> bool:
    """Whether it requests resources outside kubernetes.io, or of a DeviceClass by its name."""
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    return any(
        name.startswith(_DEVICE_CLASS) or ("/" in name and "kubernetes.io/" not in name)
        for item in containers
        if item.resources
        for name in item.resources.requests or ()
    )


def needs_declared_features(pod: PodClass) -> bool:
    """Whether its nodes must declare a feature (component-helpers v0.36.3 nodedeclaredfeatures/features)."""
    spec = pod.spec
    restarts = any(
        rule.action == "RestartAllContainers"
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        for rule in container.restart_policy_rules or ()
    )
    return restarts or (bool(spec.host_network) and spec.host_users is False)
