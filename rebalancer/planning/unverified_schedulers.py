"""Schedulers on which a run does not act: what they decide about the pods of its plan was not compared.

A minor that was not compared is acted on if no rule in which it differs is in use by these pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalancer.cluster.pod_classes import PodClass
from rebalancer.planning.inputs import PlanningInputs, SchedulerFacts
from rebalancer.scheduling.versions.verified import verified_in_words, why_unverified, why_versions_differ


def not_acted_on(inputs: PlanningInputs, moved: Sequence[PodClass]) -> Iterator[tuple[SchedulerFacts, str]]:
    """Each scheduler that a run does not act on, with why; ``moved`` are the pods of its plan."""
    for scheduler in inputs.schedulers:
        served = scheduler.configuration.scheduler_names
        own = [pod for pod in moved if pod.scheduler_name in served]
        version = scheduler.version
        reason = why_unverified(version, own) or why_versions_differ(version, scheduler.other_versions, own)
        if not reason or scheduler.settings.allow_unverified_version:
            continue
        if not version and not own:
            continue
        which = version or "of an unknown version"
        if len(inputs.policy.schedulers) > 1 or not scheduler.serves_default:
            which += f" ({scheduler.name})"
        yield (
            scheduler,
            f"run does not act on scheduler {which}: {reason}; verified are {verified_in_words()}",
        )
