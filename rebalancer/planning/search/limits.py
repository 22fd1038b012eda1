"""What a plan has used of the policy's limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
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

    def copy(self, limits: Limits | None = None) -> UsedLimits:
        """An independent count, under other limits if given."""
        return UsedLimits(
            limits or self.limits,
            self.total,
            self.by_node.copy(),
            self.by_namespace.copy(),
            self.by_workload.copy(),
        )

    @property
    def is_spent(self) -> bool:
        """Whether no pod at all may be evicted any more."""
        return self.total >= self.limits.per_run

    def room_on(self, node: NodeRow) -> int:
        """How many pods may still leave a node."""
        return self.limits.per_node - self.by_node[node]

    def room_in(self, namespace: str) -> int:
        """How many pods of a namespace may still be evicted."""
        return self.limits.per_namespace - self.by_namespace[namespace]

    def room_of(self, workload: WorkloadInfo) -> int:
        """How many pods of a workload may still be evicted."""
        return self.limits.per_workload.of(workload.desired or 0) - self.by_workload[workload.key]

    def reached(self, node: NodeRow, namespace: str, workload: WorkloadInfo) -> tuple[str, ...]:
        """The names of the limits that each allow no further eviction of a pod."""
        return (
            *(("per_run",) if self.is_spent else ()),
            *(("per_node",) if self.room_on(node) <= 0 else ()),
            *(("per_namespace",) if self.room_in(namespace) <= 0 else ()),
            *(("per_workload",) if self.room_of(workload) <= 0 else ()),
        )

    def refusal(self, node: NodeRow, namespace: str, workload: WorkloadInfo) -> KeptReason | None:
        """Every limit that allows no further eviction of a pod: raising only one of several does not help."""
        limits = self.limits
        most = limits.per_workload.of(workload.desired or 0)
        words = {
            "per_run": f"perRun {limits.per_run}",
            "per_node": f"perNode {limits.per_node}",
            "per_namespace": f"perNamespace {limits.per_namespace} for {namespace}",
            "per_workload": f"perWorkload {limits.per_workload} ({most}) for {workload.name}",
        }
        names = self.reached(node, namespace, workload)
        if not names:
            return None
        because = (
            f"{' and '.join(words[name] for name in names)} {'is' if len(names) == 1 else 'are'} reached"
        )
        return KeptReason(Reason.LIMIT, because, tuple(f"limits.{words[name].split()[0]}" for name in names))

    def most_used(self, name: str) -> int:
        """The most evictions that one node, namespace or workload has in the plan, or all for perRun."""
        if name == "per_run":
            return self.total
        used: dict[str, Collection[int]] = {
            "per_node": self.by_node.values(),
            "per_namespace": self.by_namespace.values(),
            "per_workload": self.by_workload.values(),
        }
        return max(used[name], default=0)

    def count(self, node: NodeRow, namespace: str, workload: WorkloadInfo) -> None:
        """Count one eviction."""
        self.total += 1
        self.by_node[node] += 1
        self.by_namespace[namespace] += 1
        self.by_workload[workload.key] += 1
