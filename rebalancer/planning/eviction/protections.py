"""Which pods may not be evicted, each with its reason.

Three tables in the order they are asked: what nobody may lift, what the policy protects (an annotation may
lift it), what is not known well enough. The first answer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rebalancer.cluster.arrays import BoolArray
from rebalancer.cluster.columns.pods import MIRROR_ANNOTATION
from rebalancer.cluster.kinds import PRIORITY_CLASSES
from rebalancer.cluster.records import PriorityClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.eviction import pod_rules, workload_rules
from rebalancer.planning.eviction.budgets import Budgets
from rebalancer.planning.eviction.claims import PersistentVolumeClaims
from rebalancer.planning.eviction.pod_rules import age_text
from rebalancer.planning.eviction.quotas import Quotas
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.workloads.autoscalers import Autoscalers
from rebalancer.planning.workloads.lookup import RECREATING, WorkloadInfo, Workloads
from rebalancer.planning.workloads.replacement import Replacement, Replacements
from rebalancer.state import in_cooldown

EVICT = "descheduler.alpha.kubernetes.io/evict"
# What became of a move that should not be repeated soon.
BAD_RESULTS = frozenset({"Unexpected", "Pending", "NotReady", "NotReplaced"})
_STATIC_SOURCES = ("file", "http")

Rule = Callable[["Protections", int], KeptReason | None]


class Protections:
    """Judges pods; what it finds of a pod's workload, budgets and replacement is kept for the planner."""

    def __init__(self, inputs: PlanningInputs, unpredictable: Mapping[int, str]) -> None:
        """``unpredictable`` gives, by pod class, why the model cannot place pods of the class."""
        self.inputs = inputs
        self.pods = inputs.snapshot.pods
        self.nodes = inputs.snapshot.nodes
        self.policy = inputs.policy
        self.workloads = Workloads(inputs.snapshot)
        self.budgets = Budgets(inputs.snapshot)
        self.autoscalers = Autoscalers(inputs.snapshot)
        self.quotas = Quotas(inputs.snapshot)
        self.claims = PersistentVolumeClaims(inputs.snapshot)
        self.priority_classes = _priority_classes(inputs.snapshot)
        self.unpredictable = unpredictable
        self._replacements = Replacements(self.pods, self.workloads)
        required = [inputs.load.resources.index(name) for name in inputs.load.required]
        unknown = np.isnan(inputs.load.pod_usage[:, required])
        self.load_unknown: BoolArray = np.asarray(unknown.any(axis=1), np.bool_)  # (pods,)

    def judge(self, row: int) -> KeptReason | None:
        """Why a pod may not be evicted; None when it may."""
        for rule in ALWAYS:
            found = rule(self, row)
            if found:
                return found
        if self.pods.annotations[row].get(EVICT, "false") == "false":
            for rule in BY_POLICY:
                found = rule(self, row)
                if found:
                    return found
        for rule in UNKNOWN:
            found = rule(self, row)
            if found:
                return found
        return None

    def workload(self, row: int) -> WorkloadInfo:
        """The workload of a pod."""
        return self.workloads.of(row)

    def replacement(self, row: int) -> Replacement:
        """What would come back in place of a pod."""
        return self._replacements.of(row)


def _priority_classes(snapshot: Snapshot) -> Mapping[str, int] | None:
    """The value of each PriorityClass by name; None when they were not read."""
    if not snapshot.has(PRIORITY_CLASSES):
        return None
    found = snapshot.recording.records(PRIORITY_CLASSES)
    return {item.metadata.name: item.value for item in found if isinstance(item, PriorityClass)}


def _static(self: Protections, row: int) -> KeptReason | None:
    annotations = self.pods.annotations[row]
    if MIRROR_ANNOTATION in annotations or annotations.get("kubernetes.io/config.source") in _STATIC_SOURCES:
        return KeptReason(Reason.STATIC_POD, "a static pod, made by its node's kubelet")
    if self.pods.class_of(row).owner.kind == "Node":
        return KeptReason(Reason.STATIC_POD, "owned by its node")
    return None


def _daemon_set(self: Protections, row: int) -> KeptReason | None:
    owner = self.pods.class_of(row).owner
    return (
        KeptReason(Reason.DAEMON_SET, f"belongs to DaemonSet {owner.name}")
        if owner.kind == "DaemonSet"
        else None
    )


def _terminating(self: Protections, row: int) -> KeptReason | None:
    return KeptReason(Reason.TERMINATING, "is terminating already") if self.pods.terminating[row] else None


def _controller(self: Protections, row: int) -> KeptReason | None:
    owner = self.pods.class_of(row).owner
    if not owner.kind:
        return KeptReason(Reason.NO_CONTROLLER, "has no controller: an eviction would delete it for good")
    if owner.kind not in RECREATING:
        return KeptReason(
            Reason.NO_CONTROLLER, f"its controller {owner.kind}/{owner.name} is of an unknown kind"
        )
    if self.workloads.was_read(owner) and self.workload(row).record is None:
        return KeptReason(
            Reason.NO_CONTROLLER, f"its controller {owner.kind}/{owner.name} does not exist any more"
        )
    return None


def _overlapping(self: Protections, row: int) -> KeptReason | None:
    budgets = self.budgets.of(row)
    if len(budgets) < 2:
        return None
    return KeptReason(
        Reason.OVERLAPPING_BUDGETS, f"matched by {', '.join(sorted(item.name for item in budgets))}"
    )


def _node_ready(self: Protections, row: int) -> KeptReason | None:
    node = int(self.pods.node[row])
    if node >= 0 and self.nodes.ready[node]:
        return None
    return KeptReason(Reason.NODE_NOT_READY, "its node is not Ready")


def _system(self: Protections, row: int) -> KeptReason | None:
    inputs = self.inputs
    if self.pods.full_name(row) == inputs.own_pod:
        return KeptReason(Reason.SYSTEM_COMPONENT, "this program runs in it")
    if self.workload(row).key in inputs.system_workloads:
        return KeptReason(Reason.SYSTEM_COMPONENT, "the scheduler or a load source that plans rely on")
    return None


def _cooldown(self: Protections, row: int) -> KeptReason | None:
    facts, planning = self.workload(row), self.policy.planning
    for cooldown, results, reason, name in (
        (planning.bad_landing_cooldown, BAD_RESULTS, Reason.LANDED_BADLY, "badLandingCooldown"),
        (planning.cooldown, None, Reason.COOLDOWN, "cooldown"),
    ):
        last = in_cooldown(
            self.inputs.state, self.inputs.now, cooldown, workload=facts.key, controller_uid=facts.owner.uid
        )
        if last is not None and (results is None or last.result in results):
            ago = age_text(max(0.0, self.inputs.now - last.evicted_at))
            because = f"{facts.name} was moved {ago} ago ({last.result}), {name} {age_text(cooldown)}"
            return KeptReason(reason, because)
    return None


def _other_scheduler(self: Protections, row: int) -> KeptReason | None:
    wanted = self.policy.scheduler.profiles
    for class_index in (int(self.pods.pod_class[row]), self.replacement(row).class_index):
        name = self.pods.classes[class_index].scheduler_name
        if self.inputs.configuration.profile(name) is None:
            return KeptReason(
                Reason.OTHER_SCHEDULER, f"schedulerName {name} is not in the scheduler's configuration"
            )
        if wanted and name not in wanted:
            return KeptReason(Reason.OTHER_SCHEDULER, f"the policy does not act for schedulerName {name}")
    return None


def _quotas_read(self: Protections, row: int) -> KeptReason | None:
    if self.quotas.read or self.pods.class_of(row).owner.kind == "StatefulSet":
        return None
    because = "quotas were not read: whether there is room for its replacement beside it is unknown"
    return KeptReason(Reason.UNPREDICTABLE, because)


def _budgets_read(self: Protections, row: int) -> KeptReason | None:
    if not self.budgets.read:
        return KeptReason(Reason.UNPREDICTABLE, "disruption budgets were not read")
    damaged = self.budgets.unreadable(self.pods.namespaces[row])
    if damaged:
        return KeptReason(Reason.UNPREDICTABLE, f"a budget of its namespace could not be read: {damaged}")
    return None


def _replicas_known(self: Protections, row: int) -> KeptReason | None:
    facts = self.workload(row)
    if facts.desired is None:
        return KeptReason(
            Reason.UNPREDICTABLE, f"{facts.owner.kind}s were not read: how many it wants is unknown"
        )
    return None


def _autoscalers_read(self: Protections, row: int) -> KeptReason | None:
    if self.pods.class_of(row).owner.kind == "Job":
        return None
    unread = self.autoscalers.unread
    if unread is not None:
        because = f"{unread.name}s were not read: whether one changes its workload is unknown"
        return KeptReason(Reason.UNPREDICTABLE, because)
    return None


def _placement_known(self: Protections, row: int) -> KeptReason | None:
    if self.policy.scheduler.allow_unpredictable:
        return None
    replacement = self.replacement(row)
    unpredictable_reason = replacement.unpredictable_reason or self.unpredictable.get(
        replacement.class_index, ""
    )
    return KeptReason(Reason.UNPREDICTABLE, unpredictable_reason) if unpredictable_reason else None


def _load_known(self: Protections, row: int) -> KeptReason | None:
    if not self.load_unknown[row]:
        return None
    known = self.inputs.load.pod_load(row)
    unknown = [name for name in self.inputs.load.required if name not in known]
    return KeptReason(Reason.UNKNOWN_LOAD, f"no source tells what it uses of {' and '.join(unknown)}")


def _budget_allows(self: Protections, row: int) -> KeptReason | None:
    spending = self.budgets.spending(row)
    if spending.free or all(budget.allowed > 0 for budget in spending.budgets):
        return None
    budget = next(item for item in spending.budgets if item.allowed <= 0)
    return KeptReason(Reason.BUDGET, f"budget {budget.name} {budget.because}")


ALWAYS: tuple[Rule, ...] = (
    _static,
    _daemon_set,
    _terminating,
    _controller,
    _overlapping,
    _node_ready,
    _system,
)
BY_POLICY: tuple[Rule, ...] = (
    pod_rules.namespace,
    pod_rules.labels,
    pod_rules.priority,
    workload_rules.job,
    pod_rules.annotated,
    pod_rules.local_storage,
    pod_rules.persistent_volumes,
    pod_rules.storage_class,
    pod_rules.single_replica,
    workload_rules.minimum_replicas,
    pod_rules.young,
    pod_rules.read_write_once,
    workload_rules.rollout,
    workload_rules.unready_replicas,
    workload_rules.grace_period,
)
UNKNOWN: tuple[Rule, ...] = (
    _other_scheduler,
    _budgets_read,
    _replicas_known,
    workload_rules.controllers_read,
    workload_rules.priority_class,
    pod_rules.window,
    workload_rules.older_revision,
    _autoscalers_read,
    workload_rules.autoscaler,
    workload_rules.vertical_autoscaler,
    _quotas_read,
    workload_rules.quota,
    _placement_known,
    _load_known,
    _budget_allows,
    _cooldown,
)
