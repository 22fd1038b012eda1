"""What a plan gains and costs, in a few figures that can be followed from run to run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.plan import Benefit, Change
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.rounding import PERCENT_DIGITS
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.search.strategy import SearchResult


def benefit_of(prepared: PreparedInputs, found: SearchResult) -> Benefit:
    """The plan's benefit beside its cost.

    Both sides include the Pending pods where they will be placed, so that they differ by the moves alone.
    """
    hotness, allocatable = prepared.hotness, prepared.inputs.load.allocatable
    before = percent_of_allocatable(prepared.usage, np.array(prepared.state.pod_count), allocatable)
    after = found.scenarios.mean_percent(allocatable)
    hot = np.flatnonzero(hotness.hot)
    excess = [_excess(prepared, level) for level in (before, after)]
    still_hot = [int(np.count_nonzero(hotness.hot_at(hot, level[hot]))) for level in (before, after)]
    rows = [move.evaluation.candidate.row for move in found.moves]
    cost = len(rows) + float(Disruption(prepared.inputs, prepared.eviction.workloads).costs(rows).sum())
    return Benefit(
        hot_nodes=Change(before=still_hot[0], after=still_hot[1]),
        excess=_change(*excess),
        peak=_by_resource(hotness.names, before, after, np.max),
        deviation=_by_resource(hotness.names, before, after, np.std),
        pods_moved=len(rows),
        pods=int(np.count_nonzero(prepared.pods.node >= 0)),
        cost=round(cost, PERCENT_DIGITS),
        score=round((excess[0] - excess[1]) / cost, PERCENT_DIGITS) if rows else 0.0,
    )


def _excess(prepared: PreparedInputs, percent: FloatArray) -> float:
    """Points above coolTo, over hot nodes and the resources in which they are hot."""
    rows = np.flatnonzero(prepared.hotness.hot).tolist()
    return float(sum(float(prepared.hotness.excess(row, percent[row]).sum()) for row in rows))


def _change(before: float, after: float) -> Change:
    return Change(before=round(before, PERCENT_DIGITS), after=round(after, PERCENT_DIGITS))


def _by_resource(
    names: tuple[str, ...], before: FloatArray, after: FloatArray, figure: Callable[[FloatArray], float]
) -> dict[str, Change]:
    """A figure over (nodes, resources) percentages, of the nodes at which a resource is known."""
    found: dict[str, Change] = {}
    for column, name in enumerate(names):
        known = np.isfinite(before[:, column]) & np.isfinite(after[:, column])
        if known.any():
            found[name] = _change(*(float(figure(level[known, column])) for level in (before, after)))
    return found
