"""NodePreferAvoidPods, until v1beta2: a node's annotation may name controllers whose pods it avoids.

Source: kubernetes v1.22 pkg/scheduler/framework/plugins/nodepreferavoidpods.
"""

from __future__ import annotations

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.records import Node, OwnerReference, Record
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState

ANNOTATION = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_CONTROLLERS = ("ReplicationController", "ReplicaSet")


class _Signature(Record, frozen=True):
    pod_controller: OwnerReference | None = None


class _Avoided(Record, frozen=True):
    pod_signature: _Signature = _Signature()


class _Annotation(Record, frozen=True):
    prefer_avoid_pods: list[_Avoided] | None = None


def _avoided(node: Node) -> frozenset[tuple[str, str]]:
    """(kind, uid) of the controllers whose pods a node avoids."""
    try:
        text = (node.metadata.annotations or {}).get(ANNOTATION, "{}")
        avoided = msgspec.json.decode(text, type=_Annotation).prefer_avoid_pods or ()
    except (ValueError, RecursionError):
        return frozenset()
    controllers = [pods.pod_signature.pod_controller for pods in avoided]
    return frozenset(
        (controller.kind, controller.uid) for controller in controllers if controller is not None
    )


class NodePreferAvoidPods(Plugin):
    """Scores 0 where a node's annotation names the pod's controller, else 100; not normalised."""

    name = "NodePreferAvoidPods"
    points = extension_points("score")
    versions = frozenset({"v1beta1", "v1beta2"})
    static = True

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """Only ReplicationControllers and ReplicaSets can be named."""
        owner = state.classes[pod_class].owner
        scores = np.full(len(state.nodes), MAX_SCORE, np.int64)
        if owner.kind in _CONTROLLERS:
            for row, node in enumerate(state.nodes.table.records):
                if (owner.kind, owner.uid) in _avoided(node):
                    scores[row] = 0
        return scores[feasible]
