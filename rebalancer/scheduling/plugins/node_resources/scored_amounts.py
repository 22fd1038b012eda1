"""What the two resource scores compare: requested with the pod on the node, and allocatable."""

from __future__ import annotations

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.columns.nodes import CPU, MEMORY
from rebalancer.scheduling.resources.requests import is_scalar
from rebalancer.scheduling.state.cluster_state import ClusterState, Rows

_WITH_DEFAULTS = {"cpu": CPU, "memory": MEMORY}


def scored_amounts(
    state: ClusterState, class_index: int, rows: Rows, resource: str
) -> tuple[IntArray, IntArray] | None:
    """(rows,) requested with the pod, defaults included, and allocatable; None when it does not count.

    A scalar the pod does not request is not counted (noderesources/resource_allocation.go).
    """
    column = state.classes.column.get(resource)
    own = state.classes.requests[class_index].incoming_scored.get(resource, 0)
    if column is None or (is_scalar(resource) and own == 0):
        return None
    allocatable = state.classes.allocatable[rows, column]
    if resource in _WITH_DEFAULTS:
        return state.scored[rows, _WITH_DEFAULTS[resource]] + own, allocatable
    return state.requested[rows, column] + own, allocatable


def plain_amounts(
    state: ClusterState, class_index: int, rows: Rows, resource: str
) -> tuple[IntArray, IntArray] | None:
    """As ``scored_amounts`` without defaults, pod-level requests honoured."""
    column = state.classes.column.get(resource)
    own = state.classes.requests[class_index].incoming.get(resource, 0)
    if column is None or (is_scalar(resource) and own == 0):
        return None
    return state.requested[rows, column] + own, state.classes.allocatable[rows, column]
