"""The strategy that relieves hot nodes: hottest first, then once more with those first that came too late.

Which node goes first matters, because what it moves takes room and limits from the others. So up to three
orders are tried, each from the same start, and the best one counts: the fewest nodes left above their coolTo,
then the fewest moves.

    first order   n1, n2, n3: n3 stays hot, because a pod of n1 took the only room for it on n9
    second order  n3, n1, n2: n3 moves its pod to n9, n1 uses n8; no node stays hot, so this one counts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.search.covering_sets import fewest
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.search.node_relief import BOUNDS, NodeRelief, relief_of
from rebalancer.planning.search.plan_builder import PlanBuilder
from rebalancer.planning.search.strategy import PartialPlan

_MAX_ORDERS = 3
# Reasons that may be due to the order: another node went first and took the room.
_DEPENDS_ON_ORDER = frozenset({Reason.NO_BETTER_LANDING, Reason.CANNOT_COOL})

Candidates = Mapping[NodeRow, list[Candidate]]
Kept = dict[PodRow, KeptReason]


class HotNodeRelief:
    """Moves pods off hot nodes until each is at its coolTo, as far as landings and limits allow."""

    def __init__(self, prepared: PreparedInputs) -> None:
        self._prepared = prepared
        self._hotness = prepared.hotness
        self._disruption = Disruption(prepared.inputs, prepared.eviction.workloads)

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """Relieve hot nodes, hottest first; retry with other orders while one may do better."""
        order = self._hottest_first()
        candidates, protected = self._candidates(order)
        best: tuple[tuple[int, int], PartialPlan] | None = None
        for _ in range(_MAX_ORDERS):
            builder = so_far.builder.copy()
            stays = self._relieve_all(order, candidates, builder)
            uncooled, strained = self._strained(order, candidates, builder, stays)
            result = (uncooled, len(builder.moves))
            if best is None or result < best[0]:
                best = result, PartialPlan(builder, {**so_far.kept, **protected, **stays})
            bounded = any(kept.reason in BOUNDS for kept in stays.values())
            if not strained or order[: len(strained)] == strained or bounded:
                break
            order = [*strained, *(node for node in order if node not in strained)]
        assert best is not None
        return best[1]

    def _relieve_all(self, order: Sequence[NodeRow], candidates: Candidates, builder: PlanBuilder) -> Kept:
        """Add moves to a builder; returns why the other candidates stay.

        Relieving one node can free room that another was waiting for, so passes repeat until one adds no
        move.
        """
        left = {node: candidates[node] for node in order}
        stays: dict[NodeRow, Kept] = {}
        moves = -1
        while len(builder.moves) > moves:
            moves = len(builder.moves)
            for node in order:
                stays[node] = NodeRelief(self._prepared, builder, self._disruption, node).relieve(left[node])
                left[node] = [candidate for candidate in left[node] if candidate.row in stays[node]]
        return {row: kept for of_node in stays.values() for row, kept in of_node.items()}

    def _strained(
        self,
        order: Sequence[NodeRow],
        candidates: Candidates,
        builder: PlanBuilder,
        stays: Mapping[PodRow, KeptReason],
    ) -> tuple[int, list[NodeRow]]:
        """How many nodes stay above their coolTo, and which might do better if they came first."""
        moves = Counter(move.evaluation.candidate.source for move in builder.moves)
        uncooled, strained = 0, []
        for node in order:
            cool = self._hotness.is_cool(node, builder.expected_percent(node))
            uncooled += not cool
            reasons = {stays[item.row].reason for item in candidates[node] if item.row in stays}
            wasteful = cool and moves[node] > self._fewest(node, candidates[node])
            if wasteful or (not cool and reasons & _DEPENDS_ON_ORDER):
                strained.append(node)
        return uncooled, strained

    def _fewest(self, node: NodeRow, candidates: Sequence[Candidate]) -> int:
        """A lower bound of the pods that must leave for a node to cool, wherever they land."""
        load = self._prepared.inputs.load
        relief = relief_of(candidates, load.allocatable[node]) if candidates else np.zeros((0, 0))
        need = load.percent[node] - self._hotness.cool_to[node]
        return fewest(relief, np.maximum(np.nan_to_num(need, nan=0.0, neginf=0.0), 0.0))

    def _hottest_first(self) -> list[NodeRow]:
        inputs = self._prepared.inputs
        excess = np.nan_to_num(inputs.load.percent - self._hotness.cool_to, nan=-np.inf).max(axis=1)
        names = inputs.snapshot.nodes.names
        hot = [NodeRow(node) for node in np.flatnonzero(self._hotness.hot).tolist()]
        return sorted(hot, key=lambda node: (-float(excess[node]), names[node]))

    def _candidates(self, nodes: Sequence[NodeRow]) -> tuple[dict[NodeRow, list[Candidate]], Kept]:
        """The pods of each node that may be evicted, and why the others may not."""
        prepared = self._prepared
        candidates: dict[NodeRow, list[Candidate]] = {}
        protected: Kept = {}
        for node in nodes:
            blocked = self._blocked(node)
            candidates[node] = []
            for row in prepared.pods_on(node):
                refusal = why_protected(prepared.eviction, row) or blocked
                if refusal is None:
                    candidates[node].append(prepared.candidate(row))
                else:
                    protected[row] = refusal
        return candidates, protected

    def _blocked(self, node: NodeRow) -> KeptReason | None:
        """Why nothing may leave a hot node in this run; None when pods may."""
        settling = self._prepared.settling(node)
        if settling:
            return settling
        inputs = self._prepared.inputs
        state, needed = inputs.state, inputs.policy.hot_nodes.for_runs
        name, spacing = inputs.snapshot.nodes.names[node], inputs.policy.hot_nodes.run_spacing_seconds
        runs = state.hot_runs_with(name, inputs.now, spacing) if state else needed
        if runs < needed:
            return KeptReason(Reason.HOT_TOO_BRIEFLY, f"its node is hot in run {runs} of the {needed} wanted")
        return None
