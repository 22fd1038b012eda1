"""The order in which waiting pods are placed.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/queuesort/priority_sort.go:45.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.columns.pods import PodTable
from rebalancer.scheduling.state.cluster_state import UNBOUND, ClusterState


def enters_queue(pod: PodClass) -> bool:
    """Whether the pod is queued at all: a pod with a scheduling gate is not."""
    return not pod.spec.scheduling_gates


def queue_order(pods: PodTable, rows: Iterable[int]) -> list[int]:
    """PrioritySort: the higher priority first, then the earlier queued; gated pods are left out.

    The time a pod was queued is not recorded; its creation stands for it, then its name.
    """
    entering = [row for row in rows if enters_queue(pods.class_of(row))]
    return sorted(entering, key=lambda row: (-pods.class_of(row).priority, float(pods.created[row]), row))


def waiting_pods(state: ClusterState, pods: PodTable) -> list[int]:
    """Rows of the snapshot's pods that are unbound in a state and not terminating, in queue order."""
    unbound = state.node.values()[: len(pods)] == UNBOUND
    return queue_order(pods, np.flatnonzero(unbound & ~pods.terminating).tolist())
