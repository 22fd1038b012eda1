"""Explains one pod: whether it may be evicted, where its replacement would run, and what staying costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray, NodeRow, PodClassIndex, PodRow
from rebalancer.load.report import with_pods
from rebalancer.planning.eviction import every_refusal
from rebalancer.planning.explanation.values import (
    PodExplanation,
    Refusal,
    RejectedNodes,
    SchedulingTable,
    ScoredNode,
    Staying,
)
from rebalancer.planning.landing.distribution import LandingDistribution
from rebalancer.planning.landing.evaluation import Evaluation
from rebalancer.planning.plan import Landing, Plan
from rebalancer.planning.planner import plan_prepared
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.report import possible_landings
from rebalancer.planning.rounding import CHANCE_DIGITS, by_resource
from rebalancer.planning.workloads.stateful_sets import replaced_after_termination
from rebalancer.scheduling import ClusterState, Placement, Rejections, requested_amounts

MOVED, NODE_NOT_HOT = "Moved", "NodeNotHot"
_MAX_NAMES = 5
_NEGLIGIBLE = 1e-9


def share_of(prepared: PreparedInputs, row: PodRow, node: NodeRow) -> FloatArray:
    """(resources,) points of its node's allocatable that a pod takes."""
    amounts = with_pods(prepared.inputs.load.pod_usage[row], 1.0)
    allocatable = prepared.inputs.load.allocatable[node]
    return np.where(allocatable > 0, 100.0 * amounts / np.where(allocatable > 0, allocatable, 1.0), np.nan)


def grouped(rejections: Rejections, names: tuple[str, ...]) -> tuple[RejectedNodes, ...]:
    """Rejected nodes by reason, the most frequent first."""
    by_reason: defaultdict[str, list[int]] = defaultdict(list)
    for row, reason in sorted(rejections.reasons.items()):
        by_reason[reason].append(row)
    reasons = sorted(by_reason, key=lambda reason: (-len(by_reason[reason]), reason))
    return tuple(
        RejectedNodes(
            reason=reason,
            count=len(by_reason[reason]),
            nodes=tuple(names[row] for row in by_reason[reason][:_MAX_NAMES]),
        )
        for reason in reasons
    )


class PodExplainer:
    """The explanation of one pod."""

    def __init__(self, prepared: PreparedInputs, row: PodRow) -> None:
        self._prepared = prepared
        self._scenarios = prepared.scenarios()
        self._evaluator = prepared.evaluator()
        self._row = row
        self._node = NodeRow(int(prepared.pods.node[row]))  # -1 while Pending
        self._names = prepared.inputs.snapshot.nodes.names
        own = PodClassIndex(int(prepared.pods.pod_class[row]))
        comes_back = bool(prepared.pods.class_of(row).owner.kind) and self._node >= 0
        self._candidate = prepared.candidate(row) if comes_back else None
        self._class = self._candidate.replacement if self._candidate else own

    def explanation(self) -> PodExplanation:
        """The explanation, with what the plan does with the pod."""
        prepared, row = self._prepared, self._row
        inputs, pods = prepared.inputs, prepared.pods
        refusals = tuple(every_refusal(prepared.eviction, row))
        refusal = next(iter(refusals), None)
        known = self._is_placed()
        placement, table = self._cycle() if known else (None, None)
        movable = known and self._node >= 0 and not pods.terminating[row]
        evaluation = (
            self._evaluator.evaluate(prepared.candidate(row), self._scenarios, complete=True)
            if movable
            else None
        )
        landings = self._landings(evaluation if self._node >= 0 else placement)
        staying = self._staying(evaluation) if self._node >= 0 else None
        verdict, verdict_because = verdict_of(plan_prepared(prepared), pods.uids[row], self._name())
        return PodExplanation(
            source=inputs.snapshot.source,
            policy=inputs.policy.metadata.name,
            inputs=inputs.digest,
            now=times.render(inputs.now),
            pod=prepared.pod_reference(row),
            node=self._name(),
            evictable=refusal is None,
            reason=str(refusal.reason) if refusal else "",
            because=refusal.because if refusal else "nothing protects it",
            refusals=tuple(
                Refusal(reason=str(item.reason), because=item.because, setting=item.setting)
                for item in refusals
            ),
            verdict=verdict,
            verdict_because=verdict_because,
            landings=landings,
            unacceptable=round(evaluation.unacceptable, CHANCE_DIGITS) if evaluation else 0.0,
            staying=staying,
            table=table,
        )

    def scheduling_table(self) -> SchedulingTable | None:
        """The scheduler's cycle for the replacement; None where no profile places it."""
        return self._cycle()[1] if self._is_placed() else None

    def _is_placed(self) -> bool:
        """Whether a profile of the configuration places the pod."""
        name = self._prepared.schedulers.state.classes[self._class].scheduler_name
        return self._prepared.inputs.configuration.profile(name) is not None

    def _name(self) -> str:
        return self._names[self._node] if self._node >= 0 else ""

    def _landings(self, found: Evaluation | Placement | None) -> tuple[Landing, ...]:
        """Where the replacement may land; for a Pending pod, where the pod itself may."""
        if isinstance(found, Placement):
            return possible_landings(self._prepared, LandingDistribution(found.feasible, found.chance))
        if found is None or not found.by_scenario:
            return ()
        return possible_landings(self._prepared, found.landings())

    def _percent(self) -> FloatArray:
        """(resources,) percent of its node's allocatable expected before any move."""
        return self._scenarios.expected_percent(self._node, self._prepared.inputs.load.allocatable)

    def _cycle(self) -> tuple[Placement, SchedulingTable]:
        """The cycle of the replacement, the pod itself on its way out; of a Pending pod, its own cycle."""
        state, usage, own = self._without_it()
        scheduler = self._prepared.schedulers.scheduler(self._class)
        placement = scheduler.place(state, self._class)
        rejections = scheduler.rejections(state, self._class)
        because = placement.rejected
        if not because and not len(placement.feasible):
            because = self._evaluator.no_landing.why(self._class)
        after = self._prepared.landing_check.percent_after(placement.feasible, usage, state.pod_count, own)
        table = SchedulingTable(
            profile=scheduler.profile.scheduler_name,
            feasible=len(placement.feasible),
            nodes=self._scored(placement, after),
            rejected=grouped(rejections, self._names),
            because=because,
            notes=placement.notes,
        )
        return placement, table

    def _without_it(self) -> tuple[ClusterState, FloatArray, FloatArray]:
        """The state that the cycle meets, what nodes use in it, and what the placed pod will use."""
        scenario = self._scenarios.all[0]
        state = scenario.while_terminating.copy()
        if self._node < 0:
            # Pending pods have been placed already; where is what this cycle is to show.
            requests = state.classes.requests[self._class].incoming
            own = requested_amounts(requests, self._prepared.inputs.load.resources)
            placed, usage = int(state.node[self._row]), scenario.usage.copy()
            if placed >= 0:
                usage[placed] -= own
                state.remove(self._row)
            return state, usage, own
        if replaced_after_termination(self._prepared.pods.class_of(self._row).owner):
            state.remove(self._row)
        elif self._candidate is None or not self._candidate.restarted:
            state.evict(self._row)
        own = np.nan_to_num(self._prepared.inputs.load.pod_usage[self._row], nan=0.0)
        return state, scenario.usage, own

    def _scored(self, placement: Placement, after: FloatArray) -> tuple[ScoredNode, ...]:
        prepared, rows = self._prepared, placement.feasible
        before = self._percent() if self._node >= 0 else None
        scores = {name: values.tolist() for name, values in placement.scores.items()}
        order = sorted(
            range(len(rows)),
            key=lambda at: (-placement.chance[at], -placement.totals[at], self._names[rows[at]]),
        )
        return tuple(
            ScoredNode(
                node=self._names[rows[at]],
                total=int(placement.totals[at]),
                scores={name: int(values[at]) for name, values in scores.items()},
                probability=round(float(placement.chance[at]), CHANCE_DIGITS),
                after=by_resource(prepared.hotness.names, after[at]),
                unacceptable=""
                if before is None
                else prepared.landing_check.why_not(self._node, NodeRow(int(rows[at])), before, after[at]),
            )
            for at in order
        )

    def _staying(self, evaluation: Evaluation | None) -> Staying:
        prepared, node = self._prepared, self._node
        percent = self._percent()
        hot = bool(prepared.hotness.hot[node])
        above = percent - prepared.hotness.cool_to[node]
        forgone: Mapping[str, float] = {}
        if evaluation is not None and evaluation.by_scenario:
            forgone = self._expected_gain(evaluation, percent)
        share = share_of(prepared, self._row, node)
        name = self._name()
        if not hot:
            because = f"nothing: {name} is not hot"
        else:
            wanted = [column for column in range(len(above)) if above[column] > 0]
            points = ", ".join(
                f"{above[column]:.1f} points of {prepared.hotness.names[column]} above its coolTo "
                f"(this pod takes {share[column]:.1f})"
                for column in wanted
            )
            because = f"{name} is now {points}" if points else f"nothing: {name} is at its coolTo"
        return Staying(
            load=by_resource(prepared.hotness.names, percent),
            hot=hot,
            above={
                key: value for key, value in by_resource(prepared.hotness.names, above).items() if value > 0
            },
            share=by_resource(prepared.hotness.names, share),
            forgone=dict(forgone),
            because=because,
        )

    def _expected_gain(self, evaluation: Evaluation, before: FloatArray) -> Mapping[str, float]:
        """Points by resource that a move would win on average over its landings elsewhere."""
        prepared, landings = self._prepared, evaluation.landings()
        scenario = self._scenarios.all[0]
        after = prepared.landing_check.percent_after(
            landings.rows, scenario.usage, scenario.after_termination.pod_count, evaluation.candidate.usage
        )
        after[landings.rows == self._node] = before  # back where it was: nothing is won
        gain = before - landings.chance @ after / max(float(landings.chance.sum()), _NEGLIGIBLE)
        return {
            key: value for key, value in by_resource(prepared.hotness.names, gain).items() if key != "pods"
        }


def verdict_of(plan: Plan, uid: str, node: str) -> tuple[str, str]:
    """What the plan does with a pod, and why."""
    for move in plan.moves:
        if move.pod.uid == uid:
            return MOVED, f"wave {move.wave}: {move.because}"
    for kept in plan.kept:
        if kept.pod.uid == uid:
            return kept.reason, kept.because
    if not node:
        return NODE_NOT_HOT, "it is Pending: it runs on no node"
    return NODE_NOT_HOT, f"{node} is not hot: nothing needs to leave it"
