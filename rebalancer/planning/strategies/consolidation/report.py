"""What emptying nodes gains: how many, at what cost, and what fits on the others then."""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.planning.builder import PartialPlan
from rebalancer.planning.plan import StrategyReport
from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty

_UNITS = np.array([1000.0, 2.0**30])  # thousandths of a core in a core, bytes in a GiB


def report_of(nodes: NodesToEmpty, plan: PartialPlan, strategy: str, left_alone: str) -> StrategyReport:
    """The figures, and the sentence that says them, and what is left alone."""
    moves = [move for move in plan.moves if move.candidate.wish.strategy == strategy]
    emptied, state = sorted({int(move.candidate.source) for move in moves}), nodes.prepared.state
    room = np.maximum(state.classes.allocatable[:, :2], 1).astype(np.float64)
    used = nodes.count > 0
    still = used.copy()
    still[emptied] = False
    before = _filled(state.requested[:, :2], room, used)
    after = _filled(plan.scenarios.likeliest.after_termination.requested[:, :2], room, still)
    count = int(used.sum())
    most = max(count - least_nodes(state.requested[:, :2].sum(axis=0), room[used]), 0)
    figures = {
        "emptied": len(emptied),
        "inUse": count,
        "emptyBefore": len(nodes.empty),
        "mostByResources": most,
        "saving": float(nodes.savings[emptied].sum()),
        "evictionsPerNode": len(moves) / max(len(emptied), 1),
    }
    for when, values in (("Before", before), ("After", after)):
        for name, value in zip(("requestedCpu", "requestedMemory"), values[:2], strict=True):
            figures[name + when] = value
        figures |= {f"largestPodCores{when}": values[2], f"largestPodGib{when}": values[3]}
    message = f"none of {count} nodes in use can be emptied now, {most} at most by requests"
    if emptied:
        message = (
            f"{len(emptied)} of {count} nodes in use emptied ({most} at most by requests), "
            f"{figures['evictionsPerNode']:.1f} evictions each; requested of nodes in use: "
            f"{before[0]:.0f} → {after[0]:.0f} % cpu, {before[1]:.0f} → {after[1]:.0f} % memory; largest pod "
            f"that fits: {before[2]:.1f} → {after[2]:.1f} cores and {before[3]:.1f} → {after[3]:.1f} GiB"
        )
    per_node = nodes.prepared.policy.limits.per_node
    large = int(np.count_nonzero(nodes.count > per_node))
    limit = f"perNode {per_node} keeps {large} with more pods" if large else ""
    said = "; ".join(filter(None, (message, plan.notes.get(strategy, ""), limit, left_alone)))
    return StrategyReport(len(moves), said, {key: round(float(value), 2) for key, value in figures.items()})


def _filled(requested: IntArray, room: FloatArray, used: BoolArray) -> list[float]:
    """Percent of the cpu and memory of nodes in use that is requested; cores and GiB of the largest pod.

    That is the one that fits on some node, as large in both as the nodes allow.
    """
    share = 100.0 * requested[used].sum(axis=0) / np.maximum(room[used].sum(axis=0), 1.0)
    free = np.maximum(room - requested, 0.0)
    best = int(np.argmax((free / room.max(axis=0)).min(axis=1)))
    return [*share.tolist(), *(free[best] / _UNITS).tolist()]


def least_nodes(requested: IntArray, room: FloatArray) -> int:
    """How many nodes hold all that is requested at least, the largest first: no plan needs fewer."""
    largest = np.cumsum(-np.sort(-room, axis=0), axis=0)
    needed = [int(np.searchsorted(largest[:, at], requested[at])) + (requested[at] > 0) for at in (0, 1)]
    return int(min(max(needed), len(room)))
