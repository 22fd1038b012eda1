"""Where the scheduler that must place a plan's pods shows that it is alive.

The Lease that the policy names, else the one that the configuration's leader election names, counts alone: a
scheduler that waits for it is ready, and schedules nothing. A configuration that names none means
kube-system/kube-scheduler, which the cluster's default scheduler holds: that Lease says nothing about a
second scheduler, whose pods are looked at instead.

    no configuration, default-scheduler                           lease kube-system/kube-scheduler
    leaderElection: {resourceName: trimaran}                      lease kube-system/trimaran
    leaderElection: {leaderElect: false}                          pods
    profiles: [trimaran], nothing said about leader election      pods
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.cluster.records.pods import is_scheduler
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.execution.scheduler_health import LeaseName, PodSelection, SchedulerLocation
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.profiles.types import DEFAULT_SCHEDULER_NAME, SchedulerConfiguration


def schedulers_of(plan: Plan, inputs: PlanningInputs) -> tuple[SchedulerLocation, ...]:
    """The schedulers that own pods of the plan: one process serves all profiles of a configuration."""
    pods = inputs.snapshot.pods
    names = {
        pods.class_of(pods.row[move.pod.namespace, move.pod.name]).spec.scheduler_name
        or DEFAULT_SCHEDULER_NAME
        for move in plan.moves
    }
    if not names:
        return ()
    return (locate(names, inputs.policy.scheduler, inputs.configuration, inputs.snapshot),)


def locate(
    names: Iterable[str],
    settings: SchedulerSettings,
    configuration: SchedulerConfiguration,
    snapshot: Snapshot,
) -> SchedulerLocation:
    """Where the scheduler that serves these schedulerNames shows that it is alive."""
    name = ", ".join(sorted(names))
    if settings.lease is not None:
        lease = LeaseName(settings.lease.namespace, settings.lease.name)
        return SchedulerLocation(name, lease, named_by="scheduler.lease of the policy")
    election = configuration.leader_election
    serves_default = DEFAULT_SCHEDULER_NAME in configuration.scheduler_names
    pods = _pods(settings, snapshot, without_default=not serves_default)
    if not election.enabled:
        return SchedulerLocation(name, None, "its configuration turns leader election off", pods)
    if not election.named and not serves_default:
        why = f"{configuration.source} names no lease of its own (leaderElection.resourceName)"
        return SchedulerLocation(name, None, why, pods)
    lease = LeaseName(election.namespace, election.name)
    if election.named:
        return SchedulerLocation(name, lease, named_by=f"leaderElection of {configuration.source}")
    return SchedulerLocation(name, lease, pods=pods)


def _pods(settings: SchedulerSettings, snapshot: Snapshot, *, without_default: bool) -> PodSelection | None:
    if settings.config_map is not None:
        place = settings.config_map
        return PodSelection((place.namespace,), place.name)
    namespaces = tuple(sorted(_namespaces_of_schedulers(snapshot)))
    return PodSelection(namespaces, without_default=without_default) if namespaces else None


def _namespaces_of_schedulers(snapshot: Snapshot) -> set[str]:
    return {
        pod.namespace
        for pod in snapshot.pods.classes
        if any(is_scheduler(container.image) for container in pod.spec.containers or ())
    }
