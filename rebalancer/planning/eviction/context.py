"""What the rules of eviction read: the pod's cluster, looked up once for all of its rules.

A rule is a function of this context and of a pod's row. It keeps nothing, so the order of rules is a matter
of which reason is reported, never of what is allowed.

Pods that somebody else is evicting are looked up here too. Since Kubernetes 1.37 (alpha) an EvictionRequest
asks for the eviction of a pod, and an Eviction is its progress; both name the pod by its uid. Such a pod
leaves without us, so it counts as one that is terminating and is no candidate.

    EvictionRequest, intent Eviction, no condition         being evicted
    EvictionRequest, intent Withdrawn                      stays
    Eviction, condition Failed, as when it is cancelled    stays
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from rebalancer.cluster.arrays import BoolArray, PodRow
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.kinds import EVICTION_REQUESTS, EVICTIONS, NAMESPACES, PRIORITY_CLASSES, Kind
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import EvictionRequest, PersistentVolumeClaim
from rebalancer.cluster.records.base import condition
from rebalancer.planning.eviction.budgets import Budgets
from rebalancer.planning.eviction.quotas import Quotas
from rebalancer.planning.inputs import OfInputs, PlanningInputs
from rebalancer.planning.plan import PodReference
from rebalancer.planning.reasons import NotMoved
from rebalancer.planning.workloads.lookup import Autoscalers, WorkloadInfo, Workloads
from rebalancer.planning.workloads.replacement import Replacement, Replacements
from rebalancer.state.run_state import MoveHistory

_KINDS = (EVICTION_REQUESTS, EVICTIONS)
_WITHDRAWN = "Withdrawn"
_TERMINATING = "Terminating"
_OVER = ("TargetEvicted", "Failed")


class ForeignEvictions:
    """Looks up whether somebody else is evicting a pod."""

    def __init__(self, recording: Recording) -> None:
        self.unread: Kind | None = next((kind for kind in _KINDS if kind.plural in recording.unread), None)
        self._of_uid: dict[str, str] = {}
        self._of_name: dict[tuple[str, str], str] = {}  # of objects that give no uid
        self._of_namespace: dict[str, str] = {}  # of objects that cannot be read: any pod may be meant
        for kind in _KINDS:
            for request in recording.records(kind):
                conditions = (condition(request.status.conditions, kind) for kind in _OVER)
                over = any(entry is not None and entry.status == "True" for entry in conditions)
                if not over and request.spec.intent != _WITHDRAWN:
                    self._add(kind, request)
            listing = recording.listings.get(kind.plural)
            for broken in listing.malformed if listing is not None else ():
                why = f"{kind.name} {broken.name} of its namespace cannot be read"
                self._of_namespace[broken.namespace] = why

    @property
    def are_some(self) -> bool:
        """Whether anybody asks for the eviction of any pod."""
        return bool(self._of_uid or self._of_name or self._of_namespace)

    def _add(self, kind: Kind, request: EvictionRequest) -> None:
        pod = request.spec.target.pod
        if pod is None:
            return
        by = f" by {request.spec.requester[:100]}" if request.spec.requester else ""
        why = f"{kind.name} {request.metadata.name} asks for its eviction{by}"
        if pod.uid:
            self._of_uid.setdefault(pod.uid, why)
        else:
            self._of_name.setdefault((request.metadata.namespace, pod.name), why)

    def why_leaving(self, namespace: str, name: str, uid: str) -> str:
        """Which object asks for the eviction of this pod, or may do so, in words; empty when none does."""
        return (
            self._of_uid.get(uid)
            or self._of_name.get((namespace, name))
            or self._of_namespace.get(namespace)
            or ""
        )


Claims = Mapping[tuple[str, str], PersistentVolumeClaim]  # by namespace and name


class EvictionContext(OfInputs, frozen=True, eq=False, dict=True):
    """A cluster and its policy, and the lookups that rules share."""

    workloads: Workloads
    replacements: Replacements
    budgets: Budgets
    quotas: Quotas
    autoscalers: Autoscalers
    foreign_evictions: ForeignEvictions
    history: MoveHistory
    moved_by_this_run: frozenset[str]  # namespace/Kind/name of workloads
    claims: Claims
    priority_classes: Mapping[str, int] | None  # value by name; None when they were not read
    ending_namespaces: frozenset[str]
    unpredictable: Mapping[int, str]  # by pod class: why the model cannot place its pods
    load_unknown: BoolArray  # (pods,) of which no resource that a rule names is known
    leaving: BoolArray  # (pods,) gone before the next run whatever anybody does
    # What the rules said so far: first and in all of the ordinary pods of a class, and first of other pods.
    first_refusals: dict[int, NotMoved | None] = {}
    refusals: dict[int, tuple[NotMoved, ...]] = {}
    first_of_others: dict[PodRow, NotMoved | None] = {}

    @classmethod
    def of(
        cls,
        inputs: PlanningInputs,
        unpredictable: Mapping[int, str],
        claims: Claims,
        leaving: BoolArray,
        moved_by_this_run: frozenset[str] = frozenset(),
    ) -> EvictionContext:
        """Look up all that rules read; ``unpredictable`` and ``claims`` come from the scheduling model."""
        snapshot = inputs.snapshot
        load = inputs.load
        recording = inputs.snapshot.recording
        workloads = Workloads(snapshot)
        required = [load.resources.index(name) for name in load.required]
        return cls(
            inputs=inputs,
            workloads=workloads,
            replacements=Replacements(snapshot, workloads),
            budgets=Budgets(snapshot),
            quotas=Quotas(snapshot),
            autoscalers=Autoscalers(snapshot),
            foreign_evictions=ForeignEvictions(recording),
            history=MoveHistory(inputs.state.moves if inputs.state else ()),
            moved_by_this_run=moved_by_this_run,
            claims=claims,
            priority_classes={
                priority_class.metadata.name: priority_class.value
                for priority_class in recording.records(PRIORITY_CLASSES)
            }
            if snapshot.has(PRIORITY_CLASSES)
            else None,
            ending_namespaces=frozenset(
                namespace.metadata.name
                for namespace in recording.records(NAMESPACES)
                if namespace.metadata.deletion_timestamp is not None or namespace.status.phase == _TERMINATING
            ),
            unpredictable=unpredictable,
            load_unknown=np.asarray(np.isnan(load.pod_usage[:, required]).all(axis=1), np.bool_),
            leaving=leaving,
        )

    @cached_property
    def ordinary(self) -> BoolArray:
        """(pods,) of which every rule says the same as of all other ordinary pods of their class.

        What rules read of the pod itself makes it no ordinary one: annotations, that it is being debugged,
        what becomes of it or of its node, its age, its name where that decides what comes back, and that it
        is the newest of its controller, since it shows the others, and another one shows it, what admission
        makes of a template.
        """
        pods = self.pods
        nodes = self.nodes
        ordinary = np.append(nodes.staying, False)[pods.node]
        ordinary &= pods.ready & ~pods.terminating & ~self.leaving & ~self.load_unknown
        ordinary &= self.inputs.now - pods.created >= self.policy.evictable.min_age
        ordinary &= np.array([self.workloads.makes_alike(pod.owner) for pod in pods.classes], np.bool_)[
            pods.pod_class
        ]
        ordinary[self.workloads.newest_pods()] = False
        ordinary[[*pods.annotations, *pods.debugged_by]] = False
        timed = (*self.policy.evictable.windows, *self.policy.evictable.blackouts)
        if any(period.node_selector is not None for period in timed):
            ordinary[:] = False  # pods of a class on two nodes may leave them at different times
        own = self.inputs.own_pod.rpartition("/")[2]
        ordinary[[row for row, name in enumerate(pods.names) if name == own]] = False
        if self.foreign_evictions.are_some:
            keys = zip(pods.namespaces, pods.names, pods.uids, strict=True)
            ordinary &= np.array([not self.foreign_evictions.why_leaving(*key) for key in keys], np.bool_)
        return ordinary

    @property
    def recording(self) -> Recording:
        """What was read of the cluster, and what was not."""
        return self.inputs.snapshot.recording

    def workload(self, row: PodRow) -> WorkloadInfo:
        """The workload of a pod."""
        return self.workloads.of(row)

    def pod_reference(self, row: PodRow) -> PodReference:
        """A pod and its controller, as plans and explanations name them."""
        workload = self.workload(row)
        owner = workload.owner
        return PodReference(
            namespace=self.pods.namespaces[row],
            name=self.pods.names[row],
            uid=self.pods.uids[row],
            workload=workload.name if owner.kind else "",
            controller_kind=owner.kind,
            controller_name=owner.name,
            controller_uid=owner.uid,
            workload_uid=workload.uid,
        )

    def replacement(self, row: PodRow) -> Replacement:
        """What would come back in place of a pod."""
        return self.replacements.of(row)

    def claims_of(self, pod: PodClass) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
        """Name and record of each claim that pods of a class use; None where it was not read."""
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim:
                name = volume.persistent_volume_claim.claim_name
                yield name, self.claims.get((pod.namespace, name))
