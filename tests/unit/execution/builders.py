"""Small moves, pods and plans."""

from __future__ import annotations

from typing import Any

from rebalancer.cluster import records, times
from rebalancer.execution.evict import Attempt, Verdict
from rebalancer.execution.observed_pods import ObservedCondition, ObservedPod, ObservedSpec, ObservedStatus
from rebalancer.execution.outcomes import Outcomes
from rebalancer.planning.plan import Landing, Move, Plan, PodReference
from rebalancer.state.results import Result

NOW = 1_700_000_000.0


def a_move(
    name: str = "web-1",
    *,
    to: tuple[str, ...] = ("cool",),
    wave: int = 1,
    controller: str = "rs-uid",
    kind: str = "ReplicaSet",
    namespace: str = "shop",
) -> Move:
    return Move(
        pod=PodReference(
            namespace=namespace,
            name=name,
            uid=f"uid-{name}",
            workload="Deployment/web",
            controller_kind=kind,
            controller_name="web",
            controller_uid=controller,
        ),
        from_node="hot",
        landings=tuple(Landing(node, 1 / len(to)) for node in to),
        gain={"cpu": 10.0},
        wave=wave,
        because="hot is at 90%",
        load={"cpu": 500, "memory": 1 << 20},
    )


def a_granted(move: Move, at: float = NOW) -> Attempt[Move]:
    """An eviction that the API server granted."""
    return Attempt(move=move, verdict=Verdict.EVICTED, message="accepted", at=at, not_before=at)


def a_plan(*moves: Move) -> Plan:
    return Plan(source="test", policy="test", inputs="digest", now=times.render(NOW), moves=moves)


def an_observed_pod(
    name: str,
    *,
    uid: str = "",
    node: str = "",
    created: float = NOW + 1,
    ready: bool = False,
    terminating: bool = False,
    phase: str = "",
    controller: str = "rs-uid",
    namespace: str = "shop",
    reason: str | None = None,
    message: str | None = None,
) -> ObservedPod:
    conditions = [
        ObservedCondition("PodScheduled", "True" if node else "False", reason, message),
        ObservedCondition("Ready", "True" if ready else "False", None, None, times.render(created + 2)),
    ]
    owner = records.OwnerReference("ReplicaSet", "web", controller, "apps/v1", True)
    return ObservedPod(
        metadata=records.Metadata(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            creation_timestamp=times.render(created),
            deletion_timestamp=times.render(created) if terminating else None,
            owner_references=[owner] if controller else None,
        ),
        spec=ObservedSpec(node),
        status=ObservedStatus(phase or ("Running" if node else "Pending"), reason, message, conditions),
    )


def a_pod_document(
    name: str, *, uid: str = "", node: str = "hot", terminating: bool = False, **metadata: Any
) -> dict[str, Any]:
    """A pod as the API server sends it."""
    times_ = {"deletionTimestamp": times.render(NOW)} if terminating else {}
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": uid or f"uid-{name}",
            "creationTimestamp": times.render(NOW - 3600),
            **times_,
            **metadata,
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }


def results(outcomes: Outcomes) -> list[Result]:
    return [outcome.result for outcome in outcomes.outcomes]
