"""Moves pods off hot nodes, down to their coolTo, as far as landings and limits allow.

The excess is what hot nodes are above their coolTo, as ``Hotness.excess`` counts it. A resource that cannot
cool, because a protected pod holds it, does not keep the others from cooling. Plans are compared by the
excess they leave, the nodes they leave hot and what they cost, all in points; ``search`` finds the best.
"""

from __future__ import annotations

import math

import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.builder import PartialPlan
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Candidate, Wish
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.hot_nodes.limits import RaisedLimits
from rebalancer.planning.strategies.hot_nodes.movable import MovablePods
from rebalancer.planning.strategies.hot_nodes.search import ReliefSearch


def relieve(prepared: PreparedInputs, wish: Wish, so_far: PartialPlan) -> PartialPlan:
    """The plan with the moves that relieve hot nodes, and why the other pods of these nodes stay."""
    candidates: dict[NodeRow, list[Candidate]] = {}
    kept: dict[PodRow, NotMoved] = {}
    for node in map(NodeRow, np.flatnonzero(prepared.hotness.hot).tolist()):
        candidates[node] = []
        blocked = _why_none_may_leave(prepared, node)
        for row in prepared.pods_on(node):
            refusal = why_protected(prepared.eviction, row) or blocked
            if refusal is None:
                candidates[node].append(prepared.candidate(row, wish))
            else:
                kept[row] = refusal
    if not candidates:
        return so_far
    pods = MovablePods(prepared, prepared.disruption, candidates)
    found = ReliefSearch(prepared, pods, so_far.builder).best()
    kept |= {pods.candidates[at].row: why for at, why in found.kept.items()}
    raised = RaisedLimits(prepared, pods, found).sentence() if prepared.inputs.explains else ""
    notes = {**so_far.notes, wish.strategy: raised}
    return PartialPlan(found.builder, {**so_far.kept, **kept}, notes)


def _why_none_may_leave(prepared: PreparedInputs, node: NodeRow) -> NotMoved | None:
    """Why nothing may leave a hot node in this run; None when pods may."""
    settling = prepared.settling(node)
    if settling:
        return settling
    inputs = prepared.inputs
    state, needed = inputs.state, inputs.policy.hot_nodes.for_runs
    name, spacing = inputs.snapshot.nodes.names[node], inputs.policy.hot_nodes.run_spacing_seconds
    runs = state.hot_runs_with(name, inputs.now, spacing) if state else needed
    if runs < needed:
        wait = state.counts_in(inputs.now, spacing) if state else 0.0
        soonest = f"; the next run that counts: in {math.ceil(wait / 60)} min" if wait > 0 else ""
        said = f"its node is hot in run {runs} of the {needed} wanted{soonest}"
        return NotMoved(Reason.HOT_TOO_BRIEFLY, said)
    return None
