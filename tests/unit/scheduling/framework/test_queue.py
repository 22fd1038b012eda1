"""Waiting pods are placed in the order of PrioritySort."""

from __future__ import annotations

from rebalancer.scheduling.framework.queue import queue_order
from tests.builders import a_node, a_pod, a_snapshot


def test_the_queue_is_by_priority_then_age_without_gated_pods() -> None:
    pods = [
        a_pod("young", created="2026-01-01T00:00:09Z"),
        a_pod("old", created="2026-01-01T00:00:01Z"),
        a_pod("urgent", priority=5, created="2026-01-01T00:00:10Z"),
        a_pod("gated", priority=9, schedulingGates=[{"name": "quota"}]),
    ]
    snapshot = a_snapshot(nodes=[a_node("n")], pods=pods)
    order = queue_order(snapshot.pods, range(len(snapshot.pods)))
    assert [snapshot.pods.names[row] for row in order] == ["urgent", "old", "young"]
