"""The points that plans are compared by, of a finished plan."""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.builder import PartialPlan
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.plan import Plan
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.hot_nodes.drafts import POINTS_A_HOT_NODE


def points_left(prepared: PreparedInputs, found: PartialPlan, plan: Plan) -> float:
    """The points that the planner compares plans by: what is left, and what the moves cost."""
    benefit = plan.benefit
    assert benefit is not None
    rows = [PodRow(prepared.pods.row[move.pod.namespace, move.pod.name]) for move in plan.moves]
    costs = Disruption(prepared.inputs, prepared.eviction.workloads).costs(rows)
    hot = np.flatnonzero(prepared.hotness.hot)
    times_hot = prepared.hotness.times_hot(hot, found.scenarios.mean_percent()[hot])
    of_moves = prepared.policy.planning.level.least_relief * (len(rows) + float(costs.sum()))
    return float(benefit.excess.after + POINTS_A_HOT_NODE * times_hot + of_moves)
