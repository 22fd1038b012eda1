"""Whether the rolling update of a Deployment moves its only pod without a moment in which none serves.

The rolling update of a Deployment with one replica and maxSurge 1 starts the new pod beside the old one, and
ends the old one once the new one is available. So a change of the pod template, as ``kubectl rollout
restart`` makes one, moves the pod to wherever the scheduler puts the new one:

    maxSurge 25 %, rounded up to 1       the new pod is made while the old one serves
    maxUnavailable 25 %, rounded down    to 0: the old pod is not ended before the new one is available
    maxUnavailable 1                     the old pod may be ended at once, which is no better than an eviction

Source: kubernetes v1.34.4 pkg/controller/deployment/util/deployment_util.go, ResolveFenceposts, and
rolling.go, reconcileOldReplicaSets.
"""

from __future__ import annotations

from rebalancer.cluster.records import Workload
from rebalancer.planning.workloads.lookup import controller_of

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation of the pod template that ``kubectl rollout restart`` sets; a new value starts a rollout."""

_ROLLING_UPDATE = "RollingUpdate"
_DEFAULT = "25%"  # of maxSurge and maxUnavailable alike
# What tools that apply manifests from a repository write on the objects they apply.
_APPLIED_BY = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}


def why_no_surge(deployment: Workload) -> str:
    """Why a restart of a Deployment would not move its only pod without downtime; empty when it would.

    What is known of it from elsewhere, such as its autoscalers and its pods, is not asked here.
    """
    return _why_not_settled(deployment) or _why_not_by_strategy(deployment) or _why_undone(deployment)


def min_ready_seconds(workload: Workload) -> float:
    """How long a new pod has to be ready before it is available: a rollout ends the old one then."""
    return float(max(workload.spec.min_ready_seconds, 0))


def _why_not_settled(deployment: Workload) -> str:
    """Why a restart would meet a Deployment that is busy, stopped, or not one of a single replica."""
    spec = deployment.spec
    status = deployment.status
    replicas = 1 if spec.replicas is None else spec.replicas
    if deployment.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if replicas != 1:
        return f"it wants {replicas} replicas"
    if spec.paused:
        return "its rollouts are paused"
    if status.observed_generation < deployment.metadata.generation:
        return "its status is older than its spec"
    counts = {
        "pods": status.replicas,
        "updated pods": status.updated_replicas,
        "ready pods": status.ready_replicas,
        "available pods": status.available_replicas,
    }
    odd = next((name for name, count in counts.items() if count != 1), None)
    return f"it has {counts[odd]} {odd}, one is wanted" if odd else ""


def _why_not_by_strategy(deployment: Workload) -> str:
    strategy = deployment.spec.strategy
    kind = (strategy.type if strategy else "") or _ROLLING_UPDATE
    if kind != _ROLLING_UPDATE:
        return f"its strategy is {kind}, which ends the old pod first"
    rolling = strategy.rolling_update if strategy else None
    given = (rolling.max_surge, rolling.max_unavailable) if rolling else (None, None)
    surge, unavailable = (_DEFAULT if value is None else value for value in given)
    try:
        if _percent_of_one(surge) <= 0:
            return f"its maxSurge is {surge}: no new pod is made before the old one ends"
        if _percent_of_one(unavailable) >= 100:
            return f"its maxUnavailable is {unavailable}: the old pod may end before the new one is available"
    except ValueError:
        return f"its maxSurge {str(surge)[:20]!r} or maxUnavailable {str(unavailable)[:20]!r} is malformed"
    return ""


def _percent_of_one(value: int | str) -> int:
    """A number or a percentage of one replica, in percent."""
    if isinstance(value, int):
        return 100 * value
    if not value.endswith("%"):
        raise ValueError(value)
    return int(value.removesuffix("%"))


def _why_undone(deployment: Workload) -> str:
    """Who may take the change of the template back, which would move the pod once more."""
    above = controller_of(deployment.metadata)
    if above is not None:
        return f"{above.kind}/{above.name} owns it and may undo the restart"
    marks = {**(deployment.metadata.labels or {}), **(deployment.metadata.annotations or {})}
    tool = next((name for mark, name in _APPLIED_BY.items() if mark in marks), None)
    return f"{tool} applies it and may undo the restart" if tool else ""
