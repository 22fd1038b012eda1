"""Protections that come from a pod's workload: rollouts, replicas, revisions, autoscalers, Jobs, quotas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rebalancer.cluster.records import Workload
from rebalancer.planning.reasons import KeptReason, Reason

if TYPE_CHECKING:
    from rebalancer.planning.eviction.protections import Protections

REVISION_LABEL = "controller-revision-hash"
_LEFT_BY_ITS_NODE = "DisruptionTarget"
_DEFAULT_BACKOFF_LIMIT = 6
_SCALED_LATELY_SECONDS = 300.0
_DEFAULT_GRACE_SECONDS = 30


def _stale(record: Workload) -> bool:
    return record.status.observed_generation < record.metadata.generation


def rollout(self: Protections, row: int) -> KeptReason | None:
    """A workload whose controller still has pods to replace, or has not looked at its newest spec."""
    for kind, record in self.workloads.chain(row):
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
        known = bool(status.update_revision and status.current_revision)
        if kind == "StatefulSet" and known and status.update_revision != status.current_revision:
            return KeptReason(Reason.ROLLOUT, f"{name} goes over to {status.update_revision}")
    return None


def unready_replicas(self: Protections, row: int) -> KeptReason | None:
    """A workload that is short of ready pods already."""
    facts = self.workload(row)
    if facts.record is None or facts.owner.kind not in ("ReplicaSet", "StatefulSet", "ReplicationController"):
        return None
    wanted, ready = facts.desired or 0, facts.record.status.ready_replicas
    if ready >= wanted:
        return None
    return KeptReason(Reason.UNREADY_REPLICAS, f"{facts.name} has {ready} of {wanted} replicas ready")


def older_revision(self: Protections, row: int) -> KeptReason | None:
    """A StatefulSet's pod that would come back as another revision, or not, as its partition says."""
    facts = self.workload(row)
    if facts.owner.kind != "StatefulSet" or facts.record is None:
        return None
    update = facts.record.status.update_revision
    own = self.pods.class_of(row).labels.get(REVISION_LABEL, "")
    if not update or not own or update == own:
        return None
    return KeptReason(Reason.OLDER_REVISION, f"it is of revision {own}, {facts.name} is at {update}")


def minimum_replicas(self: Protections, row: int) -> KeptReason | None:
    """A workload smaller than the policy's minReplicas."""
    facts, least = self.workload(row), self.policy.evictable.min_replicas
    if facts.desired is None or facts.desired >= least:
        return None
    return KeptReason(
        Reason.MIN_REPLICAS, f"{facts.name} wants {facts.desired} replicas, minReplicas {least}"
    )


def job(self: Protections, row: int) -> KeptReason | None:
    """Pods of Jobs, but where the policy allows it and an eviction does not count against the Job."""
    owner = self.pods.class_of(row).owner
    if owner.kind != "Job":
        return None
    if not self.policy.evictable.jobs:
        return KeptReason(Reason.JOB, f"belongs to Job {owner.name}")
    record = self.workload(row).record
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
            item.type == _LEFT_BY_ITS_NODE and item.status == "True" for item in rule.on_pod_conditions or ()
        ):
            return rule.action == "Ignore"
        if rule.on_exit_codes is not None:
            return False  # the eviction may end the container with a code it matches
    return False


def grace_period(self: Protections, row: int) -> KeptReason | None:
    """A pod that may take longer to end than a wave waits."""
    grace = self.pods.class_of(row).spec.termination_grace_period_seconds
    grace = _DEFAULT_GRACE_SECONDS if grace is None else grace
    timeout = self.policy.execution.wave_timeout
    if grace < timeout:
        return None
    return KeptReason(Reason.GRACE_PERIOD, f"it may take {grace} s to end, waveTimeout is {timeout:g} s")


def autoscaler(self: Protections, row: int) -> KeptReason | None:
    """A workload that a HorizontalPodAutoscaler is scaling, or scaled just now."""
    for name, status in self.autoscalers.of(self.workloads.chain(row), self.pods.namespaces[row]):
        if status.desired_replicas != status.current_replicas:
            because = f"{name} wants {status.desired_replicas} replicas, there are {status.current_replicas}"
            return KeptReason(Reason.AUTOSCALING, because)
        ago = self.inputs.now - self.autoscalers.scaled_at(status)
        if not math.isnan(ago) and ago < _SCALED_LATELY_SECONDS:
            return KeptReason(Reason.AUTOSCALING, f"{name} scaled it {max(ago, 0.0) / 60:.0f} min ago")
    return None


def vertical_autoscaler(self: Protections, row: int) -> KeptReason | None:
    """A workload whose replacement a VerticalPodAutoscaler would give other requests."""
    found = self.autoscalers.rewriting(self.workloads.chain(row), self.pods.namespaces[row])
    if not found:
        return None
    name, mode = found
    return KeptReason(
        Reason.VERTICAL_AUTOSCALING, f"{name} in mode {mode} may give its replacement other requests"
    )


def controllers_read(self: Protections, row: int) -> KeptReason | None:
    """A workload that a controller above it may be changing just now."""
    above = self.workloads.unread_above(row)
    if above is None:
        return None
    because = f"{above.kind}s were not read: whether {above.kind}/{above.name} is changing it is unknown"
    return KeptReason(Reason.UNPREDICTABLE, because)


def priority_class(self: Protections, row: int) -> KeptReason | None:
    """A pod of a PriorityClass that would refuse its replacement, or give it another priority."""
    template = self.workload(row).template
    name = template.spec.priority_class_name if template else ""
    if not name:
        return None
    if self.priority_classes is None:
        because = f"PriorityClasses were not read: what {name} makes of its replacement is unknown"
        return KeptReason(Reason.UNPREDICTABLE, because)
    priority, own = self.priority_classes.get(name), self.pods.class_of(row).priority
    if priority is None:
        because = f"PriorityClass {name} does not exist any more: its replacement would be refused"
        return KeptReason(Reason.UNPREDICTABLE, because)
    if priority == own:
        return None
    because = f"its priority is {own}, PriorityClass {name} would give its replacement {priority}"
    return KeptReason(Reason.UNPREDICTABLE, because)


def quota(self: Protections, row: int) -> KeptReason | None:
    """No room in a ResourceQuota for a replacement while the pod itself still counts."""
    if self.pods.class_of(row).owner.kind == "StatefulSet":
        return None  # its replacement is made once it is gone
    lacking = self.quotas.lacking(self.pods.class_of(row))
    return KeptReason(Reason.QUOTA, lacking) if lacking else None
