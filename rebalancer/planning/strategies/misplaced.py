"""The strategy that moves pods which the scheduler's filters would no longer admit to the node they run on.

Only labels, taints, affinity, topology spread and host ports count. Room does not, because a running pod has
it already; neither do cordons and the policy's ``excludedTaints``, because this strategy must not drain
nodes.
"""

from __future__ import annotations

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.cluster.leaving_nodes import matches_taint
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import KeptReason
from rebalancer.planning.strategies.strategy import PartialPlan
from rebalancer.policy import Misplaced
from rebalancer.scheduling.matching import tolerates_any
from rebalancer.scheduling.state.cluster_state import ClusterState

_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_STATIC = frozenset({"NodeAffinity", "NodeName"})


class ConstraintViolations:
    """Finds violations pod by pod; what depends on class and nodes alone is computed once."""

    def __init__(self, prepared: PreparedInputs) -> None:
        self._pods = prepared.pods
        self._nodes = prepared.inputs.snapshot.nodes
        self._schedulers = prepared.schedulers
        settings = prepared.policy.strategies.misplaced
        self._excluded_taints = (settings or Misplaced()).excluded_taints
        self.looked_at = 0  # pods for which filters were computed anew

    def violation(self, row: PodRow, state: ClusterState) -> str:
        """The filter that would reject the pod's own node if the pod were not there; empty when none would.

        ``state`` is left as it was. Returns "" for pods whose schedulerName has no profile.
        """
        node = int(self._pods.node[row])
        pod = self._pods.class_of(row)
        scheduler = self._schedulers.by_name.get(pod.scheduler_name)
        if node < 0 or scheduler is None:
            return ""
        taint = self._untolerated(row, node)
        if taint:
            return taint
        class_index = int(self._pods.pod_class[row])
        found = scheduler.rejection_at(state, class_index, node, _STATIC)
        dynamic = self._dynamic(row)
        if found or not dynamic:
            return found
        self.looked_at += 1
        state.remove(row)
        try:
            return scheduler.rejection_at(state, class_index, node, dynamic)
        finally:
            state.restore(row, node)

    def _untolerated(self, row: PodRow, node: int) -> str:
        tolerations = self._pods.class_of(row).spec.tolerations
        for taint in self._nodes.records[node].spec.taints or ():
            if taint.effect not in _HARD_EFFECTS or matches_taint(taint, self._excluded_taints):
                continue
            if not tolerates_any(tolerations, taint):
                return f"TaintToleration: it does not tolerate taint {taint.key}"
        return ""

    def _dynamic(self, row: PodRow) -> frozenset[str]:
        """The filters that depend on other pods and may reject this one."""
        spec = self._pods.class_of(row).spec
        names: set[str] = set()
        affinity = spec.affinity
        if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
            names.add("InterPodAffinity")
        if any(item.when_unsatisfiable == "DoNotSchedule" for item in spec.topology_spread_constraints or ()):
            names.add("PodTopologySpread")
        if any(port.host_port for item in spec.containers or () for port in item.ports or ()):
            names.add("NodePorts")
        return frozenset(names)


class ConstraintViolationRemoval:
    """Moves pods whose node would no longer admit them, in order of node and name."""

    def __init__(self, prepared: PreparedInputs) -> None:
        self._prepared = prepared

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """Add a move for each violation that has an acceptable landing."""
        prepared, builder, kept = self._prepared, so_far.builder.copy(), dict(so_far.kept)
        violations = ConstraintViolations(prepared)
        moved = {move.evaluation.candidate.row for move in builder.moves}
        for node in sorted(map(NodeRow, prepared.pods.by_node)):
            for row in prepared.pods_on(node) if node >= 0 else ():
                if row in moved or violations.looked_at >= prepared.policy.planning.max_placements:
                    continue
                violation = violations.violation(row, builder.scenarios.all[0].after_termination)
                if not violation:
                    continue
                refusal = prepared.settling(node) or why_protected(prepared.eviction, row)
                found = refusal or builder.find(prepared.candidate(row))
                if isinstance(found, KeptReason):
                    kept[row] = KeptReason(found.reason, f"{found.because} (misplaced: {violation})")
                else:
                    builder.add(found, violation)
                    kept.pop(row, None)
        return PartialPlan(builder, kept, so_far.raised_limit)
