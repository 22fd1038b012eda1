"""The workloads behind pods: who recreates them, how many are wanted, what they run, and what scales them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import msgspec
import numpy as np

from rebalancer.cluster import kinds, records
from rebalancer.cluster.arrays import IntArray, PodRow
from rebalancer.cluster.pod_classes import Owner, PodClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.workloads.jobs import replaces_only_failed
from rebalancer.planning.workloads.limit_ranges import LimitRanges
from rebalancer.planning.workloads.stateful_sets import revision_of

# Controllers that recreate a pod that was evicted.
RECREATING = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "Job", "DaemonSet"})

DEFAULT_GRACE_SECONDS = 30
_MAX_OWNER_CHAIN = 4  # of controllers above a pod


def is_read_kind(kind: str) -> bool:
    """Whether controllers of a kind are among the workloads that are read; those of add-ons are not.

    CronJobs are read to see other deschedulers, and stand in no chain of controllers.
    """
    return kind in kinds.BY_NAME and kind != kinds.CRON_JOBS.name


def controller_of(metadata: records.Metadata) -> records.OwnerReference | None:
    """The controller among an object's owners."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


def grace_period_seconds(pod: PodClass) -> int:
    """How long a pod of a class may take to terminate, in seconds."""
    grace = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if grace is None else grace


class WorkloadInfo(msgspec.Struct, frozen=True):
    """What is known of a pod's controller and of the top-most one above it."""

    owner: Owner
    record: records.Workload | None  # of the pod's own controller; None when it was not read
    name: str  # Kind/name of the top-most controller known
    key: str  # namespace/Kind/name: what limits and cooldowns count by
    desired: int | None  # replicas wanted of the pod's controller; None unknown
    # With what LimitRanges and the default PriorityClass add to a pod of it.
    template: records.PodTemplate | None
    uid: str = ""  # of the top-most controller known
    counted: bool = False  # it is of a kind that is not read, so ``desired`` are the pods it has

    @property
    def replaced_late(self) -> bool:
        """Whether the replacement is made only once the pod is gone: a StatefulSet uses its name again."""
        if self.owner.kind == "Job":
            return self.record is not None and replaces_only_failed(self.record)
        return self.owner.kind == "StatefulSet"

    @property
    def replaced_any_time(self) -> bool:
        """Whether the replacement may be made while the pod terminates, or long after it is gone.

        A Job waits longer after each failure, and of a kind that is not read nobody knows: one that gives its
        pods names of their own makes the next when the last is gone, as Strimzi's StrimziPodSet does.
        """
        return not self.replaced_late and (self.counted or self.owner.kind == "Job")


class Workloads:
    """Looks up the controllers of pods; pods of a class share theirs."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_class: dict[int, WorkloadInfo] = {}
        self._staying_of: dict[str, IntArray] = {}  # by the uid of their controller
        self.limit_ranges = LimitRanges(snapshot)
        self.default_priority_class = _default_priority_class(snapshot)

    def of(self, row: PodRow) -> WorkloadInfo:
        """The workload of a pod."""
        index = int(self._snapshot.pods.pod_class[row])
        info = self._by_class.get(index)
        if info is None:
            pod_class = self._snapshot.pods.classes[index]
            info = self._by_class[index] = self._find(pod_class.namespace, pod_class.owner)
        return info

    def was_read(self, owner: Owner) -> bool:
        """Whether controllers of the owner's kind were read at all."""
        kind = kinds.BY_NAME.get(owner.kind)
        return kind is not None and self._snapshot.has(kind)

    def _find(self, namespace: str, owner: Owner) -> WorkloadInfo:
        kind_and_record = self._snapshot.workloads.get(owner.uid)
        record = kind_and_record[1] if kind_and_record else None
        top, uid = self._top(owner, record)
        desired: int | None = None
        if record is not None:
            replicas = record.spec.parallelism if owner.kind == "Job" else record.spec.replicas
            desired = 1 if replicas is None else replicas
        template = record.spec.template if record else None
        if template is not None:
            spec = self.limit_ranges.admitted(namespace, template.spec)
            priority_class = spec.priority_class_name or self.default_priority_class
            spec = msgspec.structs.replace(spec, priority_class_name=priority_class)
            template = msgspec.structs.replace(template, spec=spec)
        counted = bool(owner.kind) and not is_read_kind(owner.kind)
        if counted:
            desired = len(self.staying_pods(owner.uid))
        key = f"{namespace}/{top}"
        return WorkloadInfo(owner, record, top, key, desired, template, uid, counted)

    def key_of(self, pod: PodClass) -> str:
        """The key of the workload of pods of a class, without all the rest of it."""
        kind_and_record = self._snapshot.workloads.get(pod.owner.uid)
        return f"{pod.namespace}/{self._top(pod.owner, kind_and_record[1] if kind_and_record else None)[0]}"

    def terminating_pods(self, row: PodRow) -> list[str]:
        """The uids of the pods of a pod's controller that are being deleted."""
        pods = self._snapshot.pods
        classes = self._classes[pods.class_of(row).owner.uid]
        rows = np.flatnonzero(pods.terminating & np.isin(pods.pod_class, classes))
        return [pods.uids[index] for index in rows.tolist()]

    def staying_pods(self, controller_uid: str) -> IntArray:
        """Rows of the pods of a controller that are not being deleted."""
        if controller_uid not in self._staying_of:
            of_classes = [self._staying[index] for index in self._classes[controller_uid]]
            self._staying_of[controller_uid] = np.concatenate(of_classes)
        return self._staying_of[controller_uid]

    def other_replica_sets(self, record: records.Workload) -> list[str]:
        """Names of the other ReplicaSets with pods that a ReplicaSet's controller has."""
        siblings = self.siblings_of(kinds.REPLICA_SETS, record)
        return [
            sibling.metadata.name
            for sibling in siblings
            if sibling.spec.replicas != 0 or sibling.status.replicas
        ]

    def siblings_of(self, kind: kinds.Kind, record: records.Workload) -> list[records.Workload]:
        """The other objects of its kind that its controller has."""
        above = controller_of(record.metadata)
        siblings = self._of_controllers[kind.name, above.uid] if above else []
        return [sibling for sibling in siblings if sibling.metadata.uid != record.metadata.uid]

    @cached_property
    def _of_controllers(self) -> Mapping[tuple[str, str], list[records.Workload]]:
        """What controllers have, by its kind and their uid."""
        by_controller: dict[tuple[str, str], list[records.Workload]] = defaultdict(list)
        for kind, record in self._snapshot.workloads.values():
            above = controller_of(record.metadata)
            if above:
                by_controller[kind.name, above.uid].append(record)
        return by_controller

    def _top(self, owner: Owner, record: records.Workload | None) -> tuple[str, str]:
        """``Kind/name`` and uid of the controller's own controller when it has one, else its own."""
        above: Owner | records.OwnerReference = (controller_of(record.metadata) if record else None) or owner
        return f"{above.kind}/{above.name}", above.uid

    def chain(self, row: PodRow) -> list[tuple[str, records.Workload]]:
        """Kind and record of a pod's controllers that were read, its own first.

        Of one whose kind is never read, the last of the chain, the record holds the name alone.
        """
        above: Owner | records.OwnerReference | None = self._snapshot.pods.class_of(row).owner
        controllers: list[tuple[str, records.Workload]] = []
        while above is not None and above.kind and len(controllers) < _MAX_OWNER_CHAIN:
            kind_and_record = self._snapshot.workloads.get(above.uid)
            if kind_and_record is None:
                if not is_read_kind(above.kind):
                    controllers.append(
                        (above.kind, records.Workload(metadata=records.Metadata(name=above.name)))
                    )
                break
            controllers.append((kind_and_record[0].name, kind_and_record[1]))
            above = controller_of(kind_and_record[1].metadata)
        return controllers

    def missing_above(self, row: PodRow) -> records.OwnerReference | None:
        """A controller above a pod's own that does not exist any more; None when all there are exist."""
        return self._above(row, read=True) if len(self.chain(row)) < _MAX_OWNER_CHAIN else None

    def unread_above(self, row: PodRow) -> records.OwnerReference | None:
        """A controller above a pod's own whose kind was not read; None when all there are were."""
        return self._above(row, read=False)

    def _above(self, row: PodRow, *, read: bool) -> records.OwnerReference | None:
        """The controller of the last one known, where its kind was read, or was not."""
        chain = self.chain(row)
        above = controller_of(chain[-1][1].metadata) if chain else None
        kind = kinds.BY_NAME.get(above.kind) if above else None
        return above if kind is not None and self._snapshot.has(kind) is read else None

    def newest_sibling(self, row: PodRow, revision: str = "") -> PodRow | None:
        """The newest other ready pod of the controller, not terminating, of ``revision`` if it is given."""
        pods = self._snapshot.pods
        uid = pods.class_of(row).owner.uid
        if not uid:
            return None
        rows, of_controller = self._newest_first
        here = of_controller[uid]
        for at in range(here.start, here.stop):
            sibling = PodRow(int(rows[at]))
            if sibling != row and (not revision or revision_of(pods.class_of(sibling)) in ("", revision)):
                return sibling
        return None

    def makes_alike(self, owner: Owner) -> bool:
        """Whether the name of a pod has no part in what its controller makes of it, or in its stead."""
        kind_and_record = self._snapshot.workloads.get(owner.uid)
        revision = kind_and_record[1].status.update_revision if kind_and_record else ""
        return owner.kind in ("ReplicaSet", "DaemonSet") and not revision

    def newest_pods(self) -> IntArray:
        """Rows of the newest sibling that the others of each controller have."""
        rows, of_controller = self._newest_first
        first = [here.start for here in of_controller.values() if here.start < here.stop]
        return np.asarray(rows[first], np.int64)

    @cached_property
    def _newest_first(self) -> tuple[IntArray, Mapping[str, slice]]:
        """Rows of the ready pods that are not terminating, and by controller where its own are among them.

        Those of a controller are sorted: the newest first, and of pods made together the lowest row.
        """
        pods = self._snapshot.pods
        rows = np.flatnonzero(pods.ready & ~pods.terminating & (pods.node >= 0))
        number = {uid: at for at, uid in enumerate(self._classes)}
        of_class = np.array([number[pod.owner.uid] for pod in pods.classes], np.int64)
        controller = of_class[pods.pod_class[rows]]
        order = np.lexsort((rows, -np.nan_to_num(pods.created[rows], nan=0.0), controller))
        edges = np.searchsorted(controller[order], np.arange(len(number) + 1)).tolist()
        return rows[order], {uid: slice(edges[at], edges[at + 1]) for uid, at in number.items()}

    @cached_property
    def _classes(self) -> Mapping[str, list[int]]:
        """Pod classes by the uid of their controller."""
        by_uid: dict[str, list[int]] = defaultdict(list)
        for index, pod in enumerate(self._snapshot.pods.classes):
            by_uid[pod.owner.uid].append(index)
        return by_uid

    @cached_property
    def _staying(self) -> list[IntArray]:
        """By class: the rows of its pods that are not terminating."""
        pods = self._snapshot.pods
        rows = np.flatnonzero(~pods.terminating)
        rows = rows[np.argsort(pods.pod_class[rows], kind="stable")]
        edges = pods.pod_class[rows].searchsorted(np.arange(1, len(pods.classes)))
        return np.split(rows, edges)


def _default_priority_class(snapshot: Snapshot) -> str:
    """The default of pods that name no class; of several the one of the lowest value."""
    defaults = [
        priority_class
        for priority_class in snapshot.recording.records(kinds.PRIORITY_CLASSES)
        if priority_class.global_default
    ]
    least = min(defaults, key=lambda priority_class: priority_class.value, default=None)
    return least.metadata.name if least else ""


Target = tuple[str, str, str]  # namespace, kind, name
_LEAVES_REQUESTS_ALONE = "Off"
_DEFAULT_MODE = "Auto"


class Autoscalers:
    """Looks up the autoscalers of a workload and of the controllers above it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._horizontal: dict[Target, records.HorizontalAutoscaler] = {}
        self._vertical: dict[Target, records.VerticalAutoscaler] = {}
        for scaler in snapshot.recording.records(kinds.HORIZONTAL_AUTOSCALERS):
            target = scaler.spec.scale_target_ref
            self._horizontal[scaler.metadata.namespace, target.kind, target.name] = scaler
        for vertical in snapshot.recording.records(kinds.VERTICAL_AUTOSCALERS):
            target = vertical.spec.target_ref
            self._vertical[vertical.metadata.namespace, target.kind, target.name] = vertical

    @property
    def unread(self) -> kinds.Kind | None:
        """The kind of autoscaler that could not be read; an add-on that is not there has none."""
        if not self._snapshot.has(kinds.HORIZONTAL_AUTOSCALERS):
            return kinds.HORIZONTAL_AUTOSCALERS
        refused = kinds.VERTICAL_AUTOSCALERS.plural in self._snapshot.recording.unread
        return kinds.VERTICAL_AUTOSCALERS if refused else None

    def of(
        self, chain: Iterable[tuple[str, records.Workload]], namespace: str
    ) -> Iterator[tuple[str, records.HorizontalAutoscalerStatus]]:
        """Name and status of what scales any controller of a chain."""
        for kind, record in chain:
            scaler = self._horizontal.get((namespace, kind, record.metadata.name))
            if scaler is not None:
                yield f"HorizontalPodAutoscaler {scaler.metadata.name}", scaler.status

    def scaling(self, chain: Iterable[tuple[str, records.Workload]], namespace: str) -> str:
        """The name of what scales any controller of a chain; empty when nothing does."""
        return next((name for name, _ in self.of(chain, namespace)), "")

    def rewriting(
        self, chain: Iterable[tuple[str, records.Workload]], namespace: str
    ) -> tuple[str, str] | None:
        """Name and mode of the vertical autoscaler that rewrites the requests of new pods."""
        for kind, record in chain:
            scaler = self._vertical.get((namespace, kind, record.metadata.name))
            if scaler is None:
                continue
            policy = scaler.spec.update_policy
            mode = (policy.update_mode if policy else None) or _DEFAULT_MODE
            if mode != _LEAVES_REQUESTS_ALONE:
                return f"VerticalPodAutoscaler {scaler.metadata.name}", mode
        return None
