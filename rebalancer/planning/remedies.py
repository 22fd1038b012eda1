"""What would free a pod that stays: one table, a row for each reason.

A row names the policy's key with the value that frees this pod, the field of the Kubernetes API, or the
strategy that exists for such pods; where only time helps, it says so. A test does what each row says to a
small cluster, and sees the pod free of that reason:

    TooYoung       is 4 min old, minAge 15 min          evictable.minAge: 3m
    SingleReplica  Deployment/app8 wants 1 replica      evictable.singleReplica: surge
    Budget         budget shop/web allows 0             spec.maxUnavailable of PodDisruptionBudget shop/web

To add a reason: name what frees its pods below, in general for the documentation and, where the pod, its node
or the policy say more, with a function of these.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic.alias_generators import to_snake

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.pods import EVICTION_IN_PROGRESS, FINISHED, PHASE_INDEX
from rebalancer.planning.eviction import EvictionContext
from rebalancer.planning.eviction.budgets import exhausted
from rebalancer.planning.eviction.rules import (
    DO_NOT_DISRUPT,
    EVICT,
    EVICTION_COST,
    PREFER_NO_EVICTION,
    SAFE_TO_EVICT,
    SAFE_TO_EVICT_VOLUMES,
)
from rebalancer.planning.eviction.workload_rules import seconds_to_replacement, why_not_restarted
from rebalancer.planning.reasons import NotMoved, Reason, Remedy, set_policy
from rebalancer.planning.workloads.lookup import grace_period_seconds
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.schema import BOLDEST, SYSTEM_NAMESPACE, Protection
from rebalancer.policy.scopes import namespace_matches
from rebalancer.policy.units import format_duration

Remedies = Callable[[EvictionContext, PodRow, NotMoved], Sequence[Remedy]]

_EVERY_NAMESPACE = "*"
_MINUTE = 60.0
_LESS_CONFIDENCE = 0.05
_ANNOTATED = Remedy('the annotation rebalancer/evict: "true" on the pod')


class WhatFrees(msgspec.Struct, frozen=True):
    """A row of the table."""

    documented: str  # in Markdown, for every pod with this reason
    of_pod: Remedies | None = None  # for one pod; None: what is documented


def _plain(markdown: str) -> str:
    return markdown.replace("`", "")


def remedies(context: EvictionContext, row: PodRow, refusal: NotMoved) -> tuple[Remedy, ...]:
    """What would free a pod of one reason, the least intrusive way first; never empty."""
    if refusal.remedies:
        return refusal.remedies
    entry = WHAT_FREES[refusal.reason]
    of_pod = entry.of_pod(context, row, refusal) if entry.of_pod else ()
    return tuple(of_pod) or (Remedy(_plain(entry.documented)),)


def remedy(context: EvictionContext, row: PodRow, refusal: NotMoved) -> str:
    """The same in words: ``evictable.minAge: 3m``."""
    return ", or ".join(way.text for way in remedies(context, row, refusal))


def _workload(context: EvictionContext, row: PodRow) -> str:
    """``Deployment/web``, or the pod where it has no controller."""
    return context.workload(row).name or f"pod {context.pods.full_name(row)}"


def _node(context: EvictionContext, row: PodRow) -> str:
    node = int(context.pods.node[row])
    return context.nodes.names[node] if node >= 0 else ""


def _daemon_set(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    owner = context.pods.class_of(row).owner
    field = f"spec.template.spec.affinity of DaemonSet {owner.name}"
    return (Remedy(f"{field}, which decides on which nodes its pods run"),)


def _terminating(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    pods = context.pods
    if pods.terminating[row] or context.leaving[row]:
        return (Remedy("time: it leaves by itself"),)
    if EVICTION_IN_PROGRESS in pods.annotations[row]:
        return (Remedy(f"the annotation {EVICTION_IN_PROGRESS}, once it is removed"),)
    return (Remedy("spec.intent: Withdrawn of the object that asks for its eviction"),)


def _no_controller(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    owner = context.pods.class_of(row).owner
    if refusal.settings:
        kinds = [
            {"apiVersion": controller.api_version, "kind": controller.kind}
            for controller in context.policy.evictable.controllers
        ]
        kinds.append({"apiVersion": owner.api_version, "kind": owner.kind})
        return (set_policy("evictable.controllers", kinds),)
    if int(context.pods.phase[row]) in FINISHED:
        return (set_policy(f"strategies.{_strategy_of_finished(context, row)}.barePods", value=True),)
    if owner.kind:
        return (Remedy(f"a controller that recreates it, in place of {owner.kind}/{owner.name}"),)
    return (Remedy("a Deployment of one replica in its place"),)


def _strategy_of_finished(context: EvictionContext, row: PodRow) -> str:
    """The strategy that exists for pods that have finished as this one has."""
    pods = context.pods if row < len(context.pods) else context.pods.with_finished
    return "failed" if int(pods.phase[row]) == PHASE_INDEX["Failed"] else "lifetime"


def remove_finished(context: EvictionContext, row: PodRow) -> Remedy:
    """The strategy that removes a finished pod, which no strategy of the policy wishes to remove."""
    if _strategy_of_finished(context, row) == "failed":
        return set_policy("strategies.failed", value=True)
    return set_policy("strategies.lifetime", {"maxAge": "24h", "states": ["Succeeded"]})


def _overlapping(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    names = sorted(budget.name for budget in context.budgets.of(row))
    which = " and ".join(names)
    return (Remedy(f"spec.selector of the PodDisruptionBudgets {which}: only one may select it"),)


def _node_not_ready(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    name = _node(context, row)
    if name:
        return (Remedy(f"node {name}, once it is Ready"),)
    if int(context.pods.phase[row]) in FINISHED or context.pods.node_unknown[row]:
        return (Remedy("its node, once the cluster has it"),)
    room = set_policy("strategies.fragmentation", value=True, note=", which makes room for it")
    return (Remedy("a node with room for it"), room)


def _node_leaving(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    name = _node(context, row)
    return (Remedy(f"whoever removes node {name} and evicts it, or node {name} without that mark"),)


def _system(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    if context.pods.full_name(row) == context.inputs.own_pod:
        return (Remedy("rebalancer run from elsewhere"),)
    return (Remedy(f"kubectl rollout restart of {_workload(context, row)}, by hand"),)


def _namespace(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    namespace = context.pods.namespaces[row]
    evictable = context.policy.evictable
    if "not read" in refusal.message:
        return (Remedy("the right to list namespaces, or a recording that has them"),)
    if refusal.settings:
        selector = evictable.namespace_selector
        return (
            Remedy(f"labels of namespace {namespace} that evictable.namespaceSelector {selector} selects"),
        )
    chosen = evictable.namespaces
    is_included = not chosen.include or namespace_matches(namespace, chosen.include)
    if not is_included and not namespace_matches(namespace, chosen.exclude):
        return (set_policy("evictable.namespaces.include", [*chosen.include, namespace]),)
    excluded = [name for name in chosen.exclude if not namespace_matches(namespace, (name,))]
    if namespace == SYSTEM_NAMESPACE:
        # It is excluded unless it is included by its name.
        included = [*(chosen.include or (_EVERY_NAMESPACE,)), namespace]
        changes = {"evictable.namespaces.include": included, "evictable.namespaces.exclude": excluded}
        return (set_policies(changes),)
    changes = {"evictable.namespaces.exclude": excluded}
    if not is_included:
        changes["evictable.namespaces.include"] = [*chosen.include, namespace]
    return (set_policies(changes),)


def set_policies(changes: Mapping[str, Any]) -> Remedy:
    """Several keys of the policy together."""
    text = " and ".join(set_policy(key, value).text for key, value in changes.items())
    return Remedy(text, changes)


def _young(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    age = context.inputs.now - float(context.pods.created[row])
    if math.isnan(age) or age < 0:
        return (Remedy("its metadata.creationTimestamp, once it is known and not ahead of the clock"),)
    rounded = age // _MINUTE * _MINUTE if age >= _MINUTE else math.floor(age)
    return (set_policy("evictable.minAge", format_duration(rounded)),)


def _priority(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return (set_policy("evictable.priorityBelow", context.pods.class_of(row).priority + 1),)


def _unprotected(kind: Protection, context: EvictionContext) -> Remedy:
    """The policy's list of protections without one of them."""
    left = [str(protection) for protection in context.policy.evictable.protect if protection is not kind]
    return set_policy("evictable.protect", left)


def _local_storage(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    names = [
        volume.name
        for volume in context.pods.class_of(row).spec.volumes or ()
        if volume.host_path or volume.empty_dir
    ]
    annotation = Remedy(f"the annotation {SAFE_TO_EVICT_VOLUMES}: {','.join(names)} on the pod")
    return _unprotected(Protection.LOCAL_STORAGE, context), annotation


def _persistent_volumes(context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return (_unprotected(Protection.PERSISTENT_VOLUMES, context),)


def _single_replica(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    evictable = context.policy.evictable
    more = Remedy(f"spec.replicas: 2 of {_workload(context, row)}")
    if evictable.single_replica == "surge":
        return (more,)
    if not why_not_restarted(context, row):
        return (set_policy("evictable.singleReplica", "surge"),)
    if Protection.SINGLE_REPLICA not in evictable.protect:
        return (more,)
    left = _unprotected(Protection.SINGLE_REPLICA, context)
    return more, Remedy(f"with a downtime {left.text}", left.changes)


def _minimum_replicas(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return (set_policy("evictable.minReplicas", context.workload(row).desired or 0),)


def _jobs(_context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return (set_policy("evictable.jobs", value=True),)


def _storage_class(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    used = set()
    for name, claim in context.claims_of(context.pods.class_of(row)):
        if claim is None:
            return (Remedy(f"the PersistentVolumeClaim {name}, once it is read"),)
        used.add(claim.spec.storage_class_name or "")
    classes = context.policy.evictable.protect_storage_classes
    others = [name for name in classes if name not in used]
    return (set_policy("evictable.protectStorageClasses", others),)


def _without_budget(context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return Remedy("a PodDisruptionBudget that selects it"), _unprotected(Protection.WITHOUT_BUDGET, context)


def _labels(context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    selector = context.policy.evictable.pod_selector
    return (Remedy(f"labels of its template that evictable.podSelector {selector} selects"),)


def _annotation(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    annotations = context.pods.annotations[row]
    names = (*EVICT, SAFE_TO_EVICT, PREFER_NO_EVICTION, EVICTION_COST, DO_NOT_DISRUPT)
    named = next((name for name in names if name in annotations), DO_NOT_DISRUPT)
    return (Remedy(f"the annotation {named}, once it is removed from the pod"),)


def _annotated(_context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return (_ANNOTATED,)


def _job_would_fail(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    owner = context.pods.class_of(row).owner
    return (
        Remedy(
            f"a first rule in spec.podFailurePolicy of Job {owner.name} with action: Ignore for the "
            "condition DisruptionTarget"
        ),
        Remedy("a higher spec.backoffLimit"),
    )


def _no_replacement(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    if "LimitRange" in refusal.message:
        return (Remedy("resources of its template within spec.limits of that LimitRange"),)
    if "deleted" in refusal.message:
        return (Remedy("time: what it belongs to is being deleted"),)
    workload = _workload(context, row)
    if "is suspended" in refusal.message:
        return (Remedy(f"spec.suspend: false of {workload}"),)
    if "is over" in refusal.message or "makes no more pods" in refusal.message:
        return (Remedy("time: its Job makes no more pods, and this one ends"),)
    field = "spec.completions" if context.workload(row).owner.kind == "Job" else "spec.replicas"
    return (Remedy(f"{field} of {workload}, with as many pods wanted as run"),)


def _read_write_once(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    names = [name for name, _ in context.claims_of(context.pods.class_of(row))]
    many = f"spec.accessModes: [ReadWriteMany] of claim {', '.join(names)}"
    return Remedy(many), Remedy("a StatefulSet in place of the Deployment")


def _rollout(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return (Remedy(f"the end of the rollout: kubectl rollout status {_workload(context, row)}"),)


def _unready(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    workload = context.workload(row)
    return (Remedy(f"{workload.desired or 0} ready pods of {workload.name}"),)


def _grace_period(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    grace = grace_period_seconds(context.pods.class_of(row))
    takes = max(float(grace), seconds_to_replacement(context, row))
    ways = [set_policy("execution.waveTimeout", format_duration(math.floor(takes) + 1))]
    if grace >= context.policy.execution.wave_timeout:
        ways.append(Remedy("a shorter spec.terminationGracePeriodSeconds"))
    return ways


def _other_scheduler(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    own = context.pods.class_of(row).scheduler_name
    replacement = context.pods.classes[context.replacement(row).pod_class].scheduler_name
    inputs = context.inputs
    served = [name for name in (own, replacement) if name in inputs.scheduler_of]
    if refusal.settings or len(served) < len((own, replacement)):
        missing = next((name for name in (own, replacement) if name not in inputs.scheduler_of), own)
        key = refusal.settings[0] if refusal.settings else "scheduler.configMap"
        return (Remedy(f"{key} with a KubeSchedulerConfiguration that has the profile {missing}"),)
    name = next(name for name in served if name not in inputs.acts_on)
    settings = inputs.scheduler_of[name].settings
    return (set_policy(f"{_section(context, settings)}.profiles", [*settings.profiles, name]),)


def _section(context: EvictionContext, settings: SchedulerSettings) -> str:
    """The key of the policy that holds the settings of a scheduler: ``scheduler``, or ``scheduler[1]``."""
    if not isinstance(context.policy.scheduler, tuple):
        return "scheduler"
    return f"scheduler[{context.policy.schedulers.index(settings)}]"


def _scheduler_not_alive(_context: EvictionContext, _row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    if "is not alive" in refusal.message:
        return (Remedy("the scheduler, once it runs and renews its Lease"),)
    return (
        Remedy("scheduler.pods or scheduler.lease, which show that it is alive"),
        set_policy("safety.unknownScheduler", "proceed"),
    )


def unknown_gate(message: str) -> str:
    """The feature gate that decides where pods land, of which nobody knows whether it is on; else empty.

    It is on by default: one that is not counts as off, unless the policy states it.
    """
    match = _GATE.search(message)
    return match[1] if match is not None else ""


_GATE = re.compile(r"(\w{1,100}) of scheduler \S{1,253} would decide, and whether it is on is not known")
_STATED_GATE = re.compile(r"say scheduler\.featureGates: \{(\w{1,100}): false\}")


def _unpredictable(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    message = refusal.message
    name = context.pods.classes[context.replacement(row).pod_class].scheduler_name
    facts = context.inputs.scheduler_of.get(name)
    gate = _GATE.search(message) or _STATED_GATE.search(message)
    if gate is not None and facts is not None:
        is_on = gate.re is _GATE
        key = f"{_section(context, facts.settings)}.featureGates"
        note = ", as it is by default" if is_on else ", if it is off"
        return (set_policy(key, {**facts.settings.feature_gates, gate[1]: is_on}, note=note),)
    if "not read" in message:
        return (Remedy("the right to list what was not read, or a recording that has it"),)
    if "PriorityClass" in message:
        return (Remedy(f"spec.priorityClassName of the template of {_workload(context, row)}"),)
    if "LimitRange" in message:
        return (Remedy("resources of its template that say all that the LimitRange would add"),)
    return (Remedy(f"kubectl rollout restart of {_workload(context, row)}, by hand"),)


def _unknown_load(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    names = " and ".join(context.inputs.load.required)
    return (Remedy(f"a source in load.sources that reports {names} of node {_node(context, row)}"),)


def _window(_context: EvictionContext, _row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    return tuple(set_policy(key, []) for key in refusal.settings) or (set_policy("evictable.windows", []),)


def _vertical(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    chain = context.workloads.chain(row)
    scaler = context.autoscalers.rewriting(chain, context.pods.namespaces[row])
    name = scaler[0] if scaler else "the VerticalPodAutoscaler"
    return (Remedy(f'spec.updatePolicy.updateMode: "Off" of {name}'),)


def _quota(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    if "does not say yet" in refusal.message:
        return (Remedy("the next run, once the status of that ResourceQuota says how much is used"),)
    if "does not say its" in refusal.message:
        return (Remedy(f"resources of the template of {_workload(context, row)} that say them"),)
    namespace = context.pods.namespaces[row]
    return (Remedy(f"a higher spec.hard of that ResourceQuota of namespace {namespace}"),)


def _cooldown(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    workload = context.workload(row)
    if workload.key in context.moved_by_this_run:
        return (Remedy("the next run"),)
    planning = context.policy.planning
    now = context.inputs.now
    owner = workload.owner.uid
    history = context.history
    whole = history.cooldown_seconds(
        now, first=planning.cooldown, workload=workload.key, controller_uid=owner
    )
    last = history.in_cooldown(now, whole, workload=workload.key, controller_uid=owner)
    if last is None:
        return ()
    ago = max(0.0, now - last.evicted_at)
    # Each move within some days doubles what the policy names.
    shorter = math.floor(ago * planning.cooldown / whole)
    wait = format_duration(math.ceil((whole - ago) / _MINUTE) * _MINUTE)
    return (set_policy("planning.cooldown", format_duration(shorter), note=f", or {wait} more"),)


def _landed_badly(_context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return Remedy("a day after that landing"), set_policy("planning.cooldown", "0s")


def _budget(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    spent = exhausted(context.budgets.spent_by(row), {})
    if spent is None:
        return (Remedy("the next wave, or the next run"),)
    ways = [Remedy(f"spec.maxUnavailable or spec.minAvailable of PodDisruptionBudget {spent.name}")]
    if not context.pods.ready[row]:
        ways.append(Remedy("its spec.unhealthyPodEvictionPolicy: AlwaysAllow"))
    return ways


def _hot_too_briefly(context: EvictionContext, row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    inputs = context.inputs
    state = inputs.state
    if state is None:
        return ()
    spacing = inputs.policy.hot_nodes.run_spacing_seconds
    runs = state.hot_runs_with(_node(context, row), inputs.now, spacing)
    return Remedy("the next run"), set_policy("hotNodes.forRuns", max(runs, 1))


_OF_VOLUMES = "a volume that more nodes reach: spec.nodeAffinity of the PersistentVolume"
_OF_NODES = "spec.nodeSelector or spec.affinity.nodeAffinity, or the label on a node"
# What filters of the scheduler say, and the field of the API that answers it; of two that match the first.
FILTERS: tuple[tuple[str, str], ...] = (
    (
        "insufficient",
        "resources.requests of its template, or a node with room (rebalancer what-if --add-node)",
    ),
    ("too many pods", "a node more, or maxPods of the kubelets"),
    ("were unschedulable", "kubectl uncordon"),
    ("untolerated taint", "spec.tolerations of its template, or the taint"),
    ("didn't tolerate", "spec.tolerations of its template, or the taint"),
    ("scheduler-enforced node affinity", "addedAffinity of the scheduler's profile, or the label on a node"),
    ("persistentvolume's node affinity", _OF_VOLUMES),
    ("volume node affinity", _OF_VOLUMES),
    ("volume zone", _OF_VOLUMES),
    ("node affinity", _OF_NODES),
    ("node selector", _OF_NODES),
    ("requested node name", "spec.nodeName of its template"),
    ("requested hostname", "spec.nodeName of its template"),
    ("free ports", "hostPort of its containers"),
    (
        "topology spread constraints",
        "spec.topologySpreadConstraints: whenUnsatisfiable: ScheduleAnyway, a larger maxSkew, or "
        "nodeTaintsPolicy: Honor",
    ),
    ("existing pods anti-affinity", "spec.affinity.podAntiAffinity of the pods there"),
    ("pod anti-affinity", "spec.affinity.podAntiAffinity, preferred in place of required"),
    ("pod affinity", "spec.affinity.podAffinity, preferred in place of required"),
    ("max volume count", "fewer volumes on the nodes, or another node"),
    ("no available disk", "a volume of its own for each pod"),
    ("readwriteoncepod", "spec.accessModes of its claim"),
    ("free storage", "a node more, or a larger capacity of its storage class there"),
    ("available persistent volumes", "a PersistentVolume that its claims can be bound to"),
    ("non-existent pv", "the PersistentVolume that its claim names"),
    ("persistentvolumeclaim", "the PersistentVolumeClaim that its template names"),
)


def freed_in_the_api(rejections: str) -> tuple[str, ...]:
    """The fields of the API that answer what filters say, in the order of the table."""
    left = rejections.lower()
    fields: dict[str, None] = {}
    for words, field in FILTERS:
        if words in left:
            fields[field] = None
            left = left.replace(words, "")
    return tuple(fields)


def _no_landing(_context: EvictionContext, _row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    fields = freed_in_the_api(refusal.message)
    return tuple(Remedy(field) for field in fields)


def _no_better_landing(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    if context.replacement(row).bound_to:
        return (Remedy(f"spec.nodeName, once {_workload(context, row)} has it no more in its template"),)
    changes: dict[str, Any] = {}
    for key in refusal.settings:
        changes[key] = 0  # planning.minGain, planning.weights.spread
        if key == "planning.maxAfter":
            changes[key] = dict.fromkeys(context.policy.planning.max_after, 100)
    if changes:
        return (set_policies(changes),)
    return (Remedy("a better node that fits it (rebalancer what-if --add-node)"),)


def _limit(context: EvictionContext, row: PodRow, refusal: NotMoved) -> Sequence[Remedy]:
    changes = {}
    for key in refusal.settings:
        raised = _raised(context, row, key)
        if raised is None:
            return ()
        changes[key] = raised
    return (set_policies(changes),) if changes else ()


_SCOPED = re.compile(r"limits\.scoped\[(\d+)\]\.(\w+)")
_PER_WORKLOAD = "limits.perWorkload"


def _raised(context: EvictionContext, row: PodRow, key: str) -> int | None:
    """The least value of a limit that lets one pod more leave."""
    limits = context.policy.limits
    if scoped := _SCOPED.fullmatch(key):
        value = getattr(limits.scoped[int(scoped[1])], _attribute(scoped[2]))
    elif key == _PER_WORKLOAD:
        value = limits.per_workload.of(context.workload(row).desired or 0)
    else:
        value = getattr(limits, _attribute(key.removeprefix("limits.")), None)
    return value + 1 if isinstance(value, int) else None


# Of a policy's field, by its name in YAML; asked for every pod that stays.
_attribute = functools.cache(to_snake)


def _confidence(context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    lower = max(0.5, round(context.policy.planning.confidence - _LESS_CONFIDENCE, 2))
    return (set_policy("planning.confidence", lower, note=", or the next run"),)


def _cannot_cool(_context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    return (set_policy("planning.partialRelief", value=True),)


def _little_relief(context: EvictionContext, _row: PodRow, _refusal: NotMoved) -> Sequence[Remedy]:
    level = context.policy.planning.aggressiveness
    note = f", a step up from {level} at a time" if level < BOLDEST - 1 else ""
    return (set_policy("planning.aggressiveness", BOLDEST, note=note),) if level < BOLDEST else ()


WHAT_FREES: Mapping[Reason, WhatFrees] = {
    Reason.STATIC_POD: WhatFrees("its manifest, a file of its node, moved to another node"),
    Reason.DAEMON_SET: WhatFrees(
        "`spec.template.spec.affinity` of the DaemonSet, which decides on which nodes its pods run",
        _daemon_set,
    ),
    Reason.TERMINATING: WhatFrees(
        "time: it leaves by itself; or `spec.intent: Withdrawn` of what asks for its eviction", _terminating
    ),
    Reason.NO_CONTROLLER: WhatFrees(
        "`evictable.controllers` with its controller's kind; of a finished pod "
        "`strategies.failed.barePods: true` or `strategies.lifetime.barePods: true`; else a Deployment of "
        "one replica in its place",
        _no_controller,
    ),
    Reason.OVERLAPPING_BUDGETS: WhatFrees(
        "`spec.selector` of the PodDisruptionBudgets: only one may select it", _overlapping
    ),
    Reason.NODE_NOT_READY: WhatFrees(
        "its node, once it is `Ready`; of a Pending pod room on a node, which "
        "`strategies.fragmentation: true` makes",
        _node_not_ready,
    ),
    Reason.NODE_LEAVING: WhatFrees(
        "whoever removes the node and evicts it, or the node without that mark", _node_leaving
    ),
    Reason.SYSTEM_COMPONENT: WhatFrees("`kubectl rollout restart` of its workload, by hand", _system),
    Reason.NAMESPACE: WhatFrees(
        "`evictable.namespaces.include` or `.exclude`, or labels of the namespace that "
        "`evictable.namespaceSelector` selects",
        _namespace,
    ),
    Reason.TOO_YOUNG: WhatFrees("a lower `evictable.minAge`, or time", _young),
    Reason.PRIORITY: WhatFrees("a higher `evictable.priorityBelow`", _priority),
    Reason.LOCAL_STORAGE: WhatFrees(
        f"`evictable.protect` without `LocalStorage`, or the annotation `{SAFE_TO_EVICT_VOLUMES}` on the pod",
        _local_storage,
    ),
    Reason.PERSISTENT_VOLUMES: WhatFrees(
        "`evictable.protect` without `PersistentVolumes`", _persistent_volumes
    ),
    Reason.SINGLE_REPLICA: WhatFrees(
        "`evictable.singleReplica: surge`, where a rolling update of its Deployment can move it; else "
        "`spec.replicas: 2` of its workload, or `evictable.protect` without `SingleReplica`, with a downtime",
        _single_replica,
    ),
    Reason.MIN_REPLICAS: WhatFrees("a lower `evictable.minReplicas`", _minimum_replicas),
    Reason.JOB: WhatFrees("`evictable.jobs: true`", _jobs),
    Reason.ENDS_SOON: WhatFrees('time, or the annotation `rebalancer/evict: "true"` on the pod', _annotated),
    Reason.STORAGE_CLASS: WhatFrees("`evictable.protectStorageClasses` without its class", _storage_class),
    Reason.WITHOUT_BUDGET: WhatFrees(
        "a PodDisruptionBudget that selects it, or `evictable.protect` without `WithoutBudget`",
        _without_budget,
    ),
    Reason.LABELS: WhatFrees("labels of its template that `evictable.podSelector` selects", _labels),
    Reason.ANNOTATION: WhatFrees("the annotation, once it is removed from the pod", _annotation),
    Reason.DEBUGGED: WhatFrees(
        'the end of its ephemeral container, or the annotation `rebalancer/evict: "true"` on the pod',
        _annotated,
    ),
    Reason.RESTARTS_TOGETHER: WhatFrees('the annotation `rebalancer/evict: "true"` on the pod', _annotated),
    Reason.JOB_WOULD_FAIL: WhatFrees(
        "a first rule in `spec.podFailurePolicy` of the Job with `action: Ignore` for the condition "
        "`DisruptionTarget`, or a higher `spec.backoffLimit`",
        _job_would_fail,
    ),
    Reason.NO_REPLACEMENT: WhatFrees(
        "`spec.replicas` of its workload, with as many pods wanted as run; `spec.suspend: false` of a Job; "
        "resources within `spec.limits` of the LimitRange; time, where its Job is over or what it belongs to "
        "is being deleted",
        _no_replacement,
    ),
    Reason.READ_WRITE_ONCE: WhatFrees(
        "`spec.accessModes: [ReadWriteMany]` of its claim, or a StatefulSet in place of the Deployment",
        _read_write_once,
    ),
    Reason.ROLLOUT: WhatFrees("the end of the rollout: `kubectl rollout status`", _rollout),
    Reason.UNREADY_REPLICAS: WhatFrees("as many ready pods as `spec.replicas` of its workload", _unready),
    Reason.GRACE_PERIOD: WhatFrees(
        "a longer `execution.waveTimeout`, or a shorter `spec.terminationGracePeriodSeconds`", _grace_period
    ),
    Reason.OTHER_SCHEDULER: WhatFrees(
        "`scheduler.profiles` with its profile; `scheduler.configMap` where the configuration lacks it",
        _other_scheduler,
    ),
    Reason.SCHEDULER_NOT_ALIVE: WhatFrees(
        "`scheduler.pods` or `scheduler.lease`, which show that it is alive, or "
        "`safety.unknownScheduler: proceed`",
        _scheduler_not_alive,
    ),
    Reason.UNPREDICTABLE: WhatFrees(
        "`scheduler.featureGates` with the gate that decides; the right to list what was not read; else "
        "`kubectl rollout restart` of its workload, by hand",
        _unpredictable,
    ),
    Reason.UNKNOWN_LOAD: WhatFrees(
        "a source in `load.sources` that reports what its node uses", _unknown_load
    ),
    Reason.SETTLING: WhatFrees("time: the figures of its node are whole again `load.window` after that move"),
    Reason.WINDOW: WhatFrees("time, or other `evictable.windows` and `evictable.blackouts`", _window),
    Reason.OLDER_REVISION: WhatFrees("`spec.updateStrategy.rollingUpdate.partition: 0` of its StatefulSet"),
    Reason.AUTOSCALING: WhatFrees("time: five minutes after the autoscaler has scaled its workload"),
    Reason.VERTICAL_AUTOSCALING: WhatFrees(
        '`spec.updatePolicy.updateMode: "Off"` of the VerticalPodAutoscaler', _vertical
    ),
    Reason.QUOTA: WhatFrees(
        "a higher `spec.hard` of the ResourceQuota, or resources of the template that say what it asks for",
        _quota,
    ),
    Reason.COOLDOWN: WhatFrees("a shorter `planning.cooldown`, or time", _cooldown),
    Reason.LANDED_BADLY: WhatFrees("a day after that landing, or `planning.cooldown: 0s`", _landed_badly),
    Reason.BUDGET: WhatFrees(
        "`spec.maxUnavailable` or `spec.minAvailable` of its PodDisruptionBudget; of a pod that is not ready "
        "`spec.unhealthyPodEvictionPolicy: AlwaysAllow`",
        _budget,
    ),
    Reason.HOT_TOO_BRIEFLY: WhatFrees("the next runs, or a lower `hotNodes.forRuns`", _hot_too_briefly),
    Reason.NO_LANDING: WhatFrees(
        "the field of its template that the rejecting filter reads, such as `resources.requests`, "
        "`spec.tolerations`, `spec.affinity` or `spec.topologySpreadConstraints`; or a node that fits it",
        _no_landing,
    ),
    Reason.NO_BETTER_LANDING: WhatFrees(
        "a better node that fits it; `planning.minGain: 0` or a higher `planning.maxAfter` where these alone "
        "refuse; `execution.steer: softTaint` where hot nodes are in the way",
        _no_better_landing,
    ),
    Reason.ROOM_TAKEN: WhatFrees(
        "room for that Pending pod elsewhere: a node more, or `strategies.fragmentation: true`"
    ),
    Reason.LIMIT: WhatFrees("a higher limit, such as `limits.perRun`, or the next run", _limit),
    Reason.CONFIDENCE: WhatFrees("a lower `planning.confidence`, or the next run", _confidence),
    Reason.NOT_NEEDED: WhatFrees(
        "a lower `coolTo` in `hotNodes.any`, with which more pods leave; it need not move"
    ),
    Reason.CANNOT_COOL: WhatFrees("`planning.partialRelief: true`", _cannot_cool),
    Reason.NO_RELIEF: WhatFrees("a rule in `hotNodes.any` for what it uses"),
    Reason.LITTLE_RELIEF: WhatFrees("a higher `planning.aggressiveness`", _little_relief),
    Reason.SIBLINGS: WhatFrees("the next runs, which move it"),
    Reason.GROUP: WhatFrees("what frees the other pod"),
    Reason.SEARCH_ENDED: WhatFrees("the next run, which goes on from where this one ended"),
}
