"""What a plan would gain if the limits that stop it were higher, so that the policy can be judged by it.

The search goes on from the finished plan with those limits lifted that together keep pods where they are, in
one scenario only and with few placements: an estimate, and never part of the plan. Where leastRelief keeps
pods, it goes on with the values of the bolder positions of the dial.

    perRun 20 is reached and 20 of 76 hot nodes are cool; without it the search would make 70 moves:
    "with perRun 70 this plan would bring 65 of 76 hot nodes to coolTo, not 20"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.search.node_pods import NodePods, relief_of
from rebalancer.planning.search.plan_builder import PlanBuilder
from rebalancer.planning.search.relief import removed
from rebalancer.planning.search.relief_search import Order, ReliefSearch
from rebalancer.policy import Amount, Limits
from rebalancer.policy.planning_settings import LEVELS

_CELLS = 500_000  # placements times nodes that the estimate of one limit may take
_MAX_PLACEMENTS = 1000
_UNLIMITED = 1 << 30
_MAX_ESTIMATES = 2
_WORTH_NAMING = 1.0  # points of excess; less is no reason to change a policy
_LIFTED: Mapping[str, object] = {
    "per_run": _UNLIMITED,
    "per_node": _UNLIMITED,
    "per_namespace": _UNLIMITED,
    "per_workload": Amount(_UNLIMITED),
}


@dataclass(frozen=True, slots=True)
class _Estimate:
    excess: float
    cool: int  # hot nodes at or below their coolTo
    words: str  # perRun 70


class RaisedLimits:
    """Goes on from a finished plan without one of its limits."""

    def __init__(
        self,
        prepared: PreparedInputs,
        disruption: Disruption,
        candidates: Mapping[NodeRow, Sequence[Candidate]],
        order: Order,
    ) -> None:
        self._prepared = prepared
        self._disruption = disruption
        self._candidates = candidates
        self._order = order

    def sentence(self, builder: PlanBuilder, kept: Mapping[PodRow, KeptReason]) -> str:
        """What the most useful of the binding limits would give; empty when none binds or helps.

        ``kept`` is why the pods that the plan does not move stay.
        """
        now = self._estimate(builder, "")
        found = [self._without(builder, names) for names in self._binding(builder)]
        found += self._bolder(builder, kept, now)
        best = min(found, key=lambda item: (round(item.excess, 6), -item.cool, item.words), default=now)
        if best.cool > now.cool:
            gain = f"bring {best.cool} of {len(self._candidates)} hot nodes to coolTo, not {now.cool}"
        elif best.excess < now.excess - _WORTH_NAMING:
            gain = f"leave {best.excess:.1f} points of excess, not {now.excess:.1f}"
        else:
            return ""
        return f"with {best.words} this plan would {gain}"

    def _binding(self, builder: PlanBuilder) -> list[tuple[str, ...]]:
        """The limits that together keep pods of nodes above their coolTo, those that keep most first."""
        moved = {move.evaluation.candidate.row for move in builder.moves}
        kept: Counter[tuple[str, ...]] = Counter()
        for node, candidates in self._candidates.items():
            if self._excess(builder, node):
                kept.update(builder.limits_reached(item) for item in candidates if item.row not in moved)
        del kept[()]
        return sorted(kept, key=lambda names: (-kept[names], names))[:_MAX_ESTIMATES]

    def _without(self, builder: PlanBuilder, names: tuple[str, ...]) -> _Estimate:
        limits = self._prepared.policy.limits
        further = self._further(builder, limits.model_copy(update={name: _LIFTED[name] for name in names}))
        words = [f"{Limits.model_fields[name].alias} {further.used.most_used(name)}" for name in names]
        return self._estimate(further, " and ".join(words))

    def _bolder(
        self, builder: PlanBuilder, kept: Mapping[PodRow, KeptReason], now: _Estimate
    ) -> list[_Estimate]:
        """The next lower leastRelief of the dial that helps, where leastRelief keeps any pod."""
        policy = self._prepared.policy
        if not any(item.reason is Reason.LITTLE_RELIEF for item in kept.values()):
            return []
        lower = {level.least_relief for level in LEVELS.values()}
        for asked in sorted((item for item in lower if item < policy.planning.least_relief), reverse=True):
            further = self._further(builder, policy.limits, asked)
            found = self._estimate(further, f"leastRelief {asked:g}{self._points(builder, further)}")
            if found.cool > now.cool or found.excess < now.excess - _WORTH_NAMING:
                return [found]
        return []

    def _points(self, builder: PlanBuilder, further: PlanBuilder) -> str:
        """How much each of the further moves would remove, in words."""
        points: list[float] = []
        for move in further.moves[len(builder.moves) :]:
            candidate = move.evaluation.candidate
            relief = relief_of([candidate], self._prepared.inputs.load.allocatable[candidate.source])
            excess = self._prepared.hotness.excess(candidate.source, move.before)
            points.append(float(removed(np.nan_to_num(relief), excess)[0]))
        if not points:
            return ""
        least, most = f"{min(points):.2g}", f"{max(points):.2g}"
        each = least if least == most else f"{least} to {most}"
        amount = f"{each} {'point' if each == '1' else 'points'}"
        if len(points) == 1:
            return f" and 1 further move of {amount}"
        return f" and {len(points)} further moves of {amount} each"

    def _further(self, builder: PlanBuilder, limits: Limits, asked: float | None = None) -> PlanBuilder:
        """The plan gone on with under other limits, or with another leastRelief."""
        prepared = self._prepared
        placements = min(_CELLS // max(len(prepared.hotness.hot), 1), _MAX_PLACEMENTS)
        further = builder.estimating(limits, placements)
        moved = {move.evaluation.candidate.row for move in builder.moves}
        pods = {
            node: NodePods(prepared, self._disruption, node, items, moved=moved, asked=asked)
            for node, items in self._candidates.items()
        }
        ReliefSearch(prepared, further, pods, self._order).run()
        return further

    def _estimate(self, builder: PlanBuilder, words: str) -> _Estimate:
        left = [self._excess(builder, node) for node in self._candidates]
        return _Estimate(sum(left), sum(1 for points in left if not points), words)

    def _excess(self, builder: PlanBuilder, node: NodeRow) -> float:
        return float(self._prepared.hotness.excess(node, builder.expected_percent(node)).sum())
