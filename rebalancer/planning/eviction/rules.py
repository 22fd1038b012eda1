"""The table of rules that protect pods from eviction, and the one function that applies it.

Four groups, asked in this order, and the first rule that refuses gives the reason:

* ``ALWAYS``: nothing lifts these; evicting such a pod would be wrong or futile whatever the policy says.
* ``BY_POLICY``: what the policy protects; the annotation ``rebalancer/evict``, or descheduler's, on the pod
  lifts all of them, and nothing else. With the value ``false``, or ``No``, it keeps the pod.
* ``OF_THE_WORKLOAD``: the workload could not take the eviction well, whatever its owner wishes.
* ``UNKNOWN``: the pod could be evicted, but not enough is known of its replacement, or not now.

To add a rule: write ``(context, row) -> str``, which says why the pod stays, or nothing, here or, if it reads
the pod's workload, in ``workload_rules``; and name it below with its Reason, where it should be asked. One
that has several reasons, or settings of its own, returns a ``NotMoved``. Cheap rules and rules with the
plainest reasons come first.

Rules are asked once for all ordinary pods of a class, of which a cluster has a hundred times as many as it
has classes. A rule that reads something of the pod itself says so in ``EvictionContext.ordinary``:

    web-1 to web-400   of one class, ready, a day old, on ready nodes    asked once
    web-401            of the same class, three minutes old              asked by itself: it is too young
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from rebalancer.cluster import times
from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.kinds import NAMESPACES, PRIORITY_CLASSES, RESOURCE_QUOTAS
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.cluster.pods import EVICTION_IN_PROGRESS, FINISHED, MIRROR_ANNOTATION
from rebalancer.planning.eviction import workload_rules
from rebalancer.planning.eviction.budgets import exhausted
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.inputs import SchedulerFacts
from rebalancer.planning.reasons import NotMoved, Reason, age_text
from rebalancer.planning.workloads.lookup import grace_period_seconds
from rebalancer.policy.schema import Protection
from rebalancer.policy.scopes import closed
from rebalancer.policy.units import parse_duration
from rebalancer.profiles.types import DEFAULTS_SOURCE
from rebalancer.state.results import BAD_RESULTS
from rebalancer.state.run_state import BAD_LANDING_COOLDOWN_SECONDS

EVICT = ("rebalancer/evict", "descheduler.alpha.kubernetes.io/evict")  # ours, and descheduler's
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"
_NO = frozenset(("false", "f", "no", "n", "off", "0", "never"))
_NEVER = str((1 << 31) - 1)  # the cost that koordinator takes for: never evict
_STATIC_SOURCES = ("file", "http")


def static(context: EvictionContext, row: PodRow) -> str:
    """Static pods, which the kubelet of their node makes from a file or a URL."""
    annotations = context.pods.annotations[row]
    if MIRROR_ANNOTATION in annotations or annotations.get("kubernetes.io/config.source") in _STATIC_SOURCES:
        return "a static pod, made by its node's kubelet"
    return "owned by its node" if context.pods.class_of(row).owner.kind == "Node" else ""


def daemon_set(context: EvictionContext, row: PodRow) -> str:
    """Pods of a DaemonSet, which come back on the node they left."""
    owner = context.pods.class_of(row).owner
    return f"belongs to DaemonSet {owner.name}" if owner.kind == "DaemonSet" else ""


def terminating(context: EvictionContext, row: PodRow) -> str:
    """Pods that are being deleted, that end by themselves, or that somebody else is evicting."""
    pods = context.pods
    if pods.terminating[row]:
        return "is already being deleted"
    if context.leaving[row]:
        return "its activeDeadlineSeconds end before the next run"
    if EVICTION_IN_PROGRESS in pods.annotations[row]:
        return f"is being evicted already: it has the annotation {EVICTION_IN_PROGRESS}"
    why = context.foreign_evictions.why_leaving(pods.namespaces[row], pods.names[row], pods.uids[row])
    return f"is being evicted already: {why}" if why else ""


def evictions_read(context: EvictionContext, _row: PodRow) -> str:
    """Any pod, when requests for evictions could not be listed."""
    unread = context.foreign_evictions.unread
    return f"{unread.name}s were not read: whether somebody else is evicting it is unknown" if unread else ""


def node_ready(context: EvictionContext, row: PodRow) -> str:
    """Pods on a node that is not Ready: its kubelet would not confirm that they are gone."""
    node = int(context.pods.node[row])
    if node < 0:
        waits = not (context.pods.node_unknown[row] or context.pods.phase[row] in FINISHED)
        return "it is Pending: it runs on no node" if waits else "it is on no node that the cluster has"
    return "" if context.nodes.ready[node] else "its node is not Ready"


def node_leaving(context: EvictionContext, row: PodRow) -> str:
    """Pods on a node that is about to be removed: whoever removes it evicts them."""
    node = int(context.pods.node[row])
    leaving = why_leaving(context.nodes.records[node]) if node >= 0 else ""
    return f"its node {leaving}" if leaving else ""


def system(context: EvictionContext, row: PodRow) -> str:
    """This program itself, and the workloads that plans rely on."""
    inputs = context.inputs
    if context.pods.full_name(row) == inputs.own_pod:
        return "this program runs in it"
    relied_on = context.workload(row).key in inputs.system_workloads
    return "the scheduler or a load source that plans rely on" if relied_on else ""


def namespace(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """Namespaces that the policy leaves alone."""
    evictable = context.policy.evictable
    namespace = context.pods.namespaces[row]
    if not evictable.namespaces.allows(namespace):
        return f"the policy leaves namespace {namespace} alone"
    selector = evictable.namespace_selector
    labels_by_name = context.inputs.snapshot.namespaces or {}
    if selector is None or (namespace in labels_by_name and selector.selects(labels_by_name[namespace])):
        return ""
    labels = "are not those of" if namespace in labels_by_name else "were not read, and are asked for by"
    message = f"the labels of namespace {namespace} {labels} namespaceSelector {selector}"
    return NotMoved(Reason.NAMESPACE, message, ("evictable.namespaceSelector",))


def labels(context: EvictionContext, row: PodRow) -> str:
    """Pods that the policy's podSelector leaves out."""
    selector = context.policy.evictable.pod_selector
    if selector is None or selector.selects(context.pods.class_of(row).labels):
        return ""
    return f"its labels are not those of podSelector {selector}"


def priority(context: EvictionContext, row: PodRow) -> str:
    """Priorities that are not below priorityBelow."""
    priority = context.pods.class_of(row).priority
    below = context.policy.evictable.priority_below
    return f"priority {priority} is not below {below}" if priority >= below else ""


def _says_no(value: str | None) -> bool:
    """Whether an annotation says false, in whichever of the usual words: who writes No wants no eviction."""
    return value is not None and value.strip().lower() in _NO


def annotated(context: EvictionContext, row: PodRow) -> str:
    """Annotations that ask not to be evicted."""
    annotations = context.pods.annotations[row]
    refusing = next((name for name in (*EVICT, SAFE_TO_EVICT) if _says_no(annotations.get(name))), None)
    if refusing is not None:
        return f'has the annotation {refusing}: "{annotations[refusing][:40]}"'
    if PREFER_NO_EVICTION in annotations:
        return f"has the annotation {PREFER_NO_EVICTION}"
    if annotations.get(EVICTION_COST, "").strip() == _NEVER:
        return f'has the annotation {EVICTION_COST}: "{_NEVER}", which means never'
    value = annotations.get(DO_NOT_DISRUPT, "false")
    age = context.inputs.now - context.pods.created[row]
    if value == "false" or _disruptable_after(value, float(age)):
        return ""
    return f'has the annotation {DO_NOT_DISRUPT}: "{value[:40]}"'


def debugged(context: EvictionContext, row: PodRow) -> str:
    """Pods in which an ephemeral container runs: somebody looks into them right now."""
    name = context.pods.debugged_by[row]
    return f"is being debugged: its ephemeral container {name} runs" if name else ""


def _disruptable_after(value: str, age: float) -> bool:
    """Whether a duration since the pod's creation has passed; a value that is none protects."""
    try:
        return age >= parse_duration(value)
    except ValueError:
        return False


def young(context: EvictionContext, row: PodRow) -> str:
    """Pods younger than minAge, or of unknown age."""
    age = context.inputs.now - float(context.pods.created[row])
    least = context.policy.evictable.min_age
    if age >= least:
        return ""
    if math.isnan(age):
        return "its age is not known"
    if age < 0:
        return f"was created {-age:,.0f} s ahead of our clock: check the clocks"
    return f"is {age_text(age)} old, minAge {age_text(least)}"


def grace_period(context: EvictionContext, row: PodRow) -> str:
    """A pod that may take longer to end than a wave waits."""
    grace = grace_period_seconds(context.pods.class_of(row))
    timeout = context.policy.execution.wave_timeout
    return f"it may take {grace} s to end, waveTimeout is {timeout:g} s" if grace >= timeout else ""


def window(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """Outside the policy's windows, and on the days of its blackouts, nothing is evicted."""
    evictable = context.policy.evictable
    node = int(context.pods.node[row])
    if not (evictable.windows or evictable.blackouts):
        return ""
    labels = context.nodes.records[node].metadata.labels or {} if node >= 0 else None
    closure = closed(evictable, context.pods.namespaces[row], labels, context.inputs.now)
    if closure is None:
        return ""
    why, opens, setting = closure
    following = f"the next window opens at {times.render(opens)}" if opens is not None else "none opens soon"
    return NotMoved(Reason.WINDOW, f"{why}; {following}", (setting,))


SAFE_TO_EVICT_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"  # names, with commas
_IN_MEMORY = "Memory"
_SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def local_storage(context: EvictionContext, row: PodRow) -> str:
    """Data that is lost with the node, unless the pod's own annotations say that it may be.

    An emptyDir in memory is no such data: it does not outlive its containers' node in any case, and holds
    what can be made again. Source: cluster-autoscaler utils/drain, HasBlockingLocalStorage.
    """
    annotations = context.pods.annotations[row]
    protected = Protection.LOCAL_STORAGE in context.policy.evictable.protect
    if not protected or annotations.get(SAFE_TO_EVICT) == "true":
        return ""
    safe = {name.strip() for name in annotations.get(SAFE_TO_EVICT_VOLUMES, "").split(",")}
    for volume in context.pods.class_of(row).spec.volumes or ():
        if volume.name in safe:
            continue
        if volume.host_path:
            return f"volume {volume.name} is a hostPath"
        if volume.empty_dir and volume.empty_dir.medium != _IN_MEMORY:
            return f"volume {volume.name} is an emptyDir"
    return ""


def persistent_volumes(context: EvictionContext, row: PodRow) -> str:
    """PersistentVolumeClaims, where the policy protects them."""
    if Protection.PERSISTENT_VOLUMES not in context.policy.evictable.protect:
        return ""
    for volume in context.pods.class_of(row).spec.volumes or ():
        if volume.persistent_volume_claim or volume.ephemeral:
            return f"volume {volume.name} is a persistent volume claim"
    return ""


def storage_class(context: EvictionContext, row: PodRow) -> str:
    """Claims of a storage class that the policy leaves alone; the class of a claim not read is unknown."""
    protected = context.policy.evictable.protect_storage_classes
    if not protected:
        return ""
    for name, claim in context.claims_of(context.pods.class_of(row)):
        if claim is None:
            return f"claim {name} was not read: its storage class is unknown"
        if (claim.spec.storage_class_name or "") in protected:
            return f"claim {name} is of storage class {claim.spec.storage_class_name}"
    return ""


def without_budget(context: EvictionContext, row: PodRow) -> str:
    """Pods whose owners have not said how many of them may be missing."""
    asked = Protection.WITHOUT_BUDGET in context.policy.evictable.protect
    return "no PodDisruptionBudget selects it" if asked and not context.budgets.of(row) else ""


def read_write_once(context: EvictionContext, row: PodRow) -> str:
    """A replacement made at once waits, perhaps for long, for a volume that the old pod still holds."""
    pod = context.pods.class_of(row)
    if context.workload(row).replaced_late:
        return ""
    for name, claim in context.claims_of(pod):
        if claim is not None and _SHARED_MODES.isdisjoint(claim.spec.access_modes or ()):
            modes = ", ".join(claim.spec.access_modes or ()) or "no access mode"
            return f"claim {name} is {modes}"
    return ""


def overlapping(context: EvictionContext, row: PodRow) -> str:
    """Pods that several disruption budgets match: the eviction API refuses them."""
    names = sorted(budget.name for budget in context.budgets.of(row))
    return f"matched by {', '.join(names)}" if len(names) > 1 else ""


def budgets_read(context: EvictionContext, row: PodRow) -> str:
    """Pods whose disruption budgets could not be listed or parsed."""
    if not context.budgets.read:
        return "disruption budgets were not read"
    damaged = context.budgets.unreadable(context.pods.namespaces[row])
    return f"a budget of its namespace could not be read: {damaged}" if damaged else ""


def budget_allows(context: EvictionContext, row: PodRow) -> str:
    """Pods whose disruption budget allows no disruption now."""
    spent = exhausted(context.budgets.spent_by(row), {})
    return f"budget {spent.name} {spent.message}" if spent else ""


def quotas_read(context: EvictionContext, row: PodRow) -> str:
    """Any pod, when ResourceQuotas could not be listed; of a dump, those that need a second place."""
    if context.quotas.read:
        return ""
    if context.workload(row).replaced_late and not context.recording.failed(RESOURCE_QUOTAS):
        return ""
    return "quotas were not read: whether there is room for its replacement is unknown"


def quota(context: EvictionContext, row: PodRow) -> str:
    """No room in a ResourceQuota for a replacement, beside which the pod itself still counts for a while."""
    classes = context.pods.classes
    leaving = context.pods.class_of(row) if context.workload(row).replaced_late else None
    return context.quotas.lacking(classes[context.replacement(row).pod_class], leaving=leaving)


def other_scheduler(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """Pods, or replacements, of a scheduler that is not configured or that the policy leaves out."""
    inputs = context.inputs
    for pod_class in (int(context.pods.pod_class[row]), context.replacement(row).pod_class):
        name = context.pods.classes[pod_class].scheduler_name
        if name not in inputs.scheduler_of:
            return _not_configured(name, inputs.schedulers)
        if name not in inputs.acts_on:
            return f"the policy does not act for schedulerName {name}"
    return ""


def _not_configured(name: str, schedulers: Sequence[SchedulerFacts]) -> NotMoved:
    """That no configuration has a profile of a schedulerName, and where to name the one that has."""
    given = [scheduler for scheduler in schedulers if scheduler.configuration.source != DEFAULTS_SOURCE]
    message = f"schedulerName {name} is not in the scheduler's configuration"
    if given:
        message += f" {' or '.join(scheduler.configuration.source for scheduler in given)}"
    elif not any(scheduler.settings.configured_by for scheduler in schedulers):
        message += (
            ", which was not given: name it in scheduler.configMap, found with: kubectl get configmaps -A "
            "| grep scheduler"
        )
    places = [
        scheduler.settings.configured_by for scheduler in schedulers if scheduler.settings.configured_by
    ]
    return NotMoved(Reason.OTHER_SCHEDULER, message, (f"scheduler.{places[0] if places else 'configMap'}",))


def scheduler_alive(context: EvictionContext, row: PodRow) -> str:
    """Pods whose replacement would wait, as nobody knows that the scheduler that places it is alive."""
    schedulers = context.inputs.scheduler_of
    for pod_class in (int(context.pods.pod_class[row]), context.replacement(row).pod_class):
        scheduler = schedulers.get(context.pods.classes[pod_class].scheduler_name)
        if scheduler is not None and scheduler.not_alive:
            return scheduler.not_alive
    return ""


def namespaces_read(context: EvictionContext, _row: PodRow) -> str:
    """Any pod, when namespaces could not be listed."""
    why = "namespaces were not read: whether its own is being deleted is unknown"
    return why if context.recording.failed(NAMESPACES) else ""


def priority_class(context: EvictionContext, row: PodRow) -> str:
    """A pod whose replacement would be refused by its PriorityClass, or given another priority.

    Source: kubernetes v1.36.3 plugin/pkg/admission/priority/admission.go, admitPod.
    """
    template = context.workload(row).template
    pod = context.pods.class_of(row)
    name = (template or pod).spec.priority_class_name
    classes = context.priority_classes
    name = name or context.workloads.default_priority_class
    if classes is None:
        if not name and not context.recording.failed(PRIORITY_CLASSES):
            return ""
        what = f"what {name or 'a default'} makes of its replacement"
        return f"PriorityClasses were not read: {what} is unknown"
    own = pod.spec.priority_class_name
    if not name:
        message = f"PriorityClass {own} is not the default any more: its replacement has none"
        return message if own else ""
    priority = classes.get(name)
    if priority is None:
        return f"PriorityClass {name} does not exist any more: its replacement would be refused"
    if priority == pod.priority:
        return ""
    return f"its priority is {pod.priority}, PriorityClass {name} would give its replacement {priority}"


def limit_ranges(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """A pod whose replacement a LimitRange would refuse, or change in a way that is not known."""
    ranges = context.workloads.limit_ranges
    namespace = context.pods.namespaces[row]
    if ranges.failed:
        return "LimitRanges were not read: what one makes of its replacement is unknown"
    if not ranges.read:
        return ""
    spec = context.pods.classes[context.replacement(row).pod_class].spec
    own = context.pods.class_of(row).spec
    why = (
        ranges.why_unknown(namespace, spec)
        or ranges.why_changed(namespace, own, context.pods.annotations[row])
        or ranges.why_added(namespace, spec)
    )
    refusal = "" if why else ranges.refusal(namespace, spec)
    return NotMoved(Reason.NO_REPLACEMENT, refusal) if refusal else why


def load_known(context: EvictionContext, row: PodRow) -> str:
    """Pods on a node of which nothing is known that a rule needs: any one resource may be worth relieving."""
    load = context.inputs.load
    if not context.load_unknown[row] or context.pods.node[row] < 0:
        return ""
    return unknown_load(load.required)


def unknown_load(resources: Sequence[str]) -> str:
    """That a pod stays since what it uses of some resources is not known."""
    return f"no load source reports what it uses of {' and '.join(resources)}, nor what its node uses"


def cooldown(context: EvictionContext, row: PodRow) -> str | NotMoved:
    """Pods of a workload that was moved within its cooldown, or by an earlier plan of the same run."""
    workload = context.workload(row)
    planning = context.policy.planning
    now = context.inputs.now
    if workload.key in context.moved_by_this_run:
        return f"{workload.name} was moved by this run, which moves it only once"
    if not planning.cooldown:
        return ""
    history = context.history
    cooldown = history.cooldown_seconds(
        now, first=planning.cooldown, workload=workload.key, controller_uid=workload.owner.uid
    )
    for seconds, results, reason in (
        (BAD_LANDING_COOLDOWN_SECONDS, BAD_RESULTS, Reason.LANDED_BADLY),
        (cooldown, None, Reason.COOLDOWN),
    ):
        last = history.in_cooldown(
            now, seconds, workload=workload.key, controller_uid=workload.owner.uid, results=results
        )
        if last is not None:
            ago = age_text(max(0.0, now - last.evicted_at))
            message = f"{workload.name} was moved {ago} ago ({last.result}), cooldown {age_text(seconds)}"
            return NotMoved(reason, message)
    return ""


Rule = tuple[Callable[[EvictionContext, PodRow], str | NotMoved], Reason]

ALWAYS: tuple[Rule, ...] = (
    (static, Reason.STATIC_POD),
    (daemon_set, Reason.DAEMON_SET),
    (terminating, Reason.TERMINATING),
    (workload_rules.controller, Reason.NO_CONTROLLER),
    (overlapping, Reason.OVERLAPPING_BUDGETS),
    (node_ready, Reason.NODE_NOT_READY),
    (node_leaving, Reason.NODE_LEAVING),
    (system, Reason.SYSTEM_COMPONENT),
)
BY_POLICY: tuple[Rule, ...] = (
    (namespace, Reason.NAMESPACE),
    (labels, Reason.LABELS),
    (priority, Reason.PRIORITY),
    (workload_rules.job, Reason.JOB),
    (workload_rules.ends_soon, Reason.ENDS_SOON),
    (annotated, Reason.ANNOTATION),
    (debugged, Reason.DEBUGGED),
    (workload_rules.restarts_together, Reason.RESTARTS_TOGETHER),
    (local_storage, Reason.LOCAL_STORAGE),
    (persistent_volumes, Reason.PERSISTENT_VOLUMES),
    (storage_class, Reason.STORAGE_CLASS),
    (without_budget, Reason.WITHOUT_BUDGET),
    (workload_rules.single_replica, Reason.SINGLE_REPLICA),
    (workload_rules.minimum_replicas, Reason.MIN_REPLICAS),
    (young, Reason.TOO_YOUNG),
)
OF_THE_WORKLOAD: tuple[Rule, ...] = (
    (workload_rules.job_would_fail, Reason.JOB_WOULD_FAIL),
    (workload_rules.no_replacement, Reason.NO_REPLACEMENT),
    (read_write_once, Reason.READ_WRITE_ONCE),
    (workload_rules.rollout, Reason.ROLLOUT),
    (workload_rules.unready_replicas, Reason.UNREADY_REPLICAS),
    (grace_period, Reason.GRACE_PERIOD),
    (workload_rules.replaced_in_time, Reason.GRACE_PERIOD),
)
UNKNOWN: tuple[Rule, ...] = (
    (other_scheduler, Reason.OTHER_SCHEDULER),
    (scheduler_alive, Reason.SCHEDULER_NOT_ALIVE),
    (namespaces_read, Reason.UNPREDICTABLE),
    (budgets_read, Reason.UNPREDICTABLE),
    (evictions_read, Reason.UNPREDICTABLE),
    (workload_rules.replicas_known, Reason.UNPREDICTABLE),
    (workload_rules.controllers_read, Reason.UNPREDICTABLE),
    (priority_class, Reason.UNPREDICTABLE),
    (limit_ranges, Reason.UNPREDICTABLE),
    (workload_rules.older_revision, Reason.OLDER_REVISION),
    (workload_rules.autoscalers_read, Reason.UNPREDICTABLE),
    (workload_rules.autoscaler, Reason.AUTOSCALING),
    (workload_rules.vertical_autoscaler, Reason.VERTICAL_AUTOSCALING),
    (quotas_read, Reason.UNPREDICTABLE),
    (quota, Reason.QUOTA),
    (workload_rules.placement_known, Reason.UNPREDICTABLE),
    (load_known, Reason.UNKNOWN_LOAD),
    (budget_allows, Reason.BUDGET),
    (cooldown, Reason.COOLDOWN),
)


# Those that do not keep a pod that has finished from its removal: it serves nobody, nothing is placed in its
# stead, and the API server asks no budget. Every other rule keeps it too.
_OF_RUNNING_PODS = frozenset(
    {
        overlapping,
        debugged,
        without_budget,
        workload_rules.ends_soon,
        workload_rules.restarts_together,
        workload_rules.single_replica,
        workload_rules.minimum_replicas,
        *(rule for rule, _ in OF_THE_WORKLOAD),
        *(rule for rule, _ in UNKNOWN if rule is not evictions_read),
    }
)


def why_protected(context: EvictionContext, row: PodRow, lifted: Collection[Reason] = ()) -> NotMoved | None:
    """Why a pod may not be evicted; None when it may.

    ``lifted`` are no reasons to keep a pod that is not ready: nobody misses it, so it may go while its
    workload has too few that are.
    """
    if context.ordinary[row]:
        index = int(context.pods.pod_class[row])
        if index not in context.first_refusals:
            context.first_refusals[index] = next(_asked(context, row), None)
        return context.first_refusals[index]
    if lifted and not context.pods.ready[row]:
        return next((refusal for refusal in _asked(context, row) if refusal.reason not in lifted), None)
    if row not in context.first_of_others:
        context.first_of_others[row] = next(_asked(context, row), None)
    return context.first_of_others[row]


def every_refusal(context: EvictionContext, row: PodRow) -> Iterable[NotMoved]:
    """Each reason why a pod may not be evicted, in the order of the rules."""
    if not context.ordinary[row]:
        may_leave = row in context.first_of_others and context.first_of_others[row] is None
        return () if may_leave else _asked(context, row)
    index = int(context.pods.pod_class[row])
    if index not in context.refusals:
        context.refusals[index] = tuple(_asked(context, row))
    return context.refusals[index]


def refusals_of_finished(context: EvictionContext, row: PodRow) -> Iterator[NotMoved]:
    """Each reason why a pod that has finished may not be removed, in the order of the rules."""
    rules = (rule for rule in _rules_for(context, row) if rule[0] not in _OF_RUNNING_PODS)
    return refusals(rules, context, row)


def _asked(context: EvictionContext, row: PodRow) -> Iterator[NotMoved]:
    """What the rules say of one pod."""
    return refusals(_rules_for(context, row), context, row)


def _rules_for(context: EvictionContext, row: PodRow) -> Sequence[Rule]:
    """The rules for a pod: an annotation of its own lifts those of the policy."""
    asked = {context.pods.annotations[row].get(name) for name in EVICT} - {None}
    lifted = bool(asked) and not any(map(_says_no, asked))
    by_policy = () if lifted else BY_POLICY
    return (*ALWAYS, (window, Reason.WINDOW), *by_policy, *OF_THE_WORKLOAD, *UNKNOWN)


def refusals(rules: Iterable[Rule], context: EvictionContext, row: PodRow) -> Iterator[NotMoved]:
    """What each of these rules that refuses says of a pod, in their order."""
    for rule, reason in rules:
        if answer := rule(context, row):
            yield answer if isinstance(answer, NotMoved) else NotMoved(reason, answer)
