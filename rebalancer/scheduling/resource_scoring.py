"""What the two resource scores compare: requested with the pod on the node, and allocatable."""

from __future__ import annotations

from rebalancer.cluster.nodes import CPU, MEMORY, IntArray
from rebalancer.scheduling.requests import is_scalar
from rebalancer.scheduling.state import ClusterState

_WITH_DEFAULTS = {"cpu": CPU, "memory": MEMORY}


def scored_amounts(
    state: ClusterState, class_index: int, feasible: IntArray, resource: str
) -> tuple[IntArray, IntArray] | None:
    """(feasible,) requested with the pod, defaults included, and allocatable; None when it does not count.

    A scalar the pod does not request is not counted (scoring-model.md §4 NodeResourcesFit).
    """
    column = state.facts.column.get(resource)
    own = state.facts.requests[class_index].incoming_scored.get(resource, 0)
    if column is None or (is_scalar(resource) and own == 0):
        return None
    allocatable = state.facts.allocatable[feasible, column]
    if resource in _WITH_DEFAULTS:
        return state.scored[feasible, _WITH_DEFAULTS[resource]] + own, allocatable
    return state.requested[feasible, column] + own, allocatable


def plain_amounts(
    state: ClusterState, class_index: int, feasible: IntArray, resource: str
) -> tuple[IntArray, IntArray] | None:
    """As ``scored_amounts`` without defaults, pod-level requests honoured."""
    column = state.facts.column.get(resource)
    own = state.facts.requests[class_index].incoming.get(resource, 0)
    if column is None or (is_scalar(resource) and own == 0):
        return None
    return state.requested[feasible, column] + own, state.facts.allocatable[feasible, column]
