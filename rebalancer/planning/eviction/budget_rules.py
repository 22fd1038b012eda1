"""Rules about what the API would refuse: disruption budgets for the eviction, quotas for the replacement."""

from __future__ import annotations

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.workloads.stateful_sets import replaced_after_termination


def overlapping(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods that several disruption budgets match: the eviction API refuses them."""
    budgets = context.budgets.of(row)
    if len(budgets) < 2:
        return None
    return KeptReason(
        Reason.OVERLAPPING_BUDGETS, f"matched by {', '.join(sorted(item.name for item in budgets))}"
    )


def budgets_read(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods whose disruption budgets could not be listed or parsed."""
    if not context.budgets.read:
        return KeptReason(Reason.UNPREDICTABLE, "disruption budgets were not read")
    damaged = context.budgets.unreadable(context.pods.namespaces[row])
    if damaged:
        return KeptReason(Reason.UNPREDICTABLE, f"a budget of its namespace could not be read: {damaged}")
    return None


def budget_allows(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods whose disruption budget allows no disruption now."""
    spending = context.budgets.spending(row)
    if spending.free or all(budget.allowed > 0 for budget in spending.budgets):
        return None
    budget = next(item for item in spending.budgets if item.allowed <= 0)
    return KeptReason(Reason.BUDGET, f"budget {budget.name} {budget.because}")


def quotas_read(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods replaced before they are gone, when ResourceQuotas could not be listed."""
    if context.quotas.read or replaced_after_termination(context.pods.class_of(row).owner):
        return None
    because = "quotas were not read: whether there is room for its replacement beside it is unknown"
    return KeptReason(Reason.UNPREDICTABLE, because)


def quota(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """No room in a ResourceQuota for a replacement while the pod itself still counts."""
    if replaced_after_termination(context.pods.class_of(row).owner):
        return None  # its replacement is made once it is gone
    lacking = context.quotas.lacking(context.pods.class_of(row))
    return KeptReason(Reason.QUOTA, lacking) if lacking else None
