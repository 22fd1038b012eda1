"""Room that is kept for nominated pods.

A pod that preempted others waits until they are gone; meanwhile ``status.nominatedNodeName`` says where room
is kept for it. A pod of the same priority or a lower one passes a node only if it passes both beside the pods
nominated there and without them. Scores ignore them.

    node a has 1 core free, and a nominated pod of priority 10 that requests 1 core
    a pod of priority 20 that requests 1 core     passes: it does not yield
    a pod of priority 10 that requests 1 core     is rejected: Insufficient cpu

Source: kubernetes v1.35.4 pkg/scheduler/framework/runtime/framework.go:1145.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalancer.cluster.arrays import BoolArray
from rebalancer.scheduling.state.cluster_state import ClusterState

NO_POD = -1


def rejected_beside_nominated(
    state: ClusterState,
    class_index: int,
    pod: int,
    among: BoolArray,
    reject: Callable[[ClusterState, int], str],
) -> dict[int, str]:
    """Why a pod does not pass beside the pods nominated to a node, by node; those it passes are absent.

    ``pod`` is its number, ``NO_POD`` for one that the state does not have; ``among`` (nodes,) are the nodes
    to look at; ``reject`` gives the reason of the first filter that rejects a node on a state, or nothing.
    """
    priority = state.classes[class_index].priority
    by_node: dict[int, list[int]] = {}
    for other, node in state.nominated.items():
        if other != pod and among[node] and state.classes[state.pod_class[other]].priority >= priority:
            by_node.setdefault(node, []).append(other)
    reasons = {node: reject(state.with_nominated(pods, node), node) for node, pods in by_node.items()}
    return {node: reason for node, reason in reasons.items() if reason}
