"""Whether the scheduler has only just started, asked only where one of its plugins scores otherwise then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.inputs import SchedulerStart
from rebalancer.policy import SchedulerSettings
from rebalancer.profiles.types import SchedulerConfiguration

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


def recent_start(
    settings: SchedulerSettings,
    configuration: SchedulerConfiguration,
    snapshot: Snapshot,
    api: RawApi | None,
    now: float,
) -> SchedulerStart | None:
    """When the scheduler started; None for a recording, and where no plugin cares."""
    names = [
        profile.scheduler_name
        for profile in configuration.profiles
        if any(
            name in configuration.plugins and configuration.plugins[name].counts_recent_pods
            for name in profile.plugin_names
        )
    ]
    if api is None or not names:
        return None
    from rebalancer.execution import scheduler_start  # noqa: PLC0415 - imports kubernetes
    from rebalancer.pipeline.scheduler.location import locate  # noqa: PLC0415 - so does it

    return scheduler_start(api, locate(names, settings, configuration, snapshot), now)
