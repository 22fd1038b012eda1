"""The scheduler's version: from the policy, else from the image of its pod, else the API server's version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.pipeline.scheduler.scheduler_pods import is_seen, scheduler_pods
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.versions.release import major_minor

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


def scheduler_version(
    loaded: LoadedPolicy, snapshot: Snapshot, configuration: SchedulerConfiguration, api: RawApi | None
) -> str:
    """``1.35``; empty when it is not known."""
    stated = loaded.policy.scheduler.version
    if stated:
        return major_minor(stated)
    running = versions_running(snapshot)
    if len(running) == 1 and (api is None or is_seen(snapshot, configuration)):
        return running[0]
    return major_minor(api.server_version()) if api is not None else ""


def versions_running(snapshot: Snapshot) -> tuple[str, ...]:
    """The versions in the images of the schedulers' pods.

    scheduler-plugins number theirs 0.MINOR, after the Kubernetes 1.MINOR they are built from.
    """
    found: set[str] = set()
    for _, container in scheduler_pods(snapshot):
        version = major_minor(container.image.partition("@")[0].rpartition(":")[2])
        if version:
            found.add(f"1.{version[2:]}" if version.startswith("0.") else version)
    return tuple(sorted(found))
