"""The table of rules that protect pods from eviction, and the one function that applies it.

Four groups, asked in this order, and the first rule that refuses gives the reason:

* ``ALWAYS``: nothing lifts these; evicting such a pod would be wrong or futile whatever the policy says.
* ``BY_POLICY``: what the policy protects; the annotation ``descheduler.alpha.kubernetes.io/evict`` on the pod
  lifts all of them, and nothing else.
* ``OF_THE_WORKLOAD``: the workload could not take the eviction well, whatever its owner wishes.
* ``UNKNOWN``: the pod could be evicted, but not enough is known of its replacement, or not now.

To add a rule: write ``(context, row) -> KeptReason | None`` in the file of its field, give it a Reason, and
name it here where it should be asked. Cheap rules and rules with the plainest reasons come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction import (
    autoscaler_rules,
    budget_rules,
    history_rules,
    job_rules,
    pod_rules,
    replacement_rules,
    volume_rules,
    workload_rules,
)
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason

EVICT = "descheduler.alpha.kubernetes.io/evict"

Rule = Callable[[EvictionContext, PodRow], KeptReason | None]

ALWAYS: tuple[Rule, ...] = (
    pod_rules.static,
    pod_rules.daemon_set,
    pod_rules.terminating,
    workload_rules.controller,
    budget_rules.overlapping,
    pod_rules.node_ready,
    pod_rules.node_leaving,
    pod_rules.system,
)
BY_POLICY: tuple[Rule, ...] = (
    pod_rules.namespace,
    pod_rules.labels,
    pod_rules.priority,
    job_rules.job,
    job_rules.ends_soon,
    pod_rules.annotated,
    volume_rules.local_storage,
    volume_rules.persistent_volumes,
    volume_rules.storage_class,
    workload_rules.single_replica,
    workload_rules.minimum_replicas,
    pod_rules.young,
)
OF_THE_WORKLOAD: tuple[Rule, ...] = (
    job_rules.job_would_fail,
    volume_rules.read_write_once,
    workload_rules.rollout,
    workload_rules.unready_replicas,
    pod_rules.grace_period,
)
UNKNOWN: tuple[Rule, ...] = (
    replacement_rules.other_scheduler,
    budget_rules.budgets_read,
    pod_rules.evictions_read,
    workload_rules.replicas_known,
    workload_rules.controllers_read,
    replacement_rules.priority_class,
    pod_rules.window,
    workload_rules.older_revision,
    autoscaler_rules.autoscalers_read,
    autoscaler_rules.autoscaler,
    autoscaler_rules.vertical_autoscaler,
    budget_rules.quotas_read,
    budget_rules.quota,
    replacement_rules.placement_known,
    replacement_rules.load_known,
    budget_rules.budget_allows,
    history_rules.cooldown,
)


def why_protected(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Why a pod may not be evicted; None when it may."""
    return next(every_refusal(context, row), None)


def every_refusal(context: EvictionContext, row: PodRow) -> Iterator[KeptReason]:
    """Each reason why a pod may not be evicted, in the order in which the rules are asked."""
    lifted = context.pods.annotations[row].get(EVICT, "false") != "false"
    for rules in (ALWAYS, () if lifted else BY_POLICY, OF_THE_WORKLOAD, UNKNOWN):
        for rule in rules:
            refusal = rule(context, row)
            if refusal is not None:
                yield refusal
