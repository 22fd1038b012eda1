"""How far a rolling update has come: which pod it made, and whether the one it replaces is gone.

new pod ready on a planned node, old pod gone     Restarted, settled
new pod bound to a node that fails the check      Unexpected, settled
new pod Pending, not ready, or missing            RolloutStalled unless that changes before the timeout:
                                                  the old pod goes on serving
new pod ready, old pod still terminating          Restarted unless that changes
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.outcomes import Result
from rebalancer.planning.plan import Move
from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT

_REPLICA_SET = "ReplicaSet"


def made_by_rollout(
    move: Move, restarted_at: str, known: Iterable[str], now: Iterable[ObservedPod]
) -> ObservedPod | None:
    """The pod that the rolling update made: it has the new template's annotation, and another ReplicaSet.

    ``known`` are the uids of pods that existed before. Of several, one that has not failed, the oldest first.
    """
    earlier = set(known)
    found = [
        pod
        for pod in now
        if pod.metadata.uid not in earlier
        and pod.metadata.namespace == move.pod.namespace
        and (pod.metadata.annotations or {}).get(RESTARTED_AT) == restarted_at
        and pod.controller_kind == _REPLICA_SET
        and pod.controller_uid != move.pod.controller_uid
        and not pod.terminating
    ]
    return min(found, key=lambda pod: (pod.failed, pod.created_at, pod.metadata.uid), default=None)


def appraise_rollout(
    move: Move, new: ObservedPod | None, old: ObservedPod | None, objection: str | None, *, planned: bool
) -> tuple[Result, str, bool]:
    """Result, reason, and whether waiting longer would not change it.

    ``objection`` is why the node of the new pod is not acceptable, ``planned`` whether the plan listed it.
    """
    where = f"on {new.spec.node_name}" if new is not None else ""
    if new is not None and objection is not None:
        return Result.UNEXPECTED, objection, True
    lacking = _lacking(new)
    if lacking:
        return Result.ROLLOUT_STALLED, f"{lacking}; {_of_the_old_pod(move, old)}", False
    if old is not None and not old.terminating:
        because = f"the new pod is ready {where}; {_of_the_old_pod(move, old)}"
        return Result.ROLLOUT_STALLED, because, False
    because = "as planned" if planned else "not listed in the plan, yet acceptable"
    if old is not None:
        because += "; the old pod is still terminating"
    result = Result.RESTARTED if planned else Result.RESTARTED_ELSEWHERE
    return result, because, old is None


def _lacking(new: ObservedPod | None) -> str:
    """What the new pod still lacks; empty when it serves."""
    if new is None:
        return "its Deployment has made no new pod"
    if new.failed:
        why = new.status.reason or new.status.message or "no reason is given"
        return f"the new pod failed: {why[:200]}"
    if not new.spec.node_name:
        return new.why_pending
    return "" if new.ready_at is not None else f"the new pod is on {new.spec.node_name}, not ready yet"


def _of_the_old_pod(move: Move, old: ObservedPod | None) -> str:
    """What became of the old pod, and how to take back a rolling update that does not get on."""
    if old is None or old.terminating:
        return "the old pod has ended"
    name = move.pod.workload.partition("/")[2]
    undo = f"kubectl -n {move.pod.namespace} rollout undo deployment/{name}"
    return f"the old pod still serves on {move.from_node} ({undo} takes the update back)"
