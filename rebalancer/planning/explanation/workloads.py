"""Explains a workload: where its pods run, which of them the plan moves, and why the others stay."""

from __future__ import annotations

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.explanation.nodes import verdict_of
from rebalancer.planning.explanation.pods import MOVED, share_of
from rebalancer.planning.explanation.values import PodOfWorkload, WorkloadExplanation
from rebalancer.planning.planner import plan_prepared
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.rounding import by_resource

_PENDING = "Pending"


def explain_workload(prepared: PreparedInputs, kind: str, namespace: str, name: str) -> WorkloadExplanation:
    """Every pod that the workload controls, itself or through another, with the plan's verdict."""
    plan = plan_prepared(prepared)
    moves = {move.pod.uid: move for move in plan.moves}
    kept = {item.pod.uid: item for item in plan.kept}
    pods = []
    for row in map(PodRow, range(len(prepared.pods))):
        if not _belongs(prepared, row, kind, namespace, name):
            continue
        node, uid = NodeRow(int(prepared.pods.node[row])), prepared.pods.uids[row]
        bound = node >= 0
        hot = bound and bool(prepared.hotness.hot[node])
        verdict, because = (
            verdict_of(prepared, row, moves.get(uid), kept.get(uid), hot=hot)
            if bound
            else (_PENDING, "it is not bound to a node that was read")
        )
        pods.append(
            PodOfWorkload(
                pod=prepared.pod_reference(row),
                node=prepared.inputs.snapshot.nodes.names[node] if bound else "",
                hot=hot,
                share=by_resource(prepared.hotness.names, share_of(prepared, row, node)) if bound else {},
                verdict=verdict,
                because=because,
            )
        )
    pods.sort(key=lambda item: (item.verdict != MOVED, not item.hot, item.pod.full_name))
    return WorkloadExplanation(
        source=plan.source,
        policy=plan.policy,
        inputs=plan.inputs,
        now=plan.now,
        namespace=namespace,
        workload=f"{kind}/{name}",
        pods=tuple(pods),
    )


def _belongs(prepared: PreparedInputs, row: PodRow, kind: str, namespace: str, name: str) -> bool:
    if prepared.pods.namespaces[row] != namespace:
        return False
    owner = prepared.pods.class_of(row).owner
    wanted = (kind, name)
    if (owner.kind, owner.name) == wanted or prepared.eviction.workload(row).name == f"{kind}/{name}":
        return True
    above = prepared.eviction.workloads.chain(row)
    return any((found, record.metadata.name) == wanted for found, record in above)
