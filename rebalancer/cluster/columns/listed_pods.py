"""Pods of a LIST as columns, sorted by namespace and name; their nodes are names still, not yet rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.columns.pod_classes import POD_ITSELF, PodClass

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
# Set by whoever moves a pod in the background, such as KubeVirt, while that is under way.
EVICTION_IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
# Of a pod's annotations only those that affect eviction are kept.
HONOURED_ANNOTATIONS = frozenset(
    {
        MIRROR_ANNOTATION,
        "kubernetes.io/config.source",
        "descheduler.alpha.kubernetes.io/evict",
        EVICTION_IN_PROGRESS,
        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
        "controller.kubernetes.io/pod-deletion-cost",
        "karpenter.sh/do-not-disrupt",
        "scheduling.koordinator.sh/eviction-cost",
    }
)
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
FINISHED = (PHASES.index("Succeeded"), PHASES.index("Failed"))
PHASE_INDEX = {phase: index for index, phase in enumerate(PHASES)}
UNKNOWN_PHASE = PHASE_INDEX["Unknown"]
NO_ANNOTATIONS: Mapping[str, str] = {}
_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, eq=False)
class ListedPods:
    """Pods as columns, in order of namespace and name, before their nodes are known as rows."""

    names: tuple[str, ...]
    namespaces: tuple[str, ...]
    uids: tuple[str, ...]
    node_names: tuple[str, ...]  # each once; the empty one stands for none
    node: IntArray  # (pods,) index into node_names
    pod_class: IntArray  # (pods,) index into classes
    phase: IntArray  # (pods,) index into PHASES
    created: FloatArray  # (pods,) Unix seconds, NaN when unknown
    started: FloatArray  # (pods,) Unix seconds, NaN when unknown
    ready: BoolArray  # (pods,)
    deleted: Mapping[int, str]  # row -> deletionTimestamp
    annotations: tuple[Mapping[str, str], ...]  # (pods,) the honoured ones, interned
    nominated: Mapping[int, str]  # row -> status.nominatedNodeName of unbound pods
    classes: tuple[PodClass, ...]
    class_keys: tuple[bytes, ...]  # what tells classes apart

    def __len__(self) -> int:
        return len(self.names)

    def digest_parts(self) -> Iterator[bytes]:
        """Everything in which these pods may differ from others, independent of how they were read."""
        for texts in (self.names, self.namespaces, self.uids, self.node_names):
            yield _encoder.encode(texts)
        for column in (self.node, self.pod_class, self.phase, self.created, self.started, self.ready):
            yield column.tobytes()
        annotated = [(row, found) for row, found in enumerate(self.annotations) if found]
        yield _encoder.encode((sorted(self.deleted.items()), annotated, sorted(self.nominated.items())))
        yield from self.class_keys

    def as_records(self) -> Iterator[records.Pod]:
        """The pods as records that read back as these rows, one at a time."""
        rows = zip(self.node.tolist(), self.pod_class.tolist(), self.phase.tolist(), strict=True)
        for row, (node, pod_class, phase) in enumerate(rows):
            yield self._record(row, self.node_names[node], self.classes[pod_class], PHASES[phase])

    def _record(self, row: int, node_name: str, found: PodClass, phase: str) -> records.Pod:
        owner = found.owner
        reference = records.OwnerReference(owner.kind, owner.name, owner.uid, owner.api_version, True)
        conditions = []
        if self.ready[row]:
            conditions.append(records.Condition(type="Ready", status="True"))
        if found.resize_infeasible:
            conditions.append(records.Condition(type="PodResizePending", status="True", reason="Infeasible"))
        of_pod = next((item for item in found.statuses if item.name == POD_ITSELF), records.ContainerStatus())
        return records.Pod(
            metadata=records.Metadata(
                name=self.names[row],
                namespace=self.namespaces[row],
                uid=self.uids[row],
                creation_timestamp=times.render_optional(float(self.created[row])),
                deletion_timestamp=self.deleted.get(row),
                labels=dict(found.labels) or None,
                annotations=dict(self.annotations[row]) or None,
                owner_references=[reference] if owner.uid or owner.kind or owner.name else None,
            ),
            spec=msgspec.structs.replace(found.spec, node_name=node_name),
            status=records.PodStatus(
                phase=phase,
                nominated_node_name=self.nominated.get(row, ""),
                start_time=times.render_optional(float(self.started[row])),
                conditions=conditions or None,
                container_statuses=[item for item in found.statuses if item.name != POD_ITSELF] or None,
                resources=of_pod.resources,
                allocated_resources=of_pod.allocated_resources,
            ),
        )
