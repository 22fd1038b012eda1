"""Explains one node, or hands on to the explanation of a pod: the same rules, model and plan as a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.explanation.pods import MOVED, PodExplainer, share_of
from rebalancer.planning.explanation.subjects import Subject
from rebalancer.planning.explanation.values import (
    NodeExplanation,
    PodExplanation,
    PodOnNode,
    SchedulingTable,
)
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Kept, Move, Plan
from rebalancer.planning.planner import plan_prepared
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.rounding import by_resource

EVICTABLE = "Evictable"


def explain(inputs: PlanningInputs, subject: Subject) -> PodExplanation | NodeExplanation:
    """The full explanation of a pod or a node; SafetyError when too little is known to plan."""
    prepared = prepare(inputs)
    if subject.kind == "node":
        return _explain_node(prepared, NodeRow(subject.row))
    return PodExplainer(prepared, PodRow(subject.row)).explanation()


def scheduling_tables(prepared: PreparedInputs, plan: Plan, most: int) -> dict[str, SchedulingTable]:
    """By pod uid, the scheduler's cycle for the replacements of the first moves, as the cluster is now."""
    rows = {uid: row for row, uid in enumerate(prepared.pods.uids)}
    found = {}
    for move in plan.moves[:most]:
        table = PodExplainer(prepared, PodRow(rows[move.pod.uid])).scheduling_table()
        if table is not None:
            found[move.pod.uid] = table
    return found


def _explain_node(prepared: PreparedInputs, row: NodeRow) -> NodeExplanation:
    inputs = prepared.inputs
    hot = bool(prepared.hotness.hot[row])
    plan = plan_prepared(prepared)
    report = next(item for item in plan.nodes if item.name == inputs.snapshot.nodes.names[row])
    moves = {move.pod.uid: move for move in plan.moves}
    kept = {item.pod.uid: item for item in plan.kept}
    pods = []
    for pod in prepared.pods_on(row):
        uid = prepared.pods.uids[pod]
        refusal = None if hot else why_protected(prepared.eviction, pod)
        if refusal is not None:
            verdict, because = str(refusal.reason), refusal.because
        else:
            verdict, because = _verdict_here(moves.get(uid), kept.get(uid))
        share = by_resource(prepared.hotness.names, share_of(prepared, pod, row))
        pods.append(PodOnNode(pod=prepared.pod_reference(pod), share=share, verdict=verdict, because=because))
    pods.sort(key=lambda item: (-_largest(item.share), item.pod.full_name))
    return NodeExplanation(
        source=plan.source,
        policy=plan.policy,
        inputs=plan.inputs,
        now=plan.now,
        node=report.name,
        load=report.load,
        after=report.after.load if report.after else report.load,
        hot=report.hot,
        because=report.because,
        levels=_levels(prepared, row),
        score=report.score,
        uncounted=prepared.landing_check.excluded.get(row, ""),
        unsolved=plan.unsolved.get(report.name, ""),
        pods=tuple(pods),
    )


def _largest(share: Mapping[str, float]) -> float:
    return max((points for resource, points in share.items() if resource != "pods"), default=0.0)


def _verdict_here(move: Move | None, kept: Kept | None) -> tuple[str, str]:
    if move is not None:
        return MOVED, f"wave {move.wave}: {move.because}"
    if kept is not None:
        return kept.reason, kept.because
    return EVICTABLE, "no protection holds it, and its node is not hot"


def _levels(prepared: PreparedInputs, row: NodeRow) -> dict[str, str]:
    hotness = prepared.hotness
    return {
        resource: f"hot above {hotness.hot_above[row, column]:.1f} %, "
        f"cool at {hotness.cool_to[row, column]:.1f} %"
        for column, resource in enumerate(hotness.names)
        if np.isfinite(hotness.hot_above[row, column])
    }
