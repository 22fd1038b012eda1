"""Rules that read a pod's workload: its controller, replicas and rollout, its Job, its autoscalers.

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
from rebalancer.cluster.kinds import JOBS
from rebalancer.cluster.pod_classes import Owner
from rebalancer.cluster.records import Workload
from rebalancer.counting import counted
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.workloads import jobs, stateful_sets
from rebalancer.planning.workloads.lookup import RECREATING, grace_period_seconds, is_read_kind
from rebalancer.planning.workloads.rolling_updates import min_ready_seconds, why_no_surge
from rebalancer.policy.schema import Protection

_WITH_READY_REPLICAS = ("ReplicaSet", "StatefulSet", "ReplicationController")
_LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"  # label of its pods


def controller(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """Pods without a controller that would recreate them."""
    owner = context.pods.class_of(row).owner
    if not owner.kind:
        return "has no controller: an eviction would delete it for good"
    if owner.kind not in RECREATING and not _is_named(context, owner):
        message = (
            f"its controller {owner.kind}/{owner.name} ({owner.api_version}) is of a kind that is not known "
            "to recreate pods; evictable.controllers can name it"
        )
        return NotMoved(Reason.NO_CONTROLLER, message, ("evictable.controllers",))
    record = context.workload(row).record
    foreign = jobs.foreign_controller(record) if owner.kind == "Job" and record else ""
    if foreign:
        return f"Job/{owner.name} is managed by {foreign}, which is not known to recreate pods"
    if context.workloads.was_read(owner) and record is None:
        return f"its controller {owner.kind}/{owner.name} does not exist any more"
    return ""


def restarts_together(context: EvictionContext, row: PodRow) -> str:
    """Pods of a LeaderWorkerSet, which recreates a whole group when a pod of it ends, unless told otherwise.

    Source: lws v0.6.2 pkg/controllers/pod_controller.go:192.
    """
    name = context.pods.class_of(row).labels.get(_LEADER_WORKER_SET)
    if not name:
        return ""
    return (
        f"LeaderWorkerSet {name} may restart all pods of its group with it (restartPolicy); the annotation "
        'rebalancer/evict: "true" says that it does not'
    )


def _is_named(context: EvictionContext, owner: Owner) -> bool:
    """Whether the policy says that controllers of the owner's kind recreate pods; versions do not matter."""
    group = owner.api_version.partition("/")[0]
    return any(
        controller.kind == owner.kind and controller.api_version.partition("/")[0] == group
        for controller in context.policy.evictable.controllers
    )


def controllers_read(context: EvictionContext, row: PodRow) -> str:
    """A workload that a controller above it may be changing just now."""
    above = context.workloads.unread_above(row)
    if above is None:
        return ""
    return f"{above.kind}s were not read: whether {above.kind}/{above.name} is changing it is unknown"


def replicas_known(context: EvictionContext, row: PodRow) -> str:
    """Pods of a controller whose number of replicas was not read, or that is gone."""
    workload = context.workload(row)
    if workload.desired is not None:
        return ""
    if workload.owner.kind and not context.workloads.was_read(workload.owner):
        return f"{workload.owner.kind}s were not read: how many it wants is unknown"
    return "no controller says how many are wanted"


def single_replica(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """The only replica of a workload, unless a rolling update may move it."""
    evictable = context.policy.evictable
    workload = context.workload(row)
    if workload.desired is None or workload.desired > 1:
        return ""
    wants = f"{workload.name} wants {workload.desired} replica"
    if evictable.single_replica == "surge":
        why = why_not_restarted(context, row)
        message = f"{wants}, and no rolling update moves it without downtime: {why}"
        return NotMoved(Reason.SINGLE_REPLICA, message, ("evictable.singleReplica",)) if why else ""
    return wants if Protection.SINGLE_REPLICA in evictable.protect else ""


def moves_by_restart(context: EvictionContext, row: PodRow) -> bool:
    """Whether a pod is moved by the rolling update of its Deployment, and not by an eviction."""
    if context.policy.evictable.single_replica != "surge" or (context.workload(row).desired or 0) > 1:
        return False
    return not why_not_restarted(context, row)


def why_not_restarted(context: EvictionContext, row: PodRow) -> str:
    """Why the rolling update of a Deployment would not move its only pod without downtime; else empty."""
    chain = context.workloads.chain(row)
    if [kind for kind, _ in chain[:2]] != ["ReplicaSet", "Deployment"]:
        return "it belongs to no Deployment that was read"
    (_, replica_set), (_, deployment) = chain[:2]
    why = why_no_surge(deployment)
    if why:
        return why
    others = context.workloads.other_replica_sets(replica_set)
    if others:
        return f"ReplicaSet/{others[0]} of it has pods as well"
    scaler = context.autoscalers.scaling(chain, context.pods.namespaces[row])
    if scaler:
        return f"{scaler} scales it, and may do so while the rolling update runs"
    full = context.quotas.without_room(context.pods.namespaces[row], "count/replicasets.apps")
    if full:
        return full
    unread = next((name for name, claim in context.claims_of(context.pods.class_of(row)) if not claim), None)
    if unread:
        return f"claim {unread} was not read: whether two pods may use it at once is unknown"
    takes = min_ready_seconds(deployment) + grace_period_seconds(context.pods.class_of(row))
    timeout = context.policy.execution.wave_timeout
    if takes >= timeout:
        return f"its minReadySeconds and its grace period are {takes:g} s, waveTimeout is {timeout:g} s"
    return ""


def minimum_replicas(context: EvictionContext, row: PodRow) -> str:
    """A workload smaller than the policy's minReplicas."""
    workload = context.workload(row)
    least = context.policy.evictable.min_replicas
    if workload.desired is None or workload.desired >= least:
        return ""
    return f"{workload.name} wants {counted(workload.desired, 'replica')}, minReplicas {least}"


def unready_replicas(context: EvictionContext, row: PodRow) -> str:
    """A workload that is short of ready pods already."""
    workload = context.workload(row)
    if workload.counted:
        ready = int(context.pods.ready[context.workloads.staying_pods(workload.owner.uid)].sum())
    elif workload.record is None or workload.owner.kind not in _WITH_READY_REPLICAS:
        return ""
    else:
        ready = workload.record.status.ready_replicas
    desired = workload.desired or 0
    short = f"{workload.name} has {ready:,} of {counted(desired, 'replica')} ready"
    return short if ready < desired else ""


def rollout(context: EvictionContext, row: PodRow) -> str:
    """A workload whose controller still has pods to replace, or has not looked at its newest spec."""
    for kind, record in context.workloads.chain(row):
        name = f"{kind}/{record.metadata.name}"
        status = record.status
        replicas = record.spec.replicas
        if kind not in ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"):
            continue
        if status.observed_generation < record.metadata.generation:
            return f"the status of {name} is older than its spec"
        replicas = 1 if replicas is None else replicas
        if kind == "Deployment" and status.updated_replicas < min(replicas, status.replicas):
            return f"{name} has updated {status.updated_replicas:,} of {counted(replicas, 'replica')}"
        if kind == "Deployment" and status.replicas > max(status.updated_replicas, replicas):
            return f"{name} still has pods of an older revision, or too many"
        if kind == "StatefulSet" and stateful_sets.is_rolling_out(record):
            return f"{name} goes over to {status.update_revision}"
    return _progressing(context, row)


def _progressing(context: EvictionContext, row: PodRow) -> str:
    """A controller of another kind, such as a Rollout of Argo, with pods in several of its ReplicaSets."""
    chain = context.workloads.chain(row)
    above = next((name_of for name_of in chain if not is_read_kind(name_of[0])), None)
    others = context.workloads.other_replica_sets(chain[0][1]) if above and len(chain) > 1 else []
    if above is None or not others:
        return ""
    return f"{above[0]}/{above[1].metadata.name} has pods of ReplicaSet/{others[0]} as well"


def older_revision(context: EvictionContext, row: PodRow) -> str:
    """A StatefulSet's pod that would come back as another revision than it is of."""
    workload = context.workload(row)
    if workload.owner.kind != "StatefulSet" or workload.record is None:
        return ""
    own = stateful_sets.revision_of(context.pods.class_of(row))
    coming = stateful_sets.next_revision(workload.record, context.pods.names[row])
    if not coming or not own or coming == own:
        return ""
    if coming == workload.record.status.update_revision:
        return f"it is of revision {own}, {workload.name} is at {coming}"
    return f"it is of revision {own}, {workload.name} would recreate it as {coming}: see its partition"


_SOON_SECONDS = 1800.0  # within which a Job ends soon: a restart would cost more than the load that is left
# A Job that has run this many times as long as those before it is no longer taken to end soon.
_OVERDUE = 2.0


def job(context: EvictionContext, row: PodRow) -> str:
    """Pods of Jobs, where the policy does not allow it."""
    owner = context.pods.class_of(row).owner
    excluded = owner.kind == "Job" and not context.policy.evictable.jobs
    return f"belongs to Job {owner.name}" if excluded else ""


def job_would_fail(context: EvictionContext, row: PodRow, planned: int = 0) -> str:
    """Pods of Jobs that an eviction may fail; ``planned`` of its pods are evicted before by the same plan."""
    workload = context.workload(row)
    if workload.owner.kind != "Job":
        return ""
    if workload.record is None:
        return f"Job {workload.owner.name} was not read: how many failures it has left is unknown"
    uncounted = planned + _uncounted(context, row, workload.record)
    conditions = {(condition.type, condition.status) for condition in context.pods.fields(row).conditions}
    why = jobs.why_it_would_fail(workload.record, context.pods.annotations[row], conditions, uncounted)
    return f"Job {workload.owner.name}: {why}" if why else ""


def replaced_in_time(context: EvictionContext, row: PodRow, planned: int = 0) -> str:
    """Pods of Jobs that are replaced later than a wave waits; ``planned`` as in ``job_would_fail``."""
    timeout = context.policy.execution.wave_timeout
    takes = seconds_to_replacement(context, row, planned)
    if takes < timeout:
        return ""
    return (
        f"after its failures Job {context.workload(row).owner.name} may replace it only {takes:g} s later, "
        f"waveTimeout is {timeout:g} s"
    )


def seconds_to_replacement(context: EvictionContext, row: PodRow, planned: int = 0) -> float:
    """How long the Job of a pod may take to replace it; 0 where it has none, or none that was read."""
    workload = context.workload(row)
    if workload.owner.kind != "Job" or workload.record is None:
        return 0.0
    return jobs.seconds_to_replacement(
        workload.record,
        context.pods.annotations[row],
        planned + _uncounted(context, row, workload.record),
        grace_period_seconds(context.pods.class_of(row)),
    )


def _uncounted(context: EvictionContext, row: PodRow, job: Workload) -> int:
    """How many pods of a Job are being deleted and are not yet among the failed ones of its status."""
    terminated = job.status.uncounted_terminated_pods
    failed = set((terminated.failed if terminated else None) or ())
    return len(set(context.workloads.terminating_pods(row)) - failed)


def no_replacement(context: EvictionContext, row: PodRow) -> str:
    """Pods that nobody would replace: what they belong to is ending, or has more pods than it wants."""
    return _why_ending(context, row) or _why_not_wanted(context, row)


def _why_ending(context: EvictionContext, row: PodRow) -> str:
    """Which object that a pod belongs to is being deleted."""
    namespace = context.pods.namespaces[row]
    if namespace in context.ending_namespaces:
        return f"namespace {namespace} is being deleted: the API server admits no new pod there"
    for kind, record in context.workloads.chain(row):
        if record.metadata.deletion_timestamp is not None:
            return f"{kind}/{record.metadata.name} is being deleted, and makes no more pods or loses them"
    missing = context.workloads.missing_above(row)
    if missing is not None:
        return f"{missing.kind}/{missing.name} above it does not exist any more: what it owned is deleted"
    return ""


def _why_not_wanted(context: EvictionContext, row: PodRow) -> str:
    """Why a controller that stays would not replace a pod."""
    workload = context.workload(row)
    record = workload.record
    kind = workload.owner.kind
    if record is None:
        return ""
    active = len(context.workloads.staying_pods(workload.owner.uid))
    name = f"{kind}/{record.metadata.name}"
    if kind == "Job":
        ran = context.inputs.now - times.parse_if_possible(record.status.start_time)
        why = jobs.why_not_replaced(record, active, ran)
        return f"{name} {why}" if why else ""
    desired = workload.desired or 0
    if active > desired:
        surplus = active - desired
        lost = "the next one is" if surplus == 1 else f"the next {surplus:,} are"
        return f"{name} wants {counted(desired, 'pod')} and has {active:,}: {lost} not replaced"
    if kind == "StatefulSet" and stateful_sets.is_superfluous(record, context.pods.names[row]):
        return f"{name} wants {counted(desired, 'pod')}, and this one is not among them"
    return ""


def ends_soon(context: EvictionContext, row: PodRow) -> str:
    """Pods of Jobs that soon end by themselves, as far as anybody can tell."""
    workload = context.workload(row)
    record = workload.record
    if workload.owner.kind != "Job" or record is None:
        return ""
    started = times.parse_if_possible(record.status.start_time)
    elapsed = context.inputs.now - (float(context.pods.created[row]) if math.isnan(started) else started)
    deadline = record.spec.active_deadline_seconds
    if deadline is not None and deadline - elapsed < _SOON_SECONDS:
        return f"Job {workload.owner.name} ends at its deadline in {max(deadline - elapsed, 0) / 60:.0f} min"
    took = (
        times.parse_if_possible(job.status.completion_time) - times.parse_if_possible(job.status.start_time)
        for job in context.workloads.siblings_of(JOBS, record)  # of its CronJob
    )
    earlier = [seconds for seconds in took if not math.isnan(seconds)]  # of those that completed
    if not earlier:
        return ""
    usual = statistics.median(earlier)
    if usual - elapsed >= _SOON_SECONDS or elapsed > _OVERDUE * usual:
        return ""
    return (
        f"Job {workload.owner.name} has run {elapsed / 60:.0f} min, those before it took {usual / 60:.0f} min"
    )


_JUST_SCALED_SECONDS = 300.0


def autoscalers_read(context: EvictionContext, row: PodRow) -> str:
    """Any workload that can be scaled, when autoscalers could not be listed."""
    unread = None if context.pods.class_of(row).owner.kind == "Job" else context.autoscalers.unread
    return f"{unread.name}s were not read: whether one changes its workload is unknown" if unread else ""


def autoscaler(context: EvictionContext, row: PodRow) -> str:
    """A workload that a HorizontalPodAutoscaler is scaling, or scaled just now."""
    for name, status in context.autoscalers.of(context.workloads.chain(row), context.pods.namespaces[row]):
        if status.desired_replicas != status.current_replicas:
            desired = status.desired_replicas
            current = status.current_replicas
            there = f"there {'is' if current == 1 else 'are'} {current:,}"
            return f"{name} wants {counted(desired, 'replica')}, {there}"
        ago = context.inputs.now - times.parse_if_possible(status.last_scale_time)
        if not math.isnan(ago) and ago < _JUST_SCALED_SECONDS:
            return f"{name} scaled it {max(ago, 0.0) / 60:.0f} min ago"
    return ""


def vertical_autoscaler(context: EvictionContext, row: PodRow) -> str:
    """A workload whose replacement a VerticalPodAutoscaler would give other requests."""
    rewriting = context.autoscalers.rewriting(context.workloads.chain(row), context.pods.namespaces[row])
    return f"{' in mode '.join(rewriting)} may give its replacement other requests" if rewriting else ""


def placement_known(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """Pods whose replacement no scheduler places, or that cannot be predicted or placed by the model."""
    replacement = context.replacement(row)
    if replacement.bound_to:
        message = (
            f"its template names node {replacement.bound_to} (spec.nodeName): its replacement is bound there "
            "and no scheduler places it"
        )
        return NotMoved(Reason.NO_BETTER_LANDING, message)
    return replacement.unpredictable_reason or context.unpredictable.get(replacement.pod_class, "")
