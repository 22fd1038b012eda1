"""What a plan has used of the policy's limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.workloads.lookup import WorkloadInfo
from rebalancer.policy import Limits


@dataclass(slots=True)
class UsedLimits:
    """Evictions of the plan so far, by what limits count."""

    limits: Limits
    total: int = 0
    by_node: Counter[NodeRow] = field(default_factory=Counter)
    by_namespace: Counter[str] = field(default_factory=Counter)
    by_workload: Counter[str] = field(default_factory=Counter)

    def copy(self) -> UsedLimits:
        """An independent count."""
        return UsedLimits(
            self.limits, self.total, self.by_node.copy(), self.by_namespace.copy(), self.by_workload.copy()
        )

    def refusal_on(self, node: NodeRow) -> KeptReason | None:
        """The limit that allows no further eviction of any pod from a node."""
        limits = self.limits
        if self.total >= limits.per_run:
            return KeptReason(Reason.LIMIT, f"perRun {limits.per_run} is reached")
        if self.by_node[node] >= limits.per_node:
            return KeptReason(Reason.LIMIT, f"perNode {limits.per_node} is reached")
        return None

    def refusal(self, namespace: str, workload: WorkloadInfo) -> KeptReason | None:
        """The limit that allows no further eviction from a namespace or of a workload."""
        limits = self.limits
        if self.by_namespace[namespace] >= limits.per_namespace:
            return KeptReason(Reason.LIMIT, f"perNamespace {limits.per_namespace} is reached for {namespace}")
        most = limits.per_workload.of(workload.desired or 0)
        if self.by_workload[workload.key] >= most:
            return KeptReason(
                Reason.LIMIT, f"perWorkload {limits.per_workload} ({most}) is reached for {workload.name}"
            )
        return None

    def count(self, node: NodeRow, namespace: str, workload: WorkloadInfo) -> None:
        """Count one eviction."""
        self.total += 1
        self.by_node[node] += 1
        self.by_namespace[namespace] += 1
        self.by_workload[workload.key] += 1
