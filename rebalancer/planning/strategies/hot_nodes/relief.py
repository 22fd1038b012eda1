"""The strategy that relieves hot nodes: it takes every move that provably reduces the excess.

The excess is what hot nodes are above their coolTo, in points, summed over the resources in which each is
hot. A resource that cannot cool, because a protected pod holds it, does not keep the others from cooling.

The search is greedy and lazy. For each hot node arithmetic alone says which of its pods to move (``relief``)
and how much excess the first of them would remove at most. The node whose first pod removes most comes first,
and only this one pod is placed. If its landing is acceptable it moves; otherwise it stays, and its node picks
again. A refused pod is tried once more when later moves may have made room for it.

    a 95 %, cool at 65 %   pods of 20, 20, 5 points: it would move 20 and 20; the first removes 20
    b 90 %, cool at 65 %   pods of 27, 10, 10 points: it would move 27, which removes 25
    b moves 27; a moves 20, and then another 20, which removes the 10 points that are left

The limit perRun only ever cuts this sequence, and so does maxPlacements: with a larger one it begins with the
same moves, and no move adds excess.

What is taken early may be in the way later. So where more could be removed, other plans are made too: one
that begins with small moves, and some that begin with the moves of the best drafts (``drafts``). All of it is
done again under tighter limits (``limits``), for a limit that is raised may lead elsewhere. The best
plan counts: the least excess, then the fewest nodes still hot, then the lowest disruption cost. Which plans
are compared does not depend on perRun, so a larger perRun never leaves more excess. How many there are is
bounded: one of the other limits that is raised leaves more excess only where the better plan was beyond that
bound. Large clusters, which have landings enough, compare none.

    extend
      _search_once                    large clusters: one plain search (``search``)
      _search_all_limits              others
        _search_with_drafts             under the policy's limits
          _search_once                    nodes that remove most first, then those that remove least
          _seeds_from_drafts              moves to begin further searches with
          _without_needless_moves         of the best of them
        _search_with_drafts             under the nearest tighter limits, or a plain search

A pod that was refused is tried again once others have moved, so a large one may go last and remove what small
ones had removed before. Such needless moves are left out of the best plan, if the others hold without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec
import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.builder import PartialPlan, PlanBuilder, UsedLimits
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.evaluation import Candidate, Wish
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.hot_nodes.drafts import Drafts, best_drafts
from rebalancer.planning.strategies.hot_nodes.limits import RaisedLimits, TighterLimits
from rebalancer.planning.strategies.hot_nodes.node_pods import NEGLIGIBLE, NodePods, relief_of
from rebalancer.planning.strategies.hot_nodes.search import (
    NOT_NEEDED,
    Order,
    ReliefSearch,
    least_removed,
    most_removed,
)

# How much work an alternative may cost, in placements times nodes: large clusters can afford less.
_ALTERNATIVE_CELLS = 14_000
_DRAFT_CELLS = 60_000
_DRAFT_PLACEMENTS = 120  # for each hot node
_MAX_DRAFT_PLACEMENTS = 2_000
_ABOUT_AS_GOOD = 0.1
_FEWEST_PLACEMENTS = 100  # with less than this no alternative gets anywhere
_TIGHTER_CELLS = 300  # thorough searches under tighter limits, times the square of nodes
_MOST_THOROUGH = 12
_TIGHTER_PLANS = 8  # with those that are not thorough, where limits bind
_TIGHTER_SHARE = 4  # a plan under tighter limits may cost this part of what another order may

_UNLIMITED = 1 << 30

_NO_BETTER_PLAN = NotMoved(Reason.SEARCH_ENDED, "no better plan was found that moves it too")

Kept = dict[PodRow, NotMoved]
Quality = tuple[float, int, float, int]


class _RatedPlan(msgspec.Struct, frozen=True, eq=False):
    quality: Quality
    builder: PlanBuilder
    kept: Kept


class HotNodeRelief:
    """Moves pods off hot nodes, down to their coolTo, as far as landings and limits allow."""

    def __init__(self, prepared: PreparedInputs, wish: Wish) -> None:
        self._prepared = prepared
        self._wish = wish
        self._hotness = prepared.hotness
        self._disruption = Disruption(prepared.inputs, prepared.eviction.workloads)
        self._share = _ALTERNATIVE_CELLS // max(len(prepared.hotness.hot), 1)

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """Relieve hot nodes; where landings or limits stopped moves, try others and keep the best."""
        candidates, protected = self._candidates(self._hot_nodes())
        start, compares = so_far.builder, self._share >= _FEWEST_PLACEMENTS
        best = (self._search_all_limits if compares else self._search_once)(start, candidates)
        builder = best.builder.copy(start.used.limits)
        kept = {**best.kept, **self._kept_by_limits(builder, best.kept, candidates)}
        raised = RaisedLimits(self._prepared, self._disruption, candidates, most_removed).sentence(
            builder, kept
        )
        notes = {**so_far.notes, self._wish.strategy: raised}
        return PartialPlan(builder, {**so_far.kept, **protected, **kept}, notes)

    def _kept_by_limits(
        self, builder: PlanBuilder, kept: Kept, candidates: Mapping[NodeRow, Sequence[Candidate]]
    ) -> Kept:
        """Why pods stay that only limits tighter than the policy's kept, or those together with others."""
        rows = {item.row: item for items in candidates.values() for item in items}
        return {
            row: builder.used.refusal(rows[row]) or _NO_BETTER_PLAN
            for row, why in kept.items()
            if why.reason is Reason.LIMIT
        }

    def _search_all_limits(
        self, start: PlanBuilder, candidates: Mapping[NodeRow, Sequence[Candidate]]
    ) -> _RatedPlan:
        """The best plan of those under the policy's limits, and under tighter ones."""
        tighter = TighterLimits(self._prepared, start, candidates)
        least = tighter.least(start.used.limits)
        best = self._search_with_drafts(start, candidates, least)
        if best.quality[0] <= least + NEGLIGIBLE:
            return best
        reference = self._limits_used(start, candidates)
        thorough = min(_TIGHTER_CELLS // len(self._hotness.hot) ** 2, _MOST_THOROUGH)
        plans = max(thorough, _TIGHTER_PLANS if tighter.binds(reference) else 0)
        below = tighter.below(reference, lambda: best.quality[0])
        for number, limits in enumerate(islice(below, plans)):
            under = start.copy(limits)
            if number < thorough:
                plan = self._search_with_drafts(under, candidates, tighter.least(limits))
            else:
                placements = self._share // _TIGHTER_SHARE
                plan = self._without_needless_moves(
                    under, self._search_once(under, candidates, placements=placements)
                )
            best = min(best, plan, key=lambda item: item.quality)
        return best

    def _search_with_drafts(
        self, start: PlanBuilder, candidates: Mapping[NodeRow, Sequence[Candidate]], least: float
    ) -> _RatedPlan:
        """The best plan under the limits of ``start``; ``least`` is the excess that it leaves at least."""
        plans = [self._search_once(start, candidates)]
        if plans[0].quality[0] > least + NEGLIGIBLE:
            plans.append(self._search_once(start, candidates, least_removed, self._share))
            plans += [
                self._search_once(start, candidates, most_removed, self._share, first=moves)
                for moves in self._seeds_from_drafts(start, candidates)
            ]
        return self._without_needless_moves(start, min(plans, key=lambda item: item.quality))

    def _limits_used(
        self, start: PlanBuilder, candidates: Mapping[NodeRow, Sequence[Candidate]]
    ) -> UsedLimits:
        """What a search uses of the limits if perRun does not end it."""
        limits = start.used.limits.model_copy(update={"per_run": _UNLIMITED})
        return self._search_once(start.copy(limits), candidates).builder.used

    def _without_needless_moves(self, start: PlanBuilder, plan: _RatedPlan) -> _RatedPlan:
        """The plan without moves that became needless: later ones off their node removed all of its excess.

        The other moves are held to every scenario again, for they land among pods that now stay. Where one
        of them does not hold any more, the plan stays as it is.
        """
        needless: dict[PodRow, NodeRow] = {}
        left = {node: plan.builder.expected_percent(node) for node in self._hot_nodes()}
        for move in plan.builder.moves:
            candidate = move.candidate
            if not self._is_ours(candidate) or candidate.source not in left:
                continue
            node = candidate.source
            relief = np.nan_to_num(relief_of([candidate], self._prepared.inputs.load.allocatable[node]))[0]
            more = self._hotness.excess(node, left[node] + relief).sum()
            if more <= self._hotness.excess(node, left[node]).sum() + NEGLIGIBLE:
                needless[candidate.row] = node
                left[node] = left[node] + relief
        if not needless:
            return plan
        builder = start.copy()
        for move in plan.builder.moves[len(start.moves) :]:
            if move.candidate.row not in needless and builder.try_move(move.candidate) is not None:
                return plan
        kept = {**plan.kept, **dict.fromkeys(needless, NOT_NEEDED)}
        pruned = _RatedPlan(self._quality(builder), builder, kept)
        return min(plan, pruned, key=lambda item: item.quality)

    def _seeds_from_drafts(
        self, start: PlanBuilder, candidates: Mapping[NodeRow, Sequence[Candidate]]
    ) -> Iterator[list[Candidate]]:
        """The moves of the best draft, and of the next best one if it promises about as much.

        None where the policy's placements do not suffice, so that how many there are left changes no draft.
        """
        placements = min(
            _DRAFT_PLACEMENTS * len(candidates), _MAX_DRAFT_PLACEMENTS, _DRAFT_CELLS // len(self._hotness.hot)
        )
        known = start.evaluator.placements
        if known.asked + placements > self._prepared.policy.planning.max_placements:
            return
        drafts = Drafts(self._prepared, start, self._pods(candidates, {}))
        best = best_drafts(drafts, placements)
        known.asked += drafts.placements
        for draft in best:
            if draft.left <= best[0].left * (1.0 + _ABOUT_AS_GOOD):
                yield [drafts.pods[at] for at in draft.pods]

    def _search_once(
        self,
        start: PlanBuilder,
        candidates: Mapping[NodeRow, Sequence[Candidate]],
        order: Order = most_removed,
        placements: int | None = None,
        first: Sequence[Candidate] = (),
    ) -> _RatedPlan:
        """Search; without partial relief again without the nodes that would stay hot.

        ``placements`` are the most that it may compute, None for as many as the policy allows.
        """
        given_up: dict[NodeRow, NotMoved] = {}
        while True:
            builder = start.copy(placements=placements)
            pods = self._pods(candidates, given_up)
            search = ReliefSearch(self._prepared, builder, pods, order, first)
            kept = search.run()
            stuck = {} if self._prepared.policy.planning.partial_relief else self._nodes_still_hot(builder)
            if not stuck:
                return _RatedPlan(self._quality(builder), builder, kept)
            given_up |= stuck

    def _pods(
        self, candidates: Mapping[NodeRow, Sequence[Candidate]], given_up: Mapping[NodeRow, NotMoved]
    ) -> dict[NodeRow, NodePods]:
        return {
            node: NodePods(self._prepared, self._disruption, node, items, give_up=given_up.get(node))
            for node, items in candidates.items()
        }

    def _nodes_still_hot(self, builder: PlanBuilder) -> dict[NodeRow, NotMoved]:
        """Nodes that lose pods and would stay hot all the same, with the reason that their pods stay."""
        moves = {move.candidate.source for move in builder.moves if self._is_ours(move.candidate)}
        stuck: dict[NodeRow, NotMoved] = {}
        for node in sorted(moves):
            hot = self._hotness.resources[node]
            percent = builder.expected_percent(node)
            above = hot & (percent > self._hotness.hot_above[node] + NEGLIGIBLE)
            if above.any():
                levels = ", ".join(
                    f"{percent[column]:.1f} % {self._hotness.names[column]}"
                    for column in np.flatnonzero(above).tolist()
                )
                message = f"its node would stay hot at {levels}, and planning.partialRelief is false"
                stuck[node] = NotMoved(Reason.CANNOT_COOL, message)
        return stuck

    def _is_ours(self, candidate: Candidate) -> bool:
        """Whether a pod moves to relieve its node, and not for another strategy."""
        return candidate.wish.strategy == self._wish.strategy

    def _quality(self, builder: PlanBuilder) -> Quality:
        """What a plan is judged by, less is better: excess, nodes still hot, disruption cost, moves."""
        excess, still_hot = 0.0, 0
        for node in self._hot_nodes():
            percent = builder.expected_percent(node)
            excess += float(self._hotness.excess(node, percent).sum())
            still_hot += bool((percent > self._hotness.hot_above[node] + NEGLIGIBLE).any())
        rows = [move.candidate.row for move in builder.moves if not move.candidate.has_finished]
        cost = float(self._disruption.costs(rows).sum()) if rows else 0.0
        return round(excess, 6), still_hot, round(cost + len(rows), 6), len(rows)

    def _hot_nodes(self) -> list[NodeRow]:
        return [NodeRow(node) for node in np.flatnonzero(self._hotness.hot).tolist()]

    def _candidates(self, nodes: Sequence[NodeRow]) -> tuple[dict[NodeRow, list[Candidate]], Kept]:
        """The pods of each node that may be evicted, and why the others may not."""
        prepared = self._prepared
        candidates: dict[NodeRow, list[Candidate]] = {}
        protected: Kept = {}
        for node in nodes:
            blocked = self._why_none_may_leave(node)
            candidates[node] = []
            for row in prepared.pods_on(node):
                refusal = why_protected(prepared.eviction, row) or blocked
                if refusal is None:
                    candidates[node].append(prepared.candidate(row, self._wish))
                else:
                    protected[row] = refusal
        return candidates, protected

    def _why_none_may_leave(self, node: NodeRow) -> NotMoved | None:
        """Why nothing may leave a hot node in this run; None when pods may."""
        settling = self._prepared.settling(node)
        if settling:
            return settling
        inputs = self._prepared.inputs
        state, needed = inputs.state, inputs.policy.hot_nodes.for_runs
        name, spacing = inputs.snapshot.nodes.names[node], inputs.policy.hot_nodes.run_spacing_seconds
        runs = state.hot_runs_with(name, inputs.now, spacing) if state else needed
        if runs < needed:
            return NotMoved(Reason.HOT_TOO_BRIEFLY, f"its node is hot in run {runs} of the {needed} wanted")
        return None
