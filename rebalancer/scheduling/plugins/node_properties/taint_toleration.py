"""TaintToleration.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go:111, :184.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import Evidence, Normalization, Plugin, normalize_by_maximum
from rebalancer.scheduling.matching import Tolerations
from rebalancer.scheduling.state.cluster_state import SOFT_TAINT, ClusterState
from rebalancer.scheduling.versions.rules import NAMED_TAINT, OLD_TAINT_REASON

HARD_EFFECTS = ("NoSchedule", "NoExecute")


def untolerated_taints(state: ClusterState, pod_class: int) -> BoolArray:
    """(taints,) which of the distinct taints of all nodes the pods of a class do not tolerate."""
    nodes = state.nodes
    spec = state.classes[pod_class].spec
    given = tuple(spec.tolerations or ())

    def compute() -> BoolArray:
        tolerations = Tolerations(given)
        return np.array([not tolerations.tolerate(taint) for taint in nodes.taints], np.bool_)

    # Most classes have tolerations that others have too, and long ones are hashed once a class.
    def of_class() -> BoolArray:
        return nodes.cached(untolerated_taints, given, compute)

    return state.classes.cached(pod_class, untolerated_taints, "", of_class)


def untolerated_hard_taints(state: ClusterState, pod_class: int) -> BoolArray:
    """(nodes,) carries a NoSchedule or NoExecute taint that the pods of a class do not tolerate."""
    nodes = state.nodes
    untolerated = untolerated_taints(state, pod_class)

    def compute() -> BoolArray:
        hard = np.array([taint.effect in HARD_EFFECTS for taint in nodes.taints], np.bool_)
        carries: BoolArray = nodes.taint_counts @ (untolerated & hard).astype(np.int64) > 0
        return carries

    return nodes.cached(untolerated_hard_taints, untolerated.tobytes(), compute)


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
        rejected = untolerated_hard_taints(state, pod_class)
        codes = rejected.astype(np.int64)
        if not state.classes.release.has(NAMED_TAINT):
            return codes
        columns = state.nodes.taint_columns
        untolerated = untolerated_taints(state, pod_class)
        for row in np.flatnonzero(rejected).tolist():
            taints = state.nodes.table.records[row].spec.taints or ()
            codes[row] = next(
                columns[taint] + 1
                for taint in taints
                if taint.effect in HARD_EFFECTS and untolerated[columns[taint]]
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
        nodes = state.nodes
        soft = np.array([taint.effect == SOFT_TAINT for taint in nodes.taints], np.bool_)
        untolerated = untolerated_taints(state, pod_class) & soft
        counts: IntArray = nodes.taint_counts[feasible] @ untolerated.astype(np.int64)
        return counts

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """100 for no untolerated taint, 0 for the most."""
        return normalize_by_maximum(raw, largest, reverse=True)
