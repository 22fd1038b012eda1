"""Rules about pods of Jobs: whether the policy lets them go, what it costs the Job, and when the Job ends.

A Job's pod starts its work anew where it lands, so moving one that is about to end gains nothing and loses
all it has done. When a Job ends is known from its deadline, and guessed from earlier Jobs of its CronJob:

    report-4   started 50 min ago; report-1, -2 and -3 took 58, 60 and 63 min: it should end in 10 min
    import-9   started 50 min ago, activeDeadlineSeconds 3600: it ends in 10 min at the latest
"""

from __future__ import annotations

import math
import statistics

from rebalancer.cluster import times
from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.records import Workload
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason, Reason

_DISRUPTION_CONDITION = "DisruptionTarget"  # what the API sets on a pod it evicts
_DEFAULT_BACKOFF_LIMIT = 6
# A Job that has run this many times as long as those before it is no longer taken to end soon.
_OVERDUE = 2.0


def job(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods of Jobs, where the policy does not allow it."""
    owner = context.pods.class_of(row).owner
    if owner.kind != "Job" or context.policy.evictable.jobs:
        return None
    return KeptReason(Reason.JOB, f"belongs to Job {owner.name}")


def job_would_fail(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods of Jobs to which an eviction counts as a failure too many."""
    owner = context.pods.class_of(row).owner
    if owner.kind != "Job":
        return None
    record = context.workload(row).record
    if record is None:
        return KeptReason(
            Reason.JOB_WOULD_FAIL, f"Job {owner.name} was not read: how many failures it has left is unknown"
        )
    if _ignores_disruption(record):
        return None
    limit = record.spec.backoff_limit
    limit = _DEFAULT_BACKOFF_LIMIT if limit is None else limit
    failed = record.status.failed
    if failed + 1 <= limit:
        return None
    return KeptReason(
        Reason.JOB_WOULD_FAIL, f"Job {owner.name} has failed {failed} times, backoffLimit {limit}"
    )


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


def ends_soon(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods of Jobs that will end within the policy's minJobRemaining, as far as anybody can tell."""
    workload, least = context.workload(row), context.policy.evictable.min_job_remaining
    record = workload.record
    if workload.owner.kind != "Job" or record is None or not least:
        return None
    started = _time(record.status.start_time)
    elapsed = context.inputs.now - (float(context.pods.created[row]) if math.isnan(started) else started)
    deadline = record.spec.active_deadline_seconds
    if deadline is not None and deadline - elapsed < least:
        because = (
            f"Job {workload.owner.name} ends at its deadline in {max(deadline - elapsed, 0) / 60:.0f} min"
        )
        return KeptReason(Reason.ENDS_SOON, because)
    earlier = [
        taken for job in context.workloads.sibling_jobs(record) if not math.isnan(taken := _taken(job))
    ]
    if not earlier:
        return None
    usual = statistics.median(earlier)
    if usual - elapsed >= least or elapsed > _OVERDUE * usual:
        return None
    because = (
        f"Job {workload.owner.name} has run {elapsed / 60:.0f} min, those before it took {usual / 60:.0f} min"
    )
    return KeptReason(Reason.ENDS_SOON, because)


def _taken(job: Workload) -> float:
    """Seconds from a Job's start to its completion; NaN when it did not complete."""
    return _time(job.status.completion_time) - _time(job.status.start_time)


def _time(text: str | None) -> float:
    try:
        return times.parse_optional(text)
    except ValueError:
        return math.nan
