"""The planner: one value that says what would move, and what a run asks while it carries a plan out.

    plan            n1 is hot (92 % cpu, cool at 65 %): 3 moves in 2 waves; its other pods stay, each with why
    explain         db-0 on n1 stays, its budget allows no disruption; it would land on n4, by these scores
    recheck         before wave 2, by the cluster as it is now: web-2 may only land on n5, and api-3 is gone
    next_in_wave    web-1 is on n5, and web-2 would go there too: n5 would be hot, so web-2 stays
    landed_well     web-1 is on n6, which the plan did not list: acceptable

All of them evaluate landings in one way: what one says of a pod, no other contradicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cached_property

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.errors import SafetyError
from rebalancer.planning import cluster_explanation, explanation, revalidation
from rebalancer.planning.builder import PartialPlan
from rebalancer.planning.cluster_explanation import ClusterExplanation
from rebalancer.planning.explanation import Explanation, SchedulingTable
from rebalancer.planning.inputs import (
    AS_USUAL,
    FRESH_RUN,
    About,
    PlannerOptions,
    PlanningInputs,
    RunSoFar,
)
from rebalancer.planning.plan import NOTHING_YET, Move, Plan, Progress
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.reasons import NotMoved
from rebalancer.planning.report import build_plan
from rebalancer.planning.required_runs import later_run
from rebalancer.planning.search import search
from rebalancer.planning.strategies import strategies_of
from rebalancer.planning.strategies.consolidation import Consolidation, closes_nodes
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.planning.subjects import Subject
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.state.run_state import PastMove


class Planner(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Says what would move and why; what several answers need is computed once, when the first asks for it.

    All of it raises SafetyError when too few nodes have a fresh figure to act on.
    """

    inputs: PlanningInputs
    so_far: RunSoFar = FRESH_RUN
    options: PlannerOptions = AS_USUAL

    @cached_property
    def prepared(self) -> PreparedInputs:
        """What precedes the search, with the nodes closed that are to be emptied."""
        prepared = prepare(self.inputs, self.so_far, self.options)
        if self.so_far.closed is None and closes_nodes(self.inputs.policy):
            return _with_closed_nodes(self, prepared)
        return prepared

    @property
    def hot_in_run(self) -> Mapping[str, Mapping[str, float]]:
        """What later plans of the run must know of this one: see ``RunSoFar.hot``."""
        return self.prepared.hotness.levels_in_run(self.prepared.nodes.names)

    @cached_property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies that the policy turns on, as they are once they have searched."""
        return strategies_of(self.prepared)

    @cached_property
    def decided(self) -> PartialPlan:
        """The moves that the strategies find together, and why other pods stay."""
        return search(self.prepared, self.strategies)

    def plan(self) -> Plan:
        """What would move, in which waves, and why everything else stays."""
        return build_plan(self.prepared, self.decided, self.strategies)

    def explain(self, subject: Subject) -> Explanation:
        """All that is known of a pod, a node or a workload, and what the plan does with it."""
        prepared = self.prepared
        if subject.kind == "node":
            return explanation.explain_node(prepared, self.decided, self.plan(), NodeRow(subject.row))
        if subject.kind != "pod":
            name = subject.kind, subject.namespace, subject.name
            return explanation.explain_workload(prepared, self.plan(), *name)
        row = PodRow(subject.row)
        if row >= len(prepared.pods):
            return explanation.explain_finished(prepared, self.strategies, self.plan(), row)
        explainer = explanation.PodExplainer(prepared, strategies_of(prepared), row)
        return explainer.explanation(self.decided, self.plan(), lambda policy: self.by_policy(policy).plan())

    def explain_cluster(self) -> ClusterExplanation:
        """Why no more pods of the cluster are moved."""
        return cluster_explanation.explain_cluster(self.prepared, self.plan())

    def scheduling_tables(self, max_moves: int) -> Mapping[str, SchedulingTable]:
        """By pod uid, the scheduler's cycle for the replacements of the first moves, each at its moment."""
        return explanation.scheduling_tables(self.prepared, self.decided, max_moves)

    def recheck(
        self, moves: Sequence[Move], progress: Progress = NOTHING_YET, *, through: int | None = None
    ) -> Mapping[str, str | Move]:
        """Judge moves of an earlier plan, not made yet, by the cluster as it is now; see ``revalidation``.

        By the uid of their pod: the move with the landings it has now, or why it no longer holds.
        """
        try:
            prepared = self.prepared
        except SafetyError as error:
            return {move.pod.uid: str(error) for move in moves}
        return revalidation.revalidate_moves(prepared, moves, progress, through=through)

    def next_in_wave(
        self,
        landed: Sequence[tuple[Move, str]],
        move: Move,
        progress: Progress = NOTHING_YET,
        *,
        tainted: Sequence[str] = (),
    ) -> str | Move:
        """Judge a move after those of its wave that have landed, each on a node; see ``revalidation``."""
        try:
            prepared = self.prepared
        except SafetyError:
            return "too little is known of the cluster to act on"
        return revalidation.next_in_wave(prepared, landed, move, progress, tainted=tainted)

    def landed_well(self, plan: Plan, move: Move, node: str, made: Sequence[PastMove] = ()) -> str | None:
        """Why a landing that the plan, which is carried out, did not list is not acceptable; None when it is.

        ``made`` are the moves made so far, with or without this one.
        """
        return revalidation.check_landing(self.prepared, plan, move, node, made)

    def by_policy(self, policy: RebalancePolicy) -> Planner:
        """The same under another policy, without a word on what keeps nodes hot."""
        return self._of(replace(self.inputs, policy=policy))

    def in_later_run(self, plan: Plan) -> str:
        """Which run after this one would move what its ``plan`` leaves, as nodes were hot too briefly."""
        return later_run(self.inputs, plan, lambda inputs: self._of(inputs).plan())

    def for_nodes(self) -> Planner:
        """The same for a reader who asks how loaded the nodes are and not what would move."""
        of_scheduler = (About.SCHEDULER, About.REFUSAL)
        warnings = tuple(warning for warning in self.inputs.warnings if warning.about not in of_scheduler)
        return self._of(replace(self.inputs, warnings=warnings))

    def _of(self, inputs: PlanningInputs) -> Planner:
        """The same of other inputs, without a word on what keeps nodes hot."""
        return replace(self, inputs=inputs, options=replace(self.options, explains=False))


def _with_closed_nodes(planner: Planner, prepared: PreparedInputs) -> PreparedInputs:
    """What precedes the search, once it is known which nodes to close.

    Where nodes are closed, pods of other nodes go elsewhere, and other strategies may use up the limits. Then
    some of these nodes are not emptied after all, and those stay open.
    """
    closed, emptied, refused = _closed_and_emptied(prepared)
    while True:
        so_far = replace(planner.so_far, closed=tuple(sorted(closed)), refused=refused)
        prepared = prepare(planner.inputs, so_far, planner.options)
        if not closed:
            return prepared
        still_to_close, _, more = _closed_and_emptied(prepared)
        left = emptied & still_to_close
        if left == emptied:
            return prepared
        # With the nodes that are emptied, those stay closed that are empty.
        closed = closed - emptied | left if left else left
        emptied = left
        refused |= more


def _closed_and_emptied(prepared: PreparedInputs) -> tuple[Set[str], Set[str], dict[PodRow, NotMoved]]:
    """The nodes that are closed for the moves of a plan, and those of them that these leave.

    And why pods stay of others that were tried.
    """
    strategies = strategies_of(prepared)
    plan = search(prepared, strategies)
    consolidation = next(strategy for strategy in strategies if isinstance(strategy, Consolidation))
    closed = consolidation.to_close(plan)
    sources = {prepared.nodes.names[move.candidate.source] for move in plan.moves}
    return closed, closed & sources, dict(consolidation.refused)
