"""TaintToleration.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go:111, :184.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.records import PodSpec
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import Evidence, Normalization, Plugin, normalize_by_maximum
from rebalancer.scheduling.matching import tolerates_any
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.rules import NAMED_TAINT, OLD_TAINT_REASON

HARD_EFFECTS = ("NoSchedule", "NoExecute")
_SOFT = "PreferNoSchedule"


def untolerated_hard_taints(state: ClusterState, spec: PodSpec) -> BoolArray:
    """(nodes,) carries a NoSchedule or NoExecute taint that the pod does not tolerate."""
    nodes = state.nodes
    tolerations = tuple(spec.tolerations or ())

    def compute() -> BoolArray:
        untolerated = [
            taint.effect in HARD_EFFECTS and not tolerates_any(tolerations, taint) for taint in nodes.taints
        ]
        carries: BoolArray = nodes.taint_counts @ np.array(untolerated, np.int64) > 0
        return carries

    return nodes.cached(untolerated_hard_taints, tolerations, compute)


class TaintToleration(Plugin):
    """Every NoSchedule and NoExecute taint must be tolerated; the fewer untolerated soft ones, the better."""

    name = "TaintToleration"
    needs_pre_score = True
    points = extension_points("filter preScore score")
    evidence = Evidence.DECISIONS
    normalization = Normalization.MAXIMUM
    static = True

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 where a hard taint is not tolerated; more where the reason names the taint."""
        spec = state.classes[pod_class].spec
        rejected = untolerated_hard_taints(state, spec)
        codes = rejected.astype(np.int64)
        if not state.classes.release.has(NAMED_TAINT):
            return codes
        number = {taint: index for index, taint in enumerate(state.nodes.taints, start=1)}
        for row in np.flatnonzero(rejected).tolist():
            taints = state.nodes.table.records[row].spec.taints or ()
            codes[row] = next(
                number[taint]
                for taint in taints
                if taint.effect in HARD_EFFECTS and not tolerates_any(spec.tolerations, taint)
            )
        return codes

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        if state.classes.release.has(NAMED_TAINT):
            taint = state.nodes.taints[code - 1]
            if state.classes.release.has(OLD_TAINT_REASON):
                return f"node(s) had taint {{{taint.key}: {taint.value}}}, that the pod didn't tolerate"
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return "node(s) had untolerated taint(s)"

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """How many PreferNoSchedule taints the tolerations for that effect do not cover."""
        tolerations = [
            item for item in state.classes[pod_class].spec.tolerations or () if item.effect in ("", _SOFT)
        ]
        nodes = state.nodes
        untolerated = np.array(
            [taint.effect == _SOFT and not tolerates_any(tolerations, taint) for taint in nodes.taints],
            np.int64,
        )
        counts: IntArray = nodes.taint_counts[feasible] @ untolerated
        return counts

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """100 for no untolerated taint, 0 for the most."""
        return normalize_by_maximum(raw, largest, reverse=True)
