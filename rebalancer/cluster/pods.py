"""Pods as columns, grouped into classes of pods that the scheduler cannot tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from rebalancer.cluster import quantities, records, times
from rebalancer.cluster.listing import Listing, Malformed
from rebalancer.cluster.nodes import BoolArray, FloatArray, IntArray, checked_amount, condition

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
# Of a pod's annotations only those that bear on eviction are kept.
HONOURED_ANNOTATIONS = frozenset(
    {
        MIRROR_ANNOTATION,
        "kubernetes.io/config.source",
        "descheduler.alpha.kubernetes.io/evict",
        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "controller.kubernetes.io/pod-deletion-cost",
        "karpenter.sh/do-not-disrupt",
    }
)
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
FINISHED = (PHASES.index("Succeeded"), PHASES.index("Failed"))


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod."""

    kind: str
    name: str
    uid: str
    api_version: str


NO_OWNER = Owner("", "", "", "")


@dataclass(frozen=True, slots=True, eq=False)
class PodClass:
    """Pods the scheduler cannot tell apart: namespace, labels, controller and scheduling fields."""

    namespace: str
    labels: Mapping[str, str]
    owner: Owner
    spec: records.PodSpec  # without nodeName
    statuses: tuple[records.ContainerStatus, ...]  # of resized containers only
    resize_infeasible: bool

    @property
    def priority(self) -> int:
        """spec.priority; nil counts as 0."""
        return self.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        """The profile that places pods of this class."""
        return self.spec.scheduler_name or "default-scheduler"


@dataclass(frozen=True, eq=False)
class PodTable:
    """Pods as rows, in order of namespace and name; finished pods are left out."""

    names: tuple[str, ...]
    namespaces: tuple[str, ...]
    uids: tuple[str, ...]
    node: IntArray  # (pods,) row of the node, -1 while unbound
    node_unknown: BoolArray  # (pods,) bound to a node that was not read
    pod_class: IntArray  # (pods,) index into classes
    phase: IntArray  # (pods,) index into PHASES
    created: FloatArray  # (pods,) Unix seconds
    started: FloatArray  # (pods,) Unix seconds, NaN when unknown
    terminating: BoolArray  # (pods,)
    ready: BoolArray  # (pods,)
    annotations: tuple[Mapping[str, str], ...]  # (pods,) the honoured ones, interned
    nominated: Mapping[int, str]  # pod row -> status.nominatedNodeName
    classes: tuple[PodClass, ...]

    @cached_property
    def row(self) -> Mapping[tuple[str, str], int]:
        """Row by namespace and name."""
        return {key: row for row, key in enumerate(zip(self.namespaces, self.names, strict=True))}

    @cached_property
    def by_node(self) -> Mapping[int, IntArray]:
        """Pod rows by node row."""
        order = np.argsort(self.node, kind="stable")
        rows, starts = np.unique(self.node[order], return_index=True)
        return dict(zip(rows.tolist(), np.split(order, starts[1:]), strict=True)) if len(order) else {}

    def full_name(self, row: int) -> str:
        """``namespace/name``."""
        return f"{self.namespaces[row]}/{self.names[row]}"

    def class_of(self, row: int) -> PodClass:
        """The class of a pod."""
        return self.classes[int(self.pod_class[row])]

    def __len__(self) -> int:
        return len(self.names)


_class_key = msgspec.json.Encoder(order="deterministic")


def _resized(pod: records.Pod) -> tuple[records.ContainerStatus, ...]:
    """The container statuses that differ from the spec: an in-place resize left them."""
    spec = {
        container.name: container
        for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    }
    found = []
    for status in (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ())):
        container = spec.get(status.name)
        wanted = (container.resources.requests if container and container.resources else None) or {}
        actual = (status.resources.requests if status.resources else None) or wanted
        allocated = status.allocated_resources or wanted
        if actual != wanted or allocated != wanted:
            found.append(
                records.ContainerStatus(
                    name=status.name,
                    resources=status.resources,
                    allocated_resources=status.allocated_resources,
                )
            )
    return tuple(found)


def _owner(metadata: records.Metadata) -> Owner:
    for reference in metadata.owner_references or ():
        if reference.controller:
            return Owner(reference.kind, reference.name, reference.uid, reference.api_version)
    return NO_OWNER


def pod_class_of(pod: records.Pod) -> tuple[bytes, PodClass]:
    """The class of a pod and the key that equal classes share.

    Raises ValueError when a quantity it requests is malformed or negative.
    """
    owner = _owner(pod.metadata)
    labels = pod.metadata.labels or {}
    spec = msgspec.structs.replace(pod.spec, node_name="")
    statuses = _resized(pod)
    pending_resize = condition(pod.status.conditions, "PodResizePending")
    infeasible = pending_resize is not None and pending_resize.reason == "Infeasible"
    key = _class_key.encode(
        (pod.metadata.namespace, labels, owner.kind, owner.uid, spec, statuses, infeasible)
    )
    return key, PodClass(pod.metadata.namespace, labels, owner, spec, statuses, infeasible)


def _check_quantities(pod: records.Pod) -> None:
    """Refuse a class whose quantities the API server would not have stored."""
    spec, status = pod.spec, pod.status
    maps: list[tuple[str, records.Labels | None]] = [("overhead", spec.overhead)]
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        if container.resources:
            maps.append((f"{container.name}.requests", container.resources.requests))
            _check_limits(f"{container.name}.limits", container.resources)
    for found in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
        maps.append((f"{found.name}.status.allocatedResources", found.allocated_resources))
        if found.resources:
            maps.append((f"{found.name}.status.resources.requests", found.resources.requests))
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


class _PodColumns:
    """Collects pods row by row; classes and annotations are interned."""

    def __init__(self, node_row: Mapping[str, int]) -> None:
        self._node_row = node_row
        self._class_index: dict[bytes, int] = {}
        self._annotations: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self.classes: list[PodClass] = []
        self.rows: list[tuple[str, str, str, int, bool, int, int, float, float, bool, bool]] = []
        self.annotations: list[Mapping[str, str]] = []
        self.nominated: dict[int, str] = {}

    def add(self, pod: records.Pod) -> None:
        phase = PHASES.index(pod.status.phase) if pod.status.phase in PHASES else PHASES.index("Unknown")
        if phase in FINISHED:
            return
        key, pod_class = pod_class_of(pod)
        index = self._class_index.get(key)
        if index is None:
            _check_quantities(pod)
            index = self._class_index[key] = len(self.classes)
            self.classes.append(pod_class)
        kept = tuple(
            sorted(
                item for item in (pod.metadata.annotations or {}).items() if item[0] in HONOURED_ANNOTATIONS
            )
        )
        ready = condition(pod.status.conditions, "Ready")
        node_name = pod.spec.node_name
        row = (
            pod.metadata.name,
            pod.metadata.namespace,
            pod.metadata.uid,
            self._node_row.get(node_name, -1),
            bool(node_name) and node_name not in self._node_row,
            index,
            phase,
            times.parse_optional(pod.metadata.creation_timestamp),
            times.parse_optional(pod.status.start_time),
            pod.metadata.deletion_timestamp is not None,
            ready is not None and ready.status == "True",
        )
        if pod.status.nominated_node_name and not node_name:
            self.nominated[len(self.rows)] = pod.status.nominated_node_name
        self.annotations.append(self._annotations.setdefault(kept, dict(kept)))
        self.rows.append(row)

    def table(self) -> PodTable:
        columns = list(zip(*self.rows, strict=True)) or [()] * 11
        return PodTable(
            names=columns[0],
            namespaces=columns[1],
            uids=columns[2],
            node=np.array(columns[3], dtype=np.int64),
            node_unknown=np.array(columns[4], dtype=np.bool_),
            pod_class=np.array(columns[5], dtype=np.int64),
            phase=np.array(columns[6], dtype=np.int64),
            created=np.array(columns[7], dtype=np.float64),
            started=np.array(columns[8], dtype=np.float64),
            terminating=np.array(columns[9], dtype=np.bool_),
            ready=np.array(columns[10], dtype=np.bool_),
            annotations=tuple(self.annotations),
            nominated=self.nominated,
            classes=tuple(self.classes),
        )


def build_pods(listing: Listing, node_row: Mapping[str, int]) -> tuple[PodTable, tuple[Malformed, ...]]:
    """Columns of all pods that could be read and are not finished, and those that could not be read."""
    columns = _PodColumns(node_row)
    malformed: list[Malformed] = []
    pod: records.Pod
    for pod in listing.records:  # type: ignore[assignment]
        try:
            columns.add(pod)
        except ValueError as error:
            metadata = pod.metadata
            malformed.append(
                Malformed("Pod", metadata.namespace, metadata.name, pod.spec.node_name, str(error))
            )
    return columns.table(), tuple(malformed)
