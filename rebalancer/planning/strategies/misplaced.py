"""The strategy that moves pods which the scheduler's filters would no longer admit to the node they run on.

Only labels, taints, affinity, topology spread and host ports count. Room does not, because a running pod has
it already; neither do cordons and the policy's ``excludedTaints``, because this strategy must not drain
nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from rebalancer.cluster.leaving_nodes import CONDITION_TAINTS, LEAVING_TAINTS, matches_taint
from rebalancer.planning.steering import EMPTIED
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel, Unique

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import PodRow
    from rebalancer.planning.builder import PlanBuilder, PlannedMove
    from rebalancer.planning.landing.landing_check import Purpose
    from rebalancer.planning.prepared import PreparedInputs

_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_DIFFERENCE = (
    "moves pods whose {} the scheduler's filters no longer allow, and the other kinds of misplaced pods too; "
    "only where the replacement lands well"
)
_STATIC = frozenset({"NodeAffinity", "NodeName"})
_TaintPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]+(/\*)?(=[A-Za-z0-9._-]*)?$", max_length=400)]


class MisplacedSettings(PolicyModel):
    """Which pods count as misplaced."""

    excluded_taints: Annotated[tuple[_TaintPattern, ...], Unique] = Field(
        default=(*LEAVING_TAINTS, *CONDITION_TAINTS),
        description="Taints that make no pod misplaced: key, key=value or prefix/*. By default the taints of "
        "nodes that are about to be removed, and those that Kubernetes sets for the condition of a node.",
    )


class Misplaced(Strategy):
    """Finds violations pod by pod, in order of node and name."""

    name = "misplaced"
    description = (
        "Move pods that the scheduler would no longer place on their node because of labels, "
        "taints, affinity, spread or ports: true, false, or its settings. Cordons are ignored. Pods of nodes "
        "that are about to be removed are left to whoever removes them."
    )
    settings_type = MisplacedSettings
    settings: MisplacedSettings
    minds_nodes = True
    replaces = {
        plugin: Replaced(difference=_DIFFERENCE.format(kind))
        for plugin, kind in (
            ("RemovePodsViolatingNodeTaints", "node taints"),
            ("RemovePodsViolatingNodeAffinity", "node affinity"),
            ("RemovePodsViolatingInterPodAntiAffinity", "anti-affinity between pods"),
        )
    }

    def __init__(self, prepared: PreparedInputs, settings: PolicyModel) -> None:
        from rebalancer.scheduling.matching import tolerates_any  # noqa: PLC0415 - imports numpy

        super().__init__(prepared, settings)
        self._tolerates_any = tolerates_any
        self._looked_at = 0  # pods for which filters were computed anew

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """The filter that would reject its own node if the pod were not there; empty when none would."""
        if self._looked_at >= self.prepared.policy.planning.max_placements:
            return ""
        node, own = int(self.prepared.pods.node[pod]), self.prepared.pods.class_of(pod)
        scheduler = self.prepared.schedulers.by_name.get(own.scheduler_name)
        if node < 0 or scheduler is None:
            return ""
        taint = self._untolerated(pod, node)
        if taint:
            return taint
        state = plan.scenarios.all[0].after_termination
        pod_class = int(self.prepared.pods.pod_class[pod])
        rejection = scheduler.rejection_at(state, pod_class, node, _STATIC)
        dynamic = self._dynamic(pod)
        if rejection or not dynamic:
            return rejection
        self._looked_at += 1
        state.remove(pod)
        try:
            return scheduler.rejection_at(state, pod_class, node, dynamic)
        finally:
            state.restore(pod, node)

    def _untolerated(self, pod: PodRow, node: int) -> str:
        tolerations = self.prepared.pods.class_of(pod).spec.tolerations
        for taint in self.prepared.inputs.snapshot.nodes.records[node].spec.taints or ():
            ignored = (*self.settings.excluded_taints, EMPTIED.key)
            if taint.effect not in _HARD_EFFECTS or matches_taint(taint, ignored):
                continue
            if not self._tolerates_any(tolerations, taint):
                return f"TaintToleration: it does not tolerate taint {taint.key}"
        return ""

    def _dynamic(self, pod: PodRow) -> frozenset[str]:
        """The filters that depend on other pods and may reject this one."""
        spec = self.prepared.pods.class_of(pod).spec
        names: set[str] = set()
        affinity = spec.affinity
        if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
            names.add("InterPodAffinity")
        if any(item.when_unsatisfiable == "DoNotSchedule" for item in spec.topology_spread_constraints or ()):
            names.add("PodTopologySpread")
        if any(port.host_port for item in spec.containers or () for port in item.ports or ()):
            names.add("NodePorts")
        return frozenset(names)

    @property
    def purpose(self) -> Purpose:
        """Filters admit the pod wherever it lands; where its node is too busy, the landing must be cooler."""
        return self.prepared.cooler_node

    def sentence(self, move: PlannedMove) -> str:
        """Which filter it is."""
        node = self.prepared.inputs.snapshot.nodes.names[move.candidate.source]
        return f"{node} would not admit it any more ({move.candidate.wish.message})"
