"""When the scheduler started, as far as its Lease or its pods show.

A scheduler lists its pods before or as soon as it becomes the leader, so it started at the latest when it
acquired its Lease. A scheduler without a Lease started at the latest when its pod became ready; of several
pods the last one counts, as it is not known which of them decides.
"""

from __future__ import annotations

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.errors import InternalError, RebalancerError, StopRequestedError, UnreachableError
from rebalancer.execution.safeguards.lease_object import spec_of, text_of
from rebalancer.execution.safeguards.scheduler_health import LeaseName, SchedulerLocation, read_lease
from rebalancer.execution.safeguards.scheduler_pods import latest_start
from rebalancer.planning import SchedulerStart


def scheduler_start(api: RawApi, location: SchedulerLocation, now: float) -> SchedulerStart:
    """The latest moment at which the scheduler may have started; ``now`` in Unix seconds."""
    try:
        absent = location.why_no_lease or "it has no lease"
        if location.lease is not None:
            acquired = _acquired(api, location.lease)
            if acquired is not None:
                when = times.render(acquired)
                return SchedulerStart(acquired, f"its scheduler acquired {location.lease} at {when}")
            absent = f"{location.lease} does not exist"
        if location.pods is None:
            return SchedulerStart(None, f"{absent}, and where its pods run is not known")
        found = latest_start(api, location.pods, now)
        if found is None:
            return SchedulerStart(None, f"{absent}, and {location.pods} there are no pods")
        return SchedulerStart(
            found[0], f"its scheduler's pod {found[1]} has been ready since {times.render(found[0])}"
        )
    except (StopRequestedError, InternalError):
        raise
    except RebalancerError as error:
        return SchedulerStart(None, str(error))


def _acquired(api: RawApi, lease: LeaseName) -> float | None:
    found = read_lease(api, lease)
    if found is None:
        return None
    text = text_of(spec_of(found), "acquireTime")
    try:
        return times.parse(text)
    except (ValueError, OverflowError) as error:
        raise UnreachableError(f"{lease} does not say when it was acquired: {text[:40]!a}") from error
