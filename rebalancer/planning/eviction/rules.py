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
from rebalancer.planning.eviction.pod_rules import annotated, daemon_set, evictions_read, grace_period, labels, namespace, node_leaving, node_ready, priority, static, system, terminating, window, young
from rebalancer.planning.eviction.volume_rules import local_storage, persistent_volumes, read_write_once, storage_class
from rebalancer.planning.eviction.workload_rules import controller, controllers_read, minimum_replicas, older_revision, replicas_known, rollout, single_replica, unready_replicas
from rebalancer.planning.eviction.job_rules import ends_soon, job, job_would_fail
from rebalancer.planning.eviction.autoscaler_rules import autoscaler, autoscalers_read, vertical_autoscaler
from rebalancer.planning.eviction.budget_rules import budget_allows, budgets_read, overlapping, quota, quotas_read
from rebalancer.planning.eviction.replacement_rules import load_known, other_scheduler, placement_known, priority_class
from rebalancer.planning.eviction.history_rules import cooldown
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason

EVICT = "descheduler.alpha.kubernetes.io/evict"

Rule = Callable[[EvictionContext, PodRow], KeptReason | None]

ALWAYS: tuple[Rule, ...] = (
    static,
    daemon_set,
    terminating,
    controller,
    overlapping,
    node_ready,
    node_leaving,
    system,
)
BY_POLICY: tuple[Rule, ...] = (
    namespace,
    labels,
    priority,
    job,
    ends_soon,
    annotated,
    local_storage,
    persistent_volumes,
    storage_class,
    single_replica,
    minimum_replicas,
    young,
)
OF_THE_WORKLOAD: tuple[Rule, ...] = (
    job_would_fail,
    read_write_once,
    rollout,
    unready_replicas,
    grace_period,
)
UNKNOWN: tuple[Rule, ...] = (
    other_scheduler,
    budgets_read,
    evictions_read,
    replicas_known,
    controllers_read,
    priority_class,
    window,
    older_revision,
    autoscalers_read,
    autoscaler,
    vertical_autoscaler,
    quotas_read,
    quota,
    placement_known,
    load_known,
    budget_allows,
    cooldown,
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
