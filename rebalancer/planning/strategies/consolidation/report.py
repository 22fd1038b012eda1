"""What emptying nodes gains: how many, at what cost, and what fits on the others then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray
from rebalancer.planning.builder import PartialPlan
from rebalancer.planning.plan import StrategyReport

if TYPE_CHECKING:
    from rebalancer.planning.strategies.consolidation.nodes import Emptying

_UNITS = np.array([1000.0, 2.0**30])  # thousandths of a core in a core, bytes in a GiB


def report_of(strategy: Emptying, plan: PartialPlan) -> StrategyReport:
    """The figures, and the sentence that says them."""
    nodes, state = strategy.nodes, strategy.prepared.state
    moves = [move for move in plan.moves if move.candidate.wish.strategy == strategy.name]
    emptied = sorted({int(move.candidate.source) for move in moves})
    room = np.maximum(state.classes.allocatable[:, :2], 1).astype(np.float64)
    before, after = (
        item.requested[:, :2].astype(np.float64)
        for item in (state, plan.scenarios.likeliest.after_termination)
    )
    used = np.ones(len(room), np.bool_)
    used[list(nodes.empty)] = False
    still = used.copy()
    still[emptied] = False
    shares = _share(before, room, used), _share(after, room, still)
    fits = _largest(before, room), _largest(after, room)
    figures = {
        "emptied": len(emptied),
        "inUse": int(used.sum()),
        "emptyBefore": len(nodes.empty),
        "mostByResources": max(int(used.sum()) - _least(before, room, used), 0),
        "saving": float(nodes.savings[emptied].sum()),
        "evictionsPerNode": len(moves) / max(len(emptied), 1),
        "requestedCpuBefore": shares[0][0],
        "requestedCpuAfter": shares[1][0],
        "requestedMemoryBefore": shares[0][1],
        "requestedMemoryAfter": shares[1][1],
        "largestPodCoresBefore": fits[0][0],
        "largestPodCoresAfter": fits[1][0],
        "largestPodGibBefore": fits[0][1],
        "largestPodGibAfter": fits[1][1],
    }
    of, most = f"{figures['inUse']:.0f} nodes in use", f"{figures['mostByResources']:.0f} at most by requests"
    message = f"none of {of} can be emptied now, {most}"
    if emptied:
        message = (
            f"{len(emptied)} of {of} emptied ({most}), {figures['evictionsPerNode']:.1f} evictions each; "
            f"requested of nodes in use: {shares[0][0]:.0f} → {shares[1][0]:.0f} % cpu, "
            f"{shares[0][1]:.0f} → {shares[1][1]:.0f} % memory; largest pod that fits: "
            f"{fits[0][0]:.1f} → {fits[1][0]:.1f} cores and {fits[0][1]:.1f} → {fits[1][1]:.1f} GiB"
        )
    said = filter(None, (message, plan.notes.get(strategy.name, ""), *nodes.left_alone))
    rounded = {key: round(float(value), 2) for key, value in figures.items()}
    return StrategyReport(len(moves), "; ".join(said), rounded)


def _share(requested: FloatArray, room: FloatArray, used: BoolArray) -> list[float]:
    """Percent of the cpu and of the memory of nodes in use that is requested."""
    share = 100.0 * requested[used].sum(axis=0) / np.maximum(room[used].sum(axis=0), 1.0)
    return [float(each) for each in share]


def _largest(requested: FloatArray, room: FloatArray) -> list[float]:
    """Cores and GiB of the largest pod that fits on some node, as large in both as the nodes allow."""
    free = np.maximum(room - requested, 0.0)
    best = int(np.argmax((free / room.max(axis=0)).min(axis=1)))
    return [float(each) for each in free[best] / _UNITS]


def _least(requested: FloatArray, room: FloatArray, used: BoolArray) -> int:
    """How many nodes hold all that is requested at least, the largest first: no plan needs fewer."""
    total, largest = requested.sum(axis=0), -np.sort(-room[used], axis=0)
    needed = [int(np.searchsorted(np.cumsum(largest[:, at]), total[at])) + (total[at] > 0) for at in (0, 1)]
    return int(min(max(needed), used.sum()))
