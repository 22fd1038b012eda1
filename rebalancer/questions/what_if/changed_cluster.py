"""A copy of the cluster on which nodes are drained: which pods land where, which stay, and which fit nowhere.

As ``kubectl drain`` does it: the node is cordoned, pods of DaemonSets and static pods stay, and every other
pod is evicted, in order of namespace and name. A disruption budget that is spent keeps its pod. A budget gets
back what it spent once the replacement has landed, and does not while that is Pending:

    budget web allows 1; the cluster has room for one more pod
    web-1   evicted, its replacement lands on n4, the budget allows 1 again
    web-2   evicted, its replacement fits nowhere: Pending, the budget allows 0
    web-3   stays: the budget allows no disruption until web-2 runs again
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning import PreparedInputs
from rebalancer.planning.eviction import budget_rules, pod_rules, workload_rules
from rebalancer.planning.plan import Landing
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.report import possible_landings
from rebalancer.planning.workloads.stateful_sets import replaced_after_termination
from rebalancer.questions.next_landing import next_landing, why_nowhere, why_unpredictable
from rebalancer.questions.what_if.what_if_values import Fate, PodFate
from rebalancer.scheduling import ClusterState

_OF_ITS_NODE = (pod_rules.static, pod_rules.daemon_set)
_STAYS = (
    workload_rules.controller,
    budget_rules.overlapping,
    budget_rules.budgets_read,
)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPod:
    """A pod that left its node, or waited: its row, and where it or its replacement is now."""

    row: PodRow
    node: int  # -1: Pending, or not known
    pod_class: int


@dataclass(slots=True, eq=False)
class ChangedCluster:
    """A state on which nodes are drained and pods are placed; ``fates`` and ``placed`` grow."""

    prepared: PreparedInputs
    state: ClusterState
    fates: list[PodFate] = field(default_factory=list)
    placed: list[PlacedPod] = field(default_factory=list)
    _spent: Counter[str] = field(default_factory=Counter)  # by disruption budget

    def drain(self, node: NodeRow) -> None:
        """Evict what may leave a node, which is unschedulable already."""
        leaving = []
        for row in self.prepared.pods_on(node):
            if self.state.node[row] != node:
                continue
            own = next((found for rule in _OF_ITS_NODE if (found := rule(self.prepared.eviction, row))), None)
            kept = self._why_kept(row)
            if own is not None:
                self._tell(row, Fate.OF_ITS_NODE, because=own.because)
            elif kept is not None:
                self._tell(row, Fate.STAYS, because=kept.because)
            else:
                self._replace(row)
                leaving.append(row)
        for row in leaving:
            if self.state.node[row] >= 0:
                self.state.remove(row)

    def _why_kept(self, row: PodRow) -> KeptReason | None:
        context = self.prepared.eviction
        kept = next((found for rule in _STAYS if (found := rule(context, row))), None)
        if kept is not None:
            return kept
        spending = context.budgets.spending(row)
        if spending.free:
            return None
        for budget in spending.budgets:
            if self._spent[budget.name] >= budget.allowed:
                waiting = f", and {self._spent[budget.name]} of its pods wait" * bool(budget.allowed)
                return KeptReason(Reason.BUDGET, f"budget {budget.name} {budget.because}{waiting}")
        return None

    def _replace(self, row: PodRow) -> None:
        """Evict a pod and place what its controller makes in its stead."""
        prepared, state = self.prepared, self.state
        context = prepared.eviction
        replacement = context.replacement(row)
        class_index = int(replacement.class_index)
        why = replacement.unpredictable_reason or why_unpredictable(prepared, class_index)
        if replaced_after_termination(prepared.pods.class_of(row).owner):
            state.remove(row)
        else:
            state.evict(row)
        spending = context.budgets.spending(row)
        spent = () if spending.free else spending.budgets
        self._spent.update(budget.name for budget in spent)
        if why:
            self.placed.append(PlacedPod(row, -1, class_index))
            self._tell(row, Fate.UNPREDICTABLE, because=why)
            return
        found = next_landing(prepared.schedulers, state, class_index)
        if found.landings is None or found.node is None:
            because = why_nowhere(prepared, state, class_index, found)
            self.placed.append(PlacedPod(row, -1, class_index))
            self._tell(row, Fate.PENDING, because=because)
            return
        state.bind(state.add(class_index), found.node)
        self._spent.subtract(budget.name for budget in spent)
        self.placed.append(PlacedPod(row, found.node, class_index))
        self._tell(row, Fate.LANDS, landings=possible_landings(prepared, found.landings))

    def place_waiting(self, row: PodRow) -> None:
        """Place a pod that is Pending, or new, where it lands; it stays unbound where it fits nowhere."""
        prepared, state = self.prepared, self.state
        class_index = state.pod_class[row]
        why = why_unpredictable(prepared, class_index)
        if why:
            self._tell(row, Fate.UNPREDICTABLE, because=why)
            return
        found = next_landing(prepared.schedulers, state, class_index, row)
        if found.landings is None or found.node is None:
            because = why_nowhere(prepared, state, class_index, found, row)
            self._tell(row, Fate.PENDING, because=because)
            return
        state.bind(row, found.node)
        self.placed.append(PlacedPod(row, found.node, class_index))
        self._tell(row, Fate.LANDS, landings=possible_landings(prepared, found.landings))

    def _tell(
        self, row: PodRow, fate: Fate, *, because: str = "", landings: tuple[Landing, ...] = ()
    ) -> None:
        reference = self.prepared.pod_reference(row)
        self.fates.append(
            PodFate(
                pod=reference.full_name,
                workload=reference.workload,
                from_node=self._node_of(row),
                fate=fate,
                landings=landings,
                because=because,
            )
        )

    def _node_of(self, row: PodRow) -> str:
        node = int(self.prepared.pods.node[row])
        return self.prepared.inputs.snapshot.nodes.names[node] if node >= 0 else ""
