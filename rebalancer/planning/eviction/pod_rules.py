"""Rules that read the pod itself: its kind, node, namespace, labels, priority, annotations, age and grace.

The first six hold whatever the policy says; the others are the policy's wishes.
"""

from __future__ import annotations

import math

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.cluster.pods import EVICTION_IN_PROGRESS, MIRROR_ANNOTATION
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.workloads.lookup import grace_period_seconds
from rebalancer.policy import parse_duration

PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"
_NEVER = str((1 << 31) - 1)  # the cost that koordinator takes for: never evict
_STATIC_SOURCES = ("file", "http")


def age_text(seconds: float) -> str:
    """Minutes up to two hours, then hours."""
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def static(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Static pods, which the kubelet of their node makes from a file or a URL."""
    annotations = context.pods.annotations[row]
    if MIRROR_ANNOTATION in annotations or annotations.get("kubernetes.io/config.source") in _STATIC_SOURCES:
        return KeptReason(Reason.STATIC_POD, "a static pod, made by its node's kubelet")
    if context.pods.class_of(row).owner.kind == "Node":
        return KeptReason(Reason.STATIC_POD, "owned by its node")
    return None


def daemon_set(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods of a DaemonSet, which come back on the node they left."""
    owner = context.pods.class_of(row).owner
    return (
        KeptReason(Reason.DAEMON_SET, f"belongs to DaemonSet {owner.name}")
        if owner.kind == "DaemonSet"
        else None
    )


def terminating(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods that are being deleted, or that somebody else is evicting."""
    pods = context.pods
    if pods.terminating[row]:
        return KeptReason(Reason.TERMINATING, "is already being deleted")
    if EVICTION_IN_PROGRESS in pods.annotations[row]:
        return KeptReason(
            Reason.TERMINATING, f"is being evicted already: it has the annotation {EVICTION_IN_PROGRESS}"
        )
    why = context.foreign_evictions.why_leaving(pods.namespaces[row], pods.names[row], pods.uids[row])
    return KeptReason(Reason.TERMINATING, f"is being evicted already: {why}") if why else None


def evictions_read(context: EvictionContext, _row: PodRow) -> KeptReason | None:
    """Any pod, when requests for evictions could not be listed."""
    unread = context.foreign_evictions.unread
    if unread is None:
        return None
    because = f"{unread.name}s were not read: whether somebody else is evicting it is unknown"
    return KeptReason(Reason.UNPREDICTABLE, because)


def node_ready(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods on a node that is not Ready: its kubelet would not confirm that they are gone."""
    node = int(context.pods.node[row])
    if node >= 0 and context.nodes.ready[node]:
        return None
    return KeptReason(Reason.NODE_NOT_READY, "its node is not Ready")


def node_leaving(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods on a node that is about to be removed: whoever removes it evicts them."""
    node = int(context.pods.node[row])
    leaving = why_leaving(context.nodes.records[node]) if node >= 0 else ""
    return KeptReason(Reason.NODE_LEAVING, f"its node {leaving}") if leaving else None


def system(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """This program itself, and the workloads that plans rely on."""
    inputs = context.inputs
    if context.pods.full_name(row) == inputs.own_pod:
        return KeptReason(Reason.SYSTEM_COMPONENT, "this program runs in it")
    if context.workload(row).key in inputs.system_workloads:
        return KeptReason(Reason.SYSTEM_COMPONENT, "the scheduler or a load source that plans rely on")
    return None


def namespace(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Namespaces that the policy leaves alone."""
    namespace = context.pods.namespaces[row]
    if context.policy.evictable.namespaces.allows(namespace):
        return None
    return KeptReason(Reason.NAMESPACE, f"the policy leaves namespace {namespace} alone")


def labels(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods that the policy's podSelector leaves out."""
    selector = context.policy.evictable.pod_selector
    if selector is None or selector.selects(context.pods.class_of(row).labels):
        return None
    return KeptReason(Reason.LABELS, f"its labels are not those of podSelector {selector}")


def priority(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Priorities that are not below priorityBelow."""
    priority, below = context.pods.class_of(row).priority, context.policy.evictable.priority_below
    return (
        KeptReason(Reason.PRIORITY, f"priority {priority} is not below {below}")
        if priority >= below
        else None
    )


def annotated(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Annotations of others that ask not to be evicted."""
    annotations = context.pods.annotations[row]
    if PREFER_NO_EVICTION in annotations:
        return KeptReason(Reason.ANNOTATION, f"has the annotation {PREFER_NO_EVICTION}")
    if annotations.get(SAFE_TO_EVICT) == "false":
        return KeptReason(Reason.ANNOTATION, f'has the annotation {SAFE_TO_EVICT}: "false"')
    if annotations.get(EVICTION_COST, "").strip() == _NEVER:
        return KeptReason(
            Reason.ANNOTATION, f'has the annotation {EVICTION_COST}: "{_NEVER}", which means never'
        )
    value = annotations.get(DO_NOT_DISRUPT)
    if value is None or value == "false":
        return None
    if _disruptable_after(value, context.inputs.now - float(context.pods.created[row])):
        return None
    return KeptReason(Reason.ANNOTATION, f'has the annotation {DO_NOT_DISRUPT}: "{value[:40]}"')


def _disruptable_after(value: str, age: float) -> bool:
    """Whether a duration since the pod's creation has passed; a value that is none protects."""
    try:
        return age >= parse_duration(value)
    except ValueError:
        return False


def young(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods younger than minAge, or of unknown age."""
    age = context.inputs.now - float(context.pods.created[row])
    least = context.policy.evictable.min_age
    if math.isnan(age):
        return KeptReason(Reason.TOO_YOUNG, "its age is not known")
    return (
        KeptReason(Reason.TOO_YOUNG, f"is {age_text(age)} old, minAge {age_text(least)}")
        if age < least
        else None
    )


def grace_period(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A pod that may take longer to end than a wave waits."""
    grace = grace_period_seconds(context.pods.class_of(row))
    timeout = context.policy.execution.wave_timeout
    if grace < timeout:
        return None
    return KeptReason(Reason.GRACE_PERIOD, f"it may take {grace} s to end, waveTimeout is {timeout:g} s")


def window(context: EvictionContext, row: PodRow) -> KeptReason | None:  # noqa: ARG001 - rules share one signature
    """Outside the policy's windows nothing is evicted."""
    windows = context.policy.evictable.windows
    if not windows or any(item.holds(context.inputs.now) for item in windows):
        return None
    return KeptReason(Reason.WINDOW, f"evictions are made only {' or '.join(map(str, windows))}")
