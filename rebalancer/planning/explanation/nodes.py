"""Explains one node and each of its pods: by the same rules, model and plan as a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.explanation.pods import MOVED, PodExplainer, share_of
from rebalancer.planning.explanation.values import NodeExplanation, PodOnNode, SchedulingTable
from rebalancer.planning.hot_nodes.levels import short_level
from rebalancer.planning.plan import Kept, Move, Plan
from rebalancer.planning.planner import plan_prepared
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.rounding import by_resource

EVICTABLE = "Evictable"


def scheduling_tables(prepared: PreparedInputs, plan: Plan, most: int) -> dict[str, SchedulingTable]:
    """By pod uid, the scheduler's cycle for the replacements of the first moves, as the cluster is now."""
    rows = {uid: row for row, uid in enumerate(prepared.pods.uids)}
    found = {}
    for move in plan.moves[:most]:
        table = PodExplainer(prepared, PodRow(rows[move.pod.uid])).scheduling_table()
        if table is not None:
            found[move.pod.uid] = table
    return found


def explain_node(prepared: PreparedInputs, row: NodeRow) -> NodeExplanation:
    """Why the node is hot or not, and what the plan does with each of its pods."""
    inputs = prepared.inputs
    hot = bool(prepared.hotness.hot[row])
    plan = plan_prepared(prepared)
    report = next(item for item in plan.nodes if item.name == inputs.snapshot.nodes.names[row])
    moves = {move.pod.uid: move for move in plan.moves}
    kept = {item.pod.uid: item for item in plan.kept}
    pods = []
    for pod in prepared.pods_on(row):
        uid = prepared.pods.uids[pod]
        verdict, because = verdict_of(prepared, pod, moves.get(uid), kept.get(uid), hot=hot)
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


def verdict_of(
    prepared: PreparedInputs, pod: PodRow, move: Move | None, kept: Kept | None, *, hot: bool
) -> tuple[str, str]:
    """What the plan does with a pod, as a code and a sentence; ``hot`` says whether its node is."""
    refusal = None if hot else why_protected(prepared.eviction, pod)
    if refusal is not None:
        return str(refusal.reason), refusal.because
    if move is not None:
        return MOVED, f"wave {move.wave}: {move.because}"
    if kept is not None:
        return kept.reason, kept.because
    return EVICTABLE, "nothing protects it, and its node is not hot"


def _levels(prepared: PreparedInputs, row: NodeRow) -> dict[str, str]:
    hotness = prepared.hotness
    return {
        resource: f"hot above {short_level(hotness.hot_above[row, column])} %, "
        f"cool at {short_level(hotness.cool_to[row, column])} %"
        for column, resource in enumerate(hotness.names)
        if np.isfinite(hotness.hot_above[row, column])
    }
