"""What the rules of eviction read: the pod's cluster, looked up once for all of its rules.

A rule is a function of this context and of a pod's row. It keeps nothing, so the order of rules is a matter
of which reason is reported, never of what is allowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import BoolArray, PodRow
from rebalancer.cluster.foreign_evictions import ForeignEvictions
from rebalancer.cluster.kinds import PRIORITY_CLASSES
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.records import PersistentVolumeClaim, PriorityClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.eviction.budgets import Budgets, Quotas
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.workloads.lookup import Autoscalers, WorkloadInfo, Workloads
from rebalancer.planning.workloads.replacement import Replacement, Replacements
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.state.run_state import MoveHistory

Claims = Mapping[tuple[str, str], PersistentVolumeClaim]  # by namespace and name


@dataclass(frozen=True, slots=True, eq=False)
class EvictionContext:
    """A cluster and its policy, and the lookups that rules share."""

    inputs: PlanningInputs
    workloads: Workloads
    replacements: Replacements
    budgets: Budgets
    quotas: Quotas
    autoscalers: Autoscalers
    foreign_evictions: ForeignEvictions
    history: MoveHistory
    claims: Claims
    priority_classes: Mapping[str, int] | None  # value by name; None when they were not read
    unpredictable: Mapping[int, str]  # by pod class: why the model cannot place its pods
    load_unknown: BoolArray  # (pods,)
    finished: bool = False  # it is asked about pods that have finished, whose rows are behind those of others

    @classmethod
    def of(cls, inputs: PlanningInputs, unpredictable: Mapping[int, str], claims: Claims) -> EvictionContext:
        """Look up all that rules read; ``unpredictable`` and ``claims`` come from the scheduling model."""
        snapshot, load = inputs.snapshot, inputs.load
        workloads = Workloads(snapshot)
        required = [load.resources.index(name) for name in load.required]
        return cls(
            inputs=inputs,
            workloads=workloads,
            replacements=Replacements(snapshot.pods, workloads),
            budgets=Budgets(snapshot),
            quotas=Quotas(snapshot),
            autoscalers=Autoscalers(snapshot),
            foreign_evictions=ForeignEvictions(snapshot.recording),
            history=MoveHistory(inputs.state.moves if inputs.state else ()),
            claims=claims,
            priority_classes=_priority_classes(snapshot),
            unpredictable=unpredictable,
            load_unknown=np.asarray(np.isnan(load.pod_usage[:, required]).any(axis=1), np.bool_),
        )

    def of_finished(self) -> EvictionContext:
        """The context for pods that have finished, by their rows in ``pods.with_finished``."""
        snapshot = dataclasses.replace(self.inputs.snapshot, pods=self.pods.with_finished)
        inputs = dataclasses.replace(self.inputs, snapshot=snapshot)
        return dataclasses.replace(EvictionContext.of(inputs, self.unpredictable, self.claims), finished=True)

    @property
    def pods(self) -> PodTable:
        """The pods of the snapshot."""
        return self.inputs.snapshot.pods

    @property
    def nodes(self) -> NodeTable:
        """The nodes of the snapshot."""
        return self.inputs.snapshot.nodes

    @property
    def policy(self) -> RebalancePolicy:
        """The policy of the plan."""
        return self.inputs.policy

    def workload(self, row: PodRow) -> WorkloadInfo:
        """The workload of a pod."""
        return self.workloads.of(row)

    def replacement(self, row: PodRow) -> Replacement:
        """What would come back in place of a pod."""
        return self.replacements.of(row)

    def claims_of(self, pod: PodClass) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
        """Name and record of each claim that pods of a class use; None where it was not read."""
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim:
                name = volume.persistent_volume_claim.claim_name
                yield name, self.claims.get((pod.namespace, name))


def _priority_classes(snapshot: Snapshot) -> Mapping[str, int] | None:
    if not snapshot.has(PRIORITY_CLASSES):
        return None
    found = snapshot.recording.records(PRIORITY_CLASSES)
    return {item.metadata.name: item.value for item in found if isinstance(item, PriorityClass)}
