"""Rules about the replacement: a scheduler we act for, a class the model can place, a load that is known."""

from __future__ import annotations

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.reasons import KeptReason, Reason


def other_scheduler(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods, or replacements, of a scheduler that is not configured or that the policy leaves out."""
    wanted = context.policy.scheduler.profiles
    for class_index in (int(context.pods.pod_class[row]), context.replacement(row).class_index):
        name = context.pods.classes[class_index].scheduler_name
        if context.inputs.configuration.profile(name) is None:
            because = f"schedulerName {name} is not in the scheduler's configuration"
            return KeptReason(Reason.OTHER_SCHEDULER, because, (_configuration_setting(context),))
        if wanted and name not in wanted:
            return KeptReason(Reason.OTHER_SCHEDULER, f"the policy does not act for schedulerName {name}")
    return None


def _configuration_setting(context: EvictionContext) -> str:
    """The setting that says where the scheduler's configuration is, or would say it."""
    scheduler = context.policy.scheduler
    given = {"scheduler.file": scheduler.file, "scheduler.inline": scheduler.inline}
    return next((name for name, value in given.items() if value), "scheduler.configMap")


def priority_class(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """A pod of a PriorityClass that would refuse its replacement, or give it another priority."""
    template = context.workload(row).template
    name = (template or context.pods.class_of(row)).spec.priority_class_name
    if not name:
        return None
    if context.priority_classes is None:
        because = f"PriorityClasses were not read: what {name} makes of its replacement is unknown"
        return KeptReason(Reason.UNPREDICTABLE, because)
    priority, own = context.priority_classes.get(name), context.pods.class_of(row).priority
    if priority is None:
        because = f"PriorityClass {name} does not exist any more: its replacement would be refused"
        return KeptReason(Reason.UNPREDICTABLE, because)
    if priority == own:
        return None
    because = f"its priority is {own}, PriorityClass {name} would give its replacement {priority}"
    return KeptReason(Reason.UNPREDICTABLE, because)


def placement_known(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods whose replacement cannot be predicted, or cannot be placed by the model."""
    if context.policy.scheduler.allow_unpredictable:
        return None
    replacement = context.replacement(row)
    unpredictable_reason = replacement.unpredictable_reason or context.unpredictable.get(
        replacement.class_index, ""
    )
    return KeptReason(Reason.UNPREDICTABLE, unpredictable_reason) if unpredictable_reason else None


def load_known(context: EvictionContext, row: PodRow) -> KeptReason | None:
    """Pods whose usage is not known in every resource that a rule needs."""
    if not context.load_unknown[row]:
        return None
    known = context.inputs.load.pod_load(row)
    unknown = [name for name in context.inputs.load.required if name not in known]
    return KeptReason(Reason.UNKNOWN_LOAD, f"no load source reports what it uses of {' and '.join(unknown)}")
