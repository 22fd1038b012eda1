"""Rules about earlier runs: a workload that was moved a short time ago stays, longer if it landed badly."""

from __future__ import annotations

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.eviction.pod_rules import age_text
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.state import BAD_RESULTS


def cooldown(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods of a workload that was moved within its cooldown."""
    workload, planning, now = context.workload(row), context.policy.planning, context.inputs.now
    history = context.history
    cooldown = history.cooldown_seconds(
        now,
        first=planning.cooldown,
        most=planning.cooldown_max,
        window=planning.cooldown_window,
        workload=workload.key,
        controller_uid=workload.owner.uid,
    )
    for seconds, results, reason, name in (
        (planning.bad_landing_cooldown, BAD_RESULTS, Reason.LANDED_BADLY, "badLandingCooldown"),
        (cooldown, None, Reason.COOLDOWN, "cooldown"),
    ):
        last = history.in_cooldown(
            now, seconds, workload=workload.key, controller_uid=workload.owner.uid, results=results
        )
        if last is not None:
            ago = age_text(max(0.0, now - last.evicted_at))
            because = f"{workload.name} was moved {ago} ago ({last.result}), {name} {age_text(seconds)}"
            return KeptReason(reason, because)
    return None
