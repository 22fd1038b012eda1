"""Explains one pod or node: the same model, protections and plan as a run, told in full."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rebalancer.planning.explanation.pods import MOVED, PodExplainer, by_resource, reference, share_of
from rebalancer.planning.explanation.subjects import Subject
from rebalancer.planning.explanation.values import NodeExplanation, PodExplanation, PodOnNode
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Kept, Move
from rebalancer.planning.planner import Planner
from rebalancer.planning.report import build_plan

EVICTABLE = "Evictable"


def explain(inputs: PlanningInputs, subject: Subject) -> PodExplanation | NodeExplanation:
    """Everything there is to say about a pod or a node; SafetyError when too little is known to plan."""
    planner = Planner(inputs)
    if subject.kind == "node":
        return _explain_node(planner, subject.row)
    return PodExplainer(planner, subject.row).explanation()


def _explain_node(planner: Planner, row: int) -> NodeExplanation:
    inputs = planner.inputs
    hot = bool(planner.hotness.hot[row])
    protections = {
        pod: None if hot else planner.protections.judge(pod)
        for pod in planner.pods.by_node.get(row, np.zeros(0, np.int64)).tolist()
    }
    planner.plan()
    plan = build_plan(planner)
    report = next(item for item in plan.nodes if item.name == inputs.snapshot.nodes.names[row])
    moves = {move.pod.uid: move for move in plan.moves}
    kept = {item.pod.uid: item for item in plan.kept}
    pods = []
    for pod, protection in protections.items():
        uid = planner.pods.uids[pod]
        if protection is not None:
            verdict, because = str(protection.reason), protection.because
        else:
            verdict, because = _verdict_here(moves.get(uid), kept.get(uid))
        share = by_resource(planner.hotness.names, share_of(planner, pod, row))
        pods.append(PodOnNode(pod=reference(planner, pod), share=share, verdict=verdict, because=because))
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
        levels=_levels(planner, row),
        score=report.score,
        uncounted=planner.landing_check.excluded.get(row, ""),
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


def _levels(planner: Planner, row: int) -> dict[str, str]:
    hotness = planner.hotness
    return {
        resource: f"hot above {hotness.hot_above[row, column]:.1f} %, "
        f"cool at {hotness.cool_to[row, column]:.1f} %"
        for column, resource in enumerate(hotness.names)
        if np.isfinite(hotness.hot_above[row, column])
    }
