"""Classes of pods that the scheduler cannot tell apart, found while pods are read.

What is written of a pod mostly repeats what was written of its siblings. So a pod is recognised by those
bytes, and a class is built, checked and compared only for bytes not seen before.

Since 1.35 the API server copies the zone and the region of its node to a pod when it is bound
(PodTopologyLabelsAdmission), so pods of one template differ by the zone they run in. A replacement is created
without them, and the scheduler places it without them:

    web-1 on a node in zone a   app=web, topology.kubernetes.io/zone=a
    web-2 on a node in zone b   app=web, topology.kubernetes.io/zone=b
    the class of both before they were bound: app=web

Source: kubernetes v1.36.3 plugin/pkg/admission/podtopologylabels/admission.go:53.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import quantities, records
from rebalancer.cluster.arrays import PodClassIndex
from rebalancer.cluster.quantities import checked_amount

# Admission mounts a service account's token under a name of each pod's own; nothing depends on it.
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - a volume's name
# Among the statuses of a class: that of the pod itself, whose resources may be resized as a whole.
POD_ITSELF = ""
OF_THEIR_NODE = frozenset({"DaemonSet", "Node"})  # owners of pods that belong to one node


class Owner(msgspec.Struct, array_like=True, frozen=True):
    """The controller of a pod."""

    kind: str
    name: str
    uid: str
    api_version: str


NO_OWNER = Owner("", "", "", "")


class PodClass(msgspec.Struct, array_like=True, frozen=True, eq=False):
    """Pods the scheduler cannot tell apart: namespace, labels, controller and scheduling fields.

    As JSON it is the key by which classes are compared, and of which digests are made.
    """

    namespace: str
    labels: Mapping[str, str]
    owner: Owner
    spec: records.PodSpec  # without nodeName and the volume of the service account's token
    statuses: tuple[records.ContainerStatus, ...]  # of resized containers, and of a resized POD_ITSELF
    resize_infeasible: bool

    @property
    def priority(self) -> int:
        """spec.priority; nil counts as 0."""
        return self.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        """The profile that places pods of this class."""
        return self.spec.scheduler_name or "default-scheduler"


_canonical = msgspec.json.Encoder(order="deterministic")
_classes = msgspec.json.Decoder(PodClass)


def _resized(pod: records.Pod, infeasible: bool) -> tuple[records.ContainerStatus, ...]:
    """The statuses that differ from the spec: an in-place resize left them.

    Where the resize is infeasible the spec does not count, so every status with resources is kept. What the
    status of the pod itself says counts instead of those of its containers, so it is kept beside any of them.
    """
    spec = {container.name: container.resources for container in pod.spec.every_container}
    status_of_pod = records.ContainerStatus(
        name=POD_ITSELF, resources=pod.status.resources, allocated_resources=pod.status.allocated_resources
    )
    spec[POD_ITSELF] = pod.spec.resources
    resized: list[records.ContainerStatus] = []
    for status in (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
        status_of_pod,
    ):
        resources = spec.get(status.name)
        requested = (resources.requests if resources else None) or {}
        actual = (status.resources.requests if status.resources else None) or requested
        allocated = status.allocated_resources or requested
        told = status.resources is not None or status.allocated_resources is not None
        of_pod_beside_others = status is status_of_pod and bool(resized)
        if actual != requested or allocated != requested or (told and (infeasible or of_pod_beside_others)):
            resized.append(
                records.ContainerStatus(
                    name=status.name,
                    resources=status.resources,
                    allocated_resources=status.allocated_resources,
                )
            )
    return tuple(resized)


def _owner(metadata: records.Metadata) -> Owner:
    for reference in metadata.owner_references or ():
        if reference.controller:
            return Owner(reference.kind, reference.name, reference.uid, reference.api_version)
    return NO_OWNER


def _is_token(volume: records.Volume) -> bool:
    return volume.name.startswith(_TOKEN_VOLUME) and volume == records.Volume(name=volume.name)


def pod_class_of(pod: records.Pod) -> tuple[bytes, PodClass]:
    """The class of a pod and the key that equal classes share; the class is a function of the key."""
    metadata = pod.metadata
    pending_resize = records.condition(pod.status.conditions, "PodResizePending")
    infeasible = pending_resize is not None and pending_resize.reason == "Infeasible"
    volumes = [volume for volume in pod.spec.volumes or () if not _is_token(volume)]
    key = key_of(
        PodClass(
            metadata.namespace,
            metadata.labels or {},
            _owner(metadata),
            replace(pod.spec, node_name="", volumes=volumes or None),
            _resized(pod, infeasible),
            infeasible,
        )
    )
    return key, _classes.decode(key)


def key_of(pod: PodClass) -> bytes:
    """The key of a class; equal classes have equal keys."""
    return _canonical.encode(pod)


def _check_quantities(pod: PodClass) -> None:
    """Refuse a class whose quantities the API server would not have stored."""
    spec = pod.spec
    maps: list[tuple[str, records.Labels | None]] = [("overhead", spec.overhead)]
    for container in spec.every_container:
        if container.resources:
            maps.append((f"{container.name}.requests", container.resources.requests))
            _check_limits(f"{container.name}.limits", container.resources)
    for status in pod.statuses:
        maps.append((f"{status.name}.status.allocatedResources", status.allocated_resources))
        if status.resources:
            maps.append((f"{status.name}.status.resources.requests", status.resources.requests))
    if spec.resources:
        maps.append(("resources.requests", spec.resources.requests))
        _check_limits("resources.limits", spec.resources)
    for where, quantity_map in maps:
        for resource, text in (quantity_map or {}).items():
            checked_amount(where, resource, text)


def _check_limits(where: str, resources: records.ResourceRequirements) -> None:
    """Limits are never summed: they may be as large as they like."""
    for resource, text in (resources.limits or {}).items():
        if quantities.parse(text) < 0:
            raise ValueError(f"{where}.{resource} is negative: {text}")


class ClassIndex:
    """Numbers the classes of pods as they come."""

    def __init__(self) -> None:
        self.classes: list[PodClass] = []
        self.keys: list[bytes] = []
        self._by_key: dict[bytes, int] = {}

    def number_of(self, pod: records.Pod) -> int:
        """The class of a pod; ValueError when a quantity it requests is malformed or negative."""
        key, pod_class = pod_class_of(pod)
        number = self._by_key.get(key)
        if number is None:
            _check_quantities(pod_class)
            number = self._by_key[key] = len(self.classes)
            self.classes.append(pod_class)
            self.keys.append(key)
        return number

    @classmethod
    def of(cls, classes: Iterable[PodClass], keys: Iterable[bytes]) -> ClassIndex:
        """An index in which these classes have their numbers."""
        index = cls()
        index.classes = list(classes)
        index.keys = list(keys)
        index._by_key = {key: number for number, key in enumerate(index.keys)}
        return index

    def compacted(self, used: Sequence[int]) -> tuple[ClassIndex, dict[int, int]]:
        """An index of only these classes, and the number in it of each; the others have no pods any more."""
        compact = ClassIndex.of([self.classes[old] for old in used], [self.keys[old] for old in used])
        return compact, {old: new for new, old in enumerate(used)}


_PREFIXES = ("topology.kubernetes.io", "topology.k8s.io")  # the second is that of 1.33
BINDING_LABELS = frozenset(f"{prefix}/{what}" for prefix in _PREFIXES for what in ("zone", "region"))
GIVEN_SINCE_MINOR = 35


def classes_before_binding(
    classes: Sequence[PodClass],
) -> tuple[tuple[PodClass, ...], Mapping[int, PodClassIndex]]:
    """The classes with those of labelled pods before they were bound appended, and these by class."""
    added: list[PodClass] = []
    numbers: dict[bytes, PodClassIndex] = {}
    before: dict[int, PodClassIndex] = {}
    for index, pod in enumerate(classes):
        if BINDING_LABELS.isdisjoint(pod.labels):
            continue
        unbound = replace(
            pod, labels={key: value for key, value in pod.labels.items() if key not in BINDING_LABELS}
        )
        key = key_of(unbound)
        if key not in numbers:
            numbers[key] = PodClassIndex(len(classes) + len(added))
            added.append(unbound)
        before[index] = numbers[key]
    return (*classes, *added), before
