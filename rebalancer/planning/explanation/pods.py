"""Explains one pod: may it go, where would it land and why there, what does staying cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.load.report import with_pods
from rebalancer.planning.explanation.values import (
    PodExplanation,
    RejectedNodes,
    SchedulingTable,
    ScoredNode,
    Staying,
)
from rebalancer.planning.landing.evaluation import Candidate, Evaluation
from rebalancer.planning.plan import Landing, Plan, PodReference
from rebalancer.planning.planner import Planner
from rebalancer.planning.report import build_plan
from rebalancer.scheduling import ClusterState, Placement, Rejections, requested_amounts

MOVED, NODE_NOT_HOT = "Moved", "NodeNotHot"
_DIGITS = 2
_MAX_NAMES = 5
_NEGLIGIBLE = 1e-9


def by_resource(names: Sequence[str], values: FloatArray) -> dict[str, float]:
    """Figures by resource; what cannot be said is absent."""
    return {
        resource: round(float(value), _DIGITS)
        for resource, value in zip(names, values, strict=True)
        if np.isfinite(value)
    }


def reference(planner: Planner, row: int) -> PodReference:
    """The pod and its controller."""
    pods, facts = planner.pods, planner.protections.workload(row)
    owner = facts.owner
    return PodReference(
        namespace=pods.namespaces[row],
        name=pods.names[row],
        uid=pods.uids[row],
        workload=facts.name if owner.kind else "",
        controller_kind=owner.kind,
        controller_name=owner.name,
        controller_uid=owner.uid,
    )


def share_of(planner: Planner, row: int, node: int) -> FloatArray:
    """(resources,) points of its node's allocatable that a pod takes."""
    amounts = with_pods(planner.inputs.load.pod_usage[row], 1.0)
    allocatable = planner.inputs.load.allocatable[node]
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

    def __init__(self, planner: Planner, row: int) -> None:
        self.planner = planner
        self.row = row
        self.node = int(planner.pods.node[row])
        self.names = planner.inputs.snapshot.nodes.names
        self.class_index = (
            planner.protections.replacement(row).class_index
            if planner.pods.class_of(row).owner.kind and self.node >= 0
            else int(planner.pods.pod_class[row])
        )

    def explanation(self) -> PodExplanation:
        """The whole of it; plans on the way."""
        planner, row = self.planner, self.row
        inputs, pods = planner.inputs, planner.pods
        protection = planner.protections.judge(row)
        known = inputs.configuration.profile(pods.classes[self.class_index].scheduler_name) is not None
        placement, table = self._cycle() if known else (None, None)
        evaluation = self._attempt() if known and self.node >= 0 and not pods.terminating[row] else None
        landings = self._landings(evaluation if self.node >= 0 else placement)
        staying = self._staying(evaluation) if self.node >= 0 else None
        planner.plan()
        verdict, verdict_because = verdict_of(build_plan(planner), pods.uids[row], self._name())
        return PodExplanation(
            source=inputs.snapshot.source,
            policy=inputs.policy.metadata.name,
            inputs=inputs.digest,
            now=times.render(inputs.now),
            pod=reference(planner, row),
            node=self._name(),
            evictable=protection is None,
            reason=str(protection.reason) if protection else "",
            because=protection.because if protection else "no protection holds it",
            verdict=verdict,
            verdict_because=verdict_because,
            landings=landings,
            unacceptable=round(evaluation.unacceptable, 6) if evaluation else 0.0,
            staying=staying,
            table=table,
        )

    def _name(self) -> str:
        return self.names[self.node] if self.node >= 0 else ""

    def _attempt(self) -> Evaluation:
        """As the planner would try it before any other move."""
        pods = self.planner.pods
        candidate = Candidate(
            row=self.row,
            source=self.node,
            replacement=self.class_index,
            usage=self.planner.inputs.load.pod_usage[self.row],
            replaced_late=pods.class_of(self.row).owner.kind == "StatefulSet",
        )
        return self.planner.evaluator.make(candidate, self.planner.scenarios)

    def _landings(self, found: Evaluation | Placement | None) -> tuple[Landing, ...]:
        """Where the replacement may land; of a Pending pod, the pod itself."""
        if found is None:
            return ()
        if isinstance(found, Placement):
            rows, chance = found.feasible, found.chance
        elif found.by_scenario:
            rows, chance = found.landings().rows, found.landings().chance
        else:
            return ()
        pairs = sorted(
            ((row, share) for row, share in zip(rows.tolist(), chance.tolist(), strict=True) if share),
            key=lambda pair: (-pair[1], self.names[pair[0]]),
        )
        return tuple(Landing(node=self.names[row], probability=round(share, 6)) for row, share in pairs)

    def _cycle(self) -> tuple[Placement, SchedulingTable]:
        """The cycle of the replacement, the pod itself on its way out; of a Pending pod, its own cycle."""
        state, usage, own = self._without_it()
        scheduler = self.planner.model.scheduler(self.class_index)
        placement = scheduler.place(state, self.class_index)
        rejections = scheduler.rejections(state, self.class_index)
        because = placement.rejected
        if not because and not len(placement.feasible):
            because = self.planner.evaluator.no_landing.why(self.class_index)
        after = self.planner.landing_check.percent_after(placement.feasible, usage, state.pod_count, own)
        table = SchedulingTable(
            profile=scheduler.profile.scheduler_name,
            feasible=len(placement.feasible),
            nodes=self._scored(placement, after),
            rejected=grouped(rejections, self.names),
            because=because,
            notes=placement.notes,
        )
        return placement, table

    def _without_it(self) -> tuple[ClusterState, FloatArray, FloatArray]:
        """The state that the cycle meets, what nodes use in it, and what the placed pod will use."""
        scenario = self.planner.scenarios.all[0]
        state = scenario.while_terminating.copy()
        if self.node < 0:
            # The planner has put it somewhere already, which is what this cycle decides.
            requests = state.classes.requests[self.class_index].incoming
            own = requested_amounts(requests, self.planner.inputs.load.resources)
            placed, usage = int(state.node[self.row]), scenario.usage.copy()
            if placed >= 0:
                usage[placed] -= own
                state.remove(self.row)
            return state, usage, own
        if self.planner.pods.class_of(self.row).owner.kind == "StatefulSet":
            state.remove(self.row)
        else:
            state.evict(self.row)
        own = np.nan_to_num(self.planner.inputs.load.pod_usage[self.row], nan=0.0)
        return state, scenario.usage, own

    def _scored(self, placement: Placement, after: FloatArray) -> tuple[ScoredNode, ...]:
        planner, rows = self.planner, placement.feasible
        scenario = planner.scenarios.all[0]
        before = planner.evaluator.percent_of(scenario, self.node) if self.node >= 0 else None
        scores = {name: values.tolist() for name, values in placement.scores.items()}
        order = sorted(
            range(len(rows)),
            key=lambda at: (-placement.chance[at], -placement.totals[at], self.names[rows[at]]),
        )
        return tuple(
            ScoredNode(
                node=self.names[rows[at]],
                total=int(placement.totals[at]),
                scores={name: int(values[at]) for name, values in scores.items()},
                probability=round(float(placement.chance[at]), 6),
                after=by_resource(planner.hotness.names, after[at]),
                unacceptable=""
                if before is None
                else planner.landing_check.why_not(self.node, int(rows[at]), before, after[at]),
            )
            for at in order
        )

    def _staying(self, evaluation: Evaluation | None) -> Staying:
        planner, node = self.planner, self.node
        percent = planner.evaluator.percent_of(planner.scenarios.all[0], node)
        hot = bool(planner.hotness.hot[node])
        above = percent - planner.hotness.cool_to[node]
        forgone: Mapping[str, float] = {}
        if evaluation is not None and evaluation.by_scenario:
            forgone = self._expected_gain(evaluation, percent)
        share = share_of(planner, self.row, node)
        name = self._name()
        if not hot:
            because = f"nothing: {name} is not hot"
        else:
            wanted = [column for column in range(len(above)) if above[column] > 0]
            points = ", ".join(
                f"{above[column]:.1f} points of {planner.hotness.names[column]} above its coolTo "
                f"(this pod takes {share[column]:.1f})"
                for column in wanted
            )
            because = f"{name} stays {points}" if points else f"nothing: {name} is at its coolTo"
        return Staying(
            load=by_resource(planner.hotness.names, percent),
            hot=hot,
            above={
                key: value for key, value in by_resource(planner.hotness.names, above).items() if value > 0
            },
            share=by_resource(planner.hotness.names, share),
            forgone=dict(forgone),
            because=because,
        )

    def _expected_gain(self, evaluation: Evaluation, before: FloatArray) -> Mapping[str, float]:
        """Points by resource that a move would win on average over its landings elsewhere."""
        planner, landings = self.planner, evaluation.landings()
        scenario = planner.scenarios.all[0]
        after = planner.landing_check.percent_after(
            landings.rows, scenario.usage, scenario.after_termination.pod_count, evaluation.candidate.usage
        )
        after[landings.rows == self.node] = before  # back where it was: nothing is won
        gain = before - landings.chance @ after / max(float(landings.chance.sum()), _NEGLIGIBLE)
        return {
            key: value for key, value in by_resource(planner.hotness.names, gain).items() if key != "pods"
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
