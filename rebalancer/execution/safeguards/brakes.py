"""The brakes, checked before each wave: each returns the reason why the run must stop, or None."""

from __future__ import annotations

from collections.abc import Callable

from rebalancer.execution.safeguards.health import ClusterHealth
from rebalancer.execution.safeguards.pause import paused_by_policy
from rebalancer.policy.schema import Safety

Brake = Callable[[Safety, ClusterHealth], str | None]


def paused(safety: Safety, _health: ClusterHealth) -> str | None:
    """The policy pauses all runs."""
    return paused_by_policy(safety) or None


def too_many_not_ready_nodes(safety: Safety, health: ClusterHealth) -> str | None:
    """More nodes are not ready than the policy allows."""
    count, most = len(health.not_ready_nodes), safety.max_not_ready_nodes.of(health.node_count)
    if count <= most:
        return None
    names, limit = _some(health.not_ready_nodes), safety.max_not_ready_nodes
    return f"{count} of {health.node_count} nodes are not ready ({names}); the limit is {limit}"


def too_many_pending_pods(safety: Safety, health: ClusterHealth) -> str | None:
    """More pods wait for a node than the policy allows."""
    count, limit = len(health.pending_pods), safety.max_pending_pods
    if count <= limit.of(health.pod_count):
        return None
    of_all = f" of {health.pod_count}" if limit.percent else ""
    setting = f"the limit is {limit} (safety.maxPendingPods)"
    return f"{count}{of_all} pods are Pending ({_some(health.pending_pods)}); {setting}"


def scheduler_not_alive(_safety: Safety, health: ClusterHealth) -> str | None:
    """A scheduler that must place replacements is known to be down."""
    dead = [scheduler for scheduler in health.schedulers if scheduler.alive is False]
    return f"the scheduler {dead[0].name} is not alive: {dead[0].because}" if dead else None


def scheduler_unknown(safety: Safety, health: ClusterHealth) -> str | None:
    """It cannot be determined whether a scheduler is alive, and the policy does not accept that."""
    unknown = unknowns(health)
    if not unknown or safety.unknown_scheduler == "proceed":
        return None
    return (
        f"{unknown[0]}. Name the Lease that it holds (scheduler.lease in the policy), or accept this with "
        "safety.unknownScheduler: proceed"
    )


BRAKES: tuple[Brake, ...] = (
    paused,
    too_many_not_ready_nodes,
    too_many_pending_pods,
    scheduler_not_alive,
    scheduler_unknown,
)


def engaged_brake(safety: Safety, health: ClusterHealth) -> str | None:
    """Why the first engaged brake stops the run, or None."""
    return next((reason for brake in BRAKES if (reason := brake(safety, health))), None)


def unknowns(health: ClusterHealth) -> tuple[str, ...]:
    """What could not be determined: reported, where the policy does not stop the run for it."""
    return tuple(
        f"whether the scheduler {scheduler.name} is alive is not known: {scheduler.because}"
        for scheduler in health.schedulers
        if scheduler.alive is None
    )


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown}, …" if len(names) > 3 else shown
