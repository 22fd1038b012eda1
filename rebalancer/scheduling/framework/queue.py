"""The scheduler's queue: the order in which Pending pods are placed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rebalancer.cluster.pods import PodTable
from rebalancer.scheduling.state.cluster_state import UNBOUND, ClusterState


def queue_order(pods: PodTable, rows: Iterable[int]) -> list[int]:
    """PrioritySort: higher priority first, then the earlier queued; pods with scheduling gates are left out.

    The cluster does not record when a pod was queued. Its creation stands for that, then its row, which
    follows its name.
    Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/queuesort/priority_sort.go:45.
    """
    queued = [row for row in rows if not pods.class_of(row).spec.scheduling_gates]
    return sorted(queued, key=lambda row: (-pods.class_of(row).priority, float(pods.created[row]), row))


def waiting_pods(state: ClusterState, pods: PodTable) -> list[int]:
    """Rows of the snapshot's pods that are unbound in a state and not terminating, in queue order."""
    unbound = state.node.values()[: len(pods)] == UNBOUND
    return queue_order(pods, np.flatnonzero(unbound & ~pods.terminating).tolist())
