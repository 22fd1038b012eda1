"""Rules about autoscalers: a workload that is being resized, or whose new pods get other requests."""

from __future__ import annotations

import math

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason, Reason

_JUST_SCALED_SECONDS = 300.0


def autoscalers_read(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Any workload that can be scaled, when autoscalers could not be listed."""
    if context.pods.class_of(row).owner.kind == "Job":
        return None
    unread = context.autoscalers.unread
    if unread is not None:
        because = f"{unread.name}s were not read: whether one changes its workload is unknown"
        return KeptReason(Reason.UNPREDICTABLE, because)
    return None


def autoscaler(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A workload that a HorizontalPodAutoscaler is scaling, or scaled just now."""
    for name, status in context.autoscalers.of(context.workloads.chain(row), context.pods.namespaces[row]):
        if status.desired_replicas != status.current_replicas:
            because = f"{name} wants {status.desired_replicas} replicas, there are {status.current_replicas}"
            return KeptReason(Reason.AUTOSCALING, because)
        ago = context.inputs.now - context.autoscalers.scaled_at(status)
        if not math.isnan(ago) and ago < _JUST_SCALED_SECONDS:
            return KeptReason(Reason.AUTOSCALING, f"{name} scaled it {max(ago, 0.0) / 60:.0f} min ago")
    return None


def vertical_autoscaler(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A workload whose replacement a VerticalPodAutoscaler would give other requests."""
    found = context.autoscalers.rewriting(context.workloads.chain(row), context.pods.namespaces[row])
    if not found:
        return None
    name, mode = found
    return KeptReason(
        Reason.VERTICAL_AUTOSCALING, f"{name} in mode {mode} may give its replacement other requests"
    )
