"""What moves can reach where the scheduler decides on landings.

The exact optima of ``optimum`` choose each landing themselves, among all nodes that admit the pod. Nobody
can: a pod lands where the scheduler puts it, and what it puts there first decides where the next one goes.
Here are all sequences of moves, each landing as the model predicts it and held to the policy. Where
there are more than can be followed, the best of each length are, and the result is the best that is known;
``proven`` says that nothing was left out.

It is no plan: landings hold in two courses of events and in both orders that the policy's race allows, while
a plan's hold in every scenario, wave by wave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.optimum import Relief
from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.hot_nodes.drafts import Draft, Drafts
from rebalancer.planning.strategies.hot_nodes.node_pods import NodePods

_NEGLIGIBLE = 1e-6  # points


@dataclass(frozen=True, slots=True)
class Reached:
    """The best sequences of moves by their length."""

    left: list[float]  # points of excess after no move, one, two, …: never rising
    proven: int  # up to so many moves nothing was left out

    def with_moves(self, moves: int) -> Relief:
        """The least excess with so many moves at most."""
        return Relief(moves, self.left[min(moves, len(self.left) - 1)], moves <= self.proven)

    def down_to(self, excess: float) -> Relief:
        """The fewest moves that leave so much at most; as many as there are where none do."""
        enough = [moves for moves, left in enumerate(self.left) if left <= excess + _NEGLIGIBLE]
        moves = min(enough, default=len(self.left) - 1)
        return Relief(moves, self.left[moves], moves <= self.proven)


def reached(prepared: PreparedInputs, width: int) -> Reached:
    """The best sequences of moves; of each length so many are followed further."""
    drafts = _drafts(prepared)
    level, left, proven, is_whole = [drafts.start], [drafts.start.left], 0, True
    while level:
        longer: dict[object, Draft] = {}
        for draft in level:
            gains = drafts.gains(draft)
            for at in np.flatnonzero(gains > _NEGLIGIBLE).tolist():
                item = drafts.extended(draft, at)
                if item is not None:
                    kinds = frozenset(course.kinds for course in item.courses)
                    longer.setdefault((frozenset(item.pods), kinds), item)
        is_whole &= len(longer) <= width
        level = sorted(longer.values(), key=lambda item: round(item.left, 6))[:width]
        if level:
            left.append(min(left[-1], level[0].left))
            proven += is_whole
    return Reached(left, 1 << 30 if is_whole else proven)


def _drafts(prepared: PreparedInputs) -> Drafts:
    builder = PlanBuilder(prepared)
    disruption = Disruption(prepared.inputs, prepared.eviction.workloads)
    nodes: dict[NodeRow, NodePods] = {}
    for row in np.flatnonzero(prepared.hotness.hot).tolist():
        node = NodeRow(row)
        free = [pod for pod in prepared.pods_on(node) if why_protected(prepared.eviction, pod) is None]
        nodes[node] = NodePods(prepared, disruption, node, [prepared.candidate(pod) for pod in free])
    return Drafts(prepared, builder, nodes, either_way=True)
