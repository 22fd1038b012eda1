"""Rules that read a pod's workload: its controller, replicas, rollout, revision, and Jobs."""

from __future__ import annotations

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.records import Workload
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.workloads.lookup import RECREATING
from rebalancer.planning.workloads.stateful_sets import is_rolling_out, next_revision, revision_of
from rebalancer.policy import Protection

_DISRUPTION_CONDITION = "DisruptionTarget"  # what the API sets on a pod it evicts
_DEFAULT_BACKOFF_LIMIT = 6


def controller(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods without a controller that would recreate them."""
    owner = context.pods.class_of(row).owner
    if not owner.kind:
        return KeptReason(Reason.NO_CONTROLLER, "has no controller: an eviction would delete it for good")
    if owner.kind not in RECREATING:
        return KeptReason(
            Reason.NO_CONTROLLER, f"its controller {owner.kind}/{owner.name} is of an unknown kind"
        )
    if context.workloads.was_read(owner) and context.workload(row).record is None:
        return KeptReason(
            Reason.NO_CONTROLLER, f"its controller {owner.kind}/{owner.name} does not exist any more"
        )
    return None


def controllers_read(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A workload that a controller above it may be changing just now."""
    above = context.workloads.unread_above(row)
    if above is None:
        return None
    because = f"{above.kind}s were not read: whether {above.kind}/{above.name} is changing it is unknown"
    return KeptReason(Reason.UNPREDICTABLE, because)


def replicas_known(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods of a controller whose number of replicas was not read."""
    workload = context.workload(row)
    if workload.desired is None:
        return KeptReason(
            Reason.UNPREDICTABLE, f"{workload.owner.kind}s were not read: how many it wants is unknown"
        )
    return None


def single_replica(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """The only replica of a workload."""
    if Protection.SINGLE_REPLICA not in context.policy.evictable.protect:
        return None
    workload = context.workload(row)
    if workload.desired is not None and workload.desired <= 1:
        return KeptReason(Reason.SINGLE_REPLICA, f"{workload.name} wants {workload.desired} replica")
    return None


def minimum_replicas(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A workload smaller than the policy's minReplicas."""
    workload, least = context.workload(row), context.policy.evictable.min_replicas
    if workload.desired is None or workload.desired >= least:
        return None
    return KeptReason(
        Reason.MIN_REPLICAS, f"{workload.name} wants {workload.desired} replicas, minReplicas {least}"
    )


def unready_replicas(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A workload that is short of ready pods already."""
    workload = context.workload(row)
    if workload.record is None or workload.owner.kind not in (
        "ReplicaSet",
        "StatefulSet",
        "ReplicationController",
    ):
        return None
    wanted, ready = workload.desired or 0, workload.record.status.ready_replicas
    if ready >= wanted:
        return None
    return KeptReason(Reason.UNREADY_REPLICAS, f"{workload.name} has {ready} of {wanted} replicas ready")


def rollout(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A workload whose controller still has pods to replace, or has not looked at its newest spec."""
    for kind, record in context.workloads.chain(row):
        name = f"{kind}/{record.metadata.name}"
        status, wanted = record.status, record.spec.replicas
        if kind not in ("Deployment", "StatefulSet", "ReplicaSet"):
            continue
        if _stale(record):
            return KeptReason(Reason.ROLLOUT, f"the status of {name} is older than its spec")
        wanted = 1 if wanted is None else wanted
        if kind == "Deployment" and status.updated_replicas < min(wanted, status.replicas):
            because = f"{name} has updated {status.updated_replicas} of {wanted} replicas"
            return KeptReason(Reason.ROLLOUT, because)
        if kind == "Deployment" and status.replicas > max(status.updated_replicas, wanted):
            return KeptReason(Reason.ROLLOUT, f"{name} still has pods of an older revision, or too many")
        if kind == "StatefulSet" and is_rolling_out(record):
            return KeptReason(Reason.ROLLOUT, f"{name} goes over to {status.update_revision}")
    return None


def _stale(record: Workload) -> bool:
    return record.status.observed_generation < record.metadata.generation


def older_revision(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A StatefulSet's pod that would come back as another revision than it is of."""
    workload = context.workload(row)
    if workload.owner.kind != "StatefulSet" or workload.record is None:
        return None
    own = revision_of(context.pods.class_of(row))
    coming = next_revision(workload.record, context.pods.names[row])
    if not coming or not own or coming == own:
        return None
    if coming == workload.record.status.update_revision:
        return KeptReason(Reason.OLDER_REVISION, f"it is of revision {own}, {workload.name} is at {coming}")
    because = f"it is of revision {own}, {workload.name} would recreate it as {coming}: see its partition"
    return KeptReason(Reason.OLDER_REVISION, because)


def job(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods of Jobs, but where the policy allows it and an eviction does not count against the Job."""
    owner = context.pods.class_of(row).owner
    if owner.kind != "Job":
        return None
    if not context.policy.evictable.jobs:
        return KeptReason(Reason.JOB, f"belongs to Job {owner.name}")
    record = context.workload(row).record
    if record is None:
        return KeptReason(
            Reason.JOB, f"Job {owner.name} was not read: whether it bears an eviction is unknown"
        )
    if _ignores_disruption(record):
        return None
    limit = record.spec.backoff_limit
    limit = _DEFAULT_BACKOFF_LIMIT if limit is None else limit
    failed = record.status.failed
    if failed + 1 <= limit:
        return None
    return KeptReason(Reason.JOB, f"Job {owner.name} has failed {failed} times, backoffLimit {limit}")


def _ignores_disruption(record: Workload) -> bool:
    """Whether the first rule of the pod failure policy that an eviction matches ignores it."""
    policy = record.spec.pod_failure_policy
    for rule in (policy.rules if policy else None) or ():
        if any(
            item.type == _DISRUPTION_CONDITION and item.status == "True"
            for item in rule.on_pod_conditions or ()
        ):
            return rule.action == "Ignore"
        if rule.on_exit_codes is not None:
            return False  # the eviction may end the container with a code it matches
    return False
