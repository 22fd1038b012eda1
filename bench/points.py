"""The points that plans are compared by, of a finished plan and of what became of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.planning.builder import PartialPlan
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.plan import Move, Plan
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.hot_nodes.drafting import POINTS_A_HOT_NODE


def points_left(prepared: PreparedInputs, found: PartialPlan, plan: Plan) -> float:
    """The points that the planner compares plans by: what is left, and what the moves cost."""
    return points_at(prepared, found.scenarios.mean_percent(), plan.moves)


def points_at(prepared: PreparedInputs, percent: FloatArray, moves: Sequence[Move]) -> float:
    """The same where these moves are made and nodes are then at (nodes, resources) percent."""
    hot = np.flatnonzero(prepared.hotness.hot)
    excess = float(prepared.hotness.excess(hot, percent[hot]).sum())
    times_hot = prepared.hotness.times_hot(hot, percent[hot])
    rows = [PodRow(prepared.pods.row[move.pod.namespace, move.pod.name]) for move in moves]
    costs = Disruption(prepared.inputs, prepared.eviction.workloads).costs(rows)
    of_moves = prepared.policy.planning.level.least_relief * (len(rows) + float(costs.sum()))
    return float(excess + POINTS_A_HOT_NODE * times_hot + of_moves)
