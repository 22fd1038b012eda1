"""The workloads behind pods: who recreates them, how many are wanted, and what they run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import IntArray, PodRow
from rebalancer.cluster.columns.pod_classes import Owner, PodClass
from rebalancer.cluster.kinds import BY_NAME
from rebalancer.cluster.records import OwnerReference, PodTemplate, Workload
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.workloads.stateful_sets import revision_of

# Controllers that recreate a pod that was evicted.
RECREATING = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "Job", "DaemonSet"})

DEFAULT_GRACE_SECONDS = 30
_MAX_OWNER_CHAIN = 4  # of controllers above a pod


def grace_period_seconds(pod: PodClass) -> int:
    """How long a pod of a class may take to terminate, in seconds."""
    grace = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if grace is None else grace


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """What is known of a pod's controller and of the top-most one above it."""

    owner: Owner
    record: Workload | None  # of the pod's own controller; None when it was not read
    name: str  # Kind/name of the top-most controller known
    key: str  # namespace/Kind/name: what limits and cooldowns count by
    desired: int | None  # replicas wanted of the pod's controller; None unknown
    template: PodTemplate | None


class Workloads:
    """Looks up the controllers of pods; pods of a class share theirs."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._found: dict[int, WorkloadInfo] = {}
        self._chains: dict[int, list[tuple[str, Workload]]] = {}
        self._siblings: dict[str, list[PodRow]] = {}

    def of(self, row: PodRow) -> WorkloadInfo:
        """The workload of a pod."""
        index = int(self._snapshot.pods.pod_class[row])
        found = self._found.get(index)
        if found is None:
            pod_class = self._snapshot.pods.classes[index]
            found = self._found[index] = self._find(pod_class.namespace, pod_class.owner)
        return found

    def was_read(self, owner: Owner) -> bool:
        """Whether controllers of the owner's kind were read at all."""
        kind = BY_NAME.get(owner.kind)
        return kind is not None and self._snapshot.has(kind)

    def _find(self, namespace: str, owner: Owner) -> WorkloadInfo:
        found = self._snapshot.workloads.get(owner.uid)
        record = found[1] if found else None
        top = self._top(owner, record)
        desired: int | None = None
        if record is not None:
            wanted = record.spec.parallelism if owner.kind == "Job" else record.spec.replicas
            desired = 1 if wanted is None else wanted
        template = record.spec.template if record else None
        return WorkloadInfo(owner, record, top, f"{namespace}/{top}", desired, template)

    def _top(self, owner: Owner, record: Workload | None) -> str:
        """``Kind/name`` of the controller's own controller when it has one."""
        for reference in (record.metadata.owner_references if record else None) or ():
            if reference.controller:
                return f"{reference.kind}/{reference.name}"
        return f"{owner.kind}/{owner.name}"

    def chain(self, row: PodRow) -> list[tuple[str, Workload]]:
        """Kind and record of a pod's controllers that were read, its own first."""
        index = int(self._snapshot.pods.pod_class[row])
        if index not in self._chains:
            self._chains[index] = self._chain(self._snapshot.pods.classes[index].owner)
        return self._chains[index]

    def _chain(self, owner: Owner) -> list[tuple[str, Workload]]:
        found = self._snapshot.workloads.get(owner.uid)
        controllers: list[tuple[str, Workload]] = []
        while found is not None and len(controllers) < _MAX_OWNER_CHAIN:
            controllers.append((found[0].name, found[1]))
            above = next((item for item in found[1].metadata.owner_references or () if item.controller), None)
            found = self._snapshot.workloads.get(above.uid) if above else None
        return controllers

    def unread_above(self, row: PodRow) -> OwnerReference | None:
        """A controller above a pod's own whose kind was not read; None when all there are were."""
        chain = self.chain(row)
        if not chain:
            return None
        above = next((item for item in chain[-1][1].metadata.owner_references or () if item.controller), None)
        kind = BY_NAME.get(above.kind) if above else None
        return above if kind is not None and not self._snapshot.has(kind) else None

    def newest_sibling(self, row: PodRow, revision: str = "") -> PodRow | None:
        """The newest other ready pod of the controller, not terminating, of ``revision`` if it is given."""
        pods = self._snapshot.pods
        uid = pods.class_of(row).owner.uid
        if uid not in self._siblings:
            self._siblings[uid] = self._usable_of(uid) if uid else []
        for sibling in self._siblings[uid]:
            if sibling != row and (not revision or revision_of(pods.class_of(sibling)) in ("", revision)):
                return sibling
        return None

    def _usable_of(self, uid: str) -> list[PodRow]:
        pods = self._snapshot.pods
        rows = np.concatenate([self._usable[index] for index in self._classes[uid]])
        newest_first = np.lexsort((rows, -np.nan_to_num(pods.created[rows], nan=0.0)))
        return [PodRow(row) for row in rows[newest_first].tolist()]

    @cached_property
    def _classes(self) -> Mapping[str, list[int]]:
        """Pod classes by the uid of their controller."""
        found: dict[str, list[int]] = defaultdict(list)
        for index, pod in enumerate(self._snapshot.pods.classes):
            found[pod.owner.uid].append(index)
        return found

    @cached_property
    def _usable(self) -> list[IntArray]:
        """By class: its ready pods that are not terminating."""
        pods = self._snapshot.pods
        rows = np.flatnonzero(pods.ready & ~pods.terminating & (pods.node >= 0))
        rows = rows[np.argsort(pods.pod_class[rows], kind="stable")]
        edges = pods.pod_class[rows].searchsorted(np.arange(1, len(pods.classes)))
        return np.split(rows, edges)
