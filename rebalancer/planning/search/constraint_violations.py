"""Pods that the scheduler's own filters would no longer admit to the node they run on.

Labels, taints, affinity, spread and ports; not room, which a pod that runs has already, and neither cordons
nor taints of ``node.kubernetes.io/``: this is no hidden drain.
"""

from __future__ import annotations

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.schedulers import Model
from rebalancer.scheduling import ClusterState, tolerates_any

_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_OF_THE_NODE = "node.kubernetes.io/"
_STATIC = frozenset({"NodeAffinity", "NodeName"})


class ConstraintViolations:
    """Looks at pods one by one; what depends on class and nodes alone is computed once."""

    def __init__(self, inputs: PlanningInputs, model: Model) -> None:
        self._pods = inputs.snapshot.pods
        self._nodes = inputs.snapshot.nodes
        self._model = model
        self.looked_at = 0  # pods for which filters were computed anew

    def because(self, row: int, state: ClusterState) -> str:
        """Which filter would reject a pod's own node, were the pod not there; empty when none does.

        ``state`` is left as it was. Raises nothing: of a pod that no profile places there is nothing to say.
        """
        node = int(self._pods.node[row])
        pod = self._pods.class_of(row)
        scheduler = self._model.schedulers.get(pod.scheduler_name)
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

    def _untolerated(self, row: int, node: int) -> str:
        tolerations = self._pods.class_of(row).spec.tolerations
        for taint in self._nodes.records[node].spec.taints or ():
            if taint.effect not in _HARD_EFFECTS or taint.key.startswith(_OF_THE_NODE):
                continue
            if not tolerates_any(tolerations, taint):
                return f"TaintToleration: it does not tolerate taint {taint.key}"
        return ""

    def _dynamic(self, row: int) -> frozenset[str]:
        """The filters that depend on other pods and may have something to say of this one."""
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
