"""Whether the scheduler that must place the replacements is alive.

Its Lease is looked at first: a live leader renews it every few seconds. The Lease is judged by our clock only
while that calls it fresh. Otherwise it is watched for as long as it is valid, as another candidate for the
leadership would do, so that clocks that differ neither hide a dead scheduler nor condemn a live one:

    renewed 3 s ago, valid for 15 s       alive
    renewed 70 s ago                      watched: renewed within 15 s, so the clocks differ, and it is alive
    renewed 70 s ago                      watched: unchanged for 15 s, so it is dead

A scheduler without a Lease is alive when its pods are running and ready; all else is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.errors import InternalError, RebalancerError, StopRequestedError, UnreachableError
from rebalancer.execution.safeguards.lease_object import duration_of, record_of, spec_of, text_of
from rebalancer.execution.safeguards.scheduler_pods import (
    PodSelection,
    age_in_words,
    read_scheduler_pods,
)

DEFAULT_VALID_SECONDS = 15.0  # kube-scheduler's leaderElection.leaseDuration
MAX_VALID_SECONDS = 60.0  # a Lease that claims to be valid for longer is not trusted for longer
_LOOK_SECONDS = 2.0
_object = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The namespace and the name of a Lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"lease {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class SchedulerLocation:
    """Where a scheduler shows that it is alive: its leader election lease, else its own pods."""

    name: str  # the schedulerNames that it serves, as messages name it
    lease: LeaseName | None = LeaseName("kube-system", "kube-scheduler")
    why_no_lease: str = ""  # in words, where ``lease`` is None
    pods: PodSelection | None = None  # None: where its pods run is not known
    named_by: str = ""  # who names the lease: a scheduler that does not hold it schedules nothing then


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """Whether a scheduler is alive, None being unknown, and how that was determined."""

    name: str
    alive: bool | None
    because: str


def scheduler_health(api: RawApi, location: SchedulerLocation, now: float) -> SchedulerHealth:
    """Whether a scheduler is alive; ``now`` in Unix seconds.

    Raises StopRequestedError when asked to stop while a Lease was watched.
    """
    try:
        absent = location.why_no_lease or "it has no lease"
        if location.lease is not None:
            by_lease = _by_lease(api, location, location.lease, now)
            if by_lease is not None:
                return by_lease
            absent = f"{location.lease} does not exist"
            if location.named_by:
                return SchedulerHealth(location.name, None, f"{absent}, which {location.named_by} names")
        if location.pods is None:
            return SchedulerHealth(location.name, None, f"{absent}, and where its pods run is not known")
        return _by_pods(api, location, location.pods, absent, now)
    except (StopRequestedError, InternalError):
        raise
    except RebalancerError as error:
        return SchedulerHealth(location.name, None, str(error))


def _by_lease(
    api: RawApi, location: SchedulerLocation, lease: LeaseName, now: float
) -> SchedulerHealth | None:
    found = read_lease(api, lease)
    if found is None:
        return None
    spec, age = spec_of(found), now - _renewed_at(found, lease)
    holder = text_of(spec, "holderIdentity")[:200]
    valid = (
        min(duration_of(spec, DEFAULT_VALID_SECONDS), MAX_VALID_SECONDS) if holder else DEFAULT_VALID_SECONDS
    )
    was = f"{lease} of {holder} was" if holder else f"nobody holds {lease},"
    when = f"{was} renewed {age_in_words(age)}"
    if holder and abs(age) <= valid:
        return SchedulerHealth(location.name, True, when)
    changed, watched = _watched(api, lease, found, valid)
    if not changed:
        why = f"{when}, and not again in the {watched:.0f} s for which it was watched"
        return SchedulerHealth(location.name, False, why)
    why = f"; its clock differs from ours by about {abs(age):.0f} s" if holder else ""
    return SchedulerHealth(location.name, True, f"{when}, and again while it was watched{why}")


def _watched(api: RawApi, lease: LeaseName, found: dict[str, Any], seconds: float) -> tuple[bool, float]:
    """Whether somebody renews the Lease within ``seconds``, and for how long it was watched."""
    since = api.retries.clock()
    while (watched := api.retries.clock() - since) < seconds:
        if api.retries.wait(min(_LOOK_SECONDS, seconds)):
            raise StopRequestedError(f"asked to stop while {lease} was watched")
        item = read_lease(api, lease)
        if item is None:
            return False, api.retries.clock() - since
        if record_of(item) != record_of(found) and text_of(spec_of(item), "holderIdentity"):
            return True, api.retries.clock() - since
    return False, watched


def read_lease(api: RawApi, lease: LeaseName) -> dict[str, Any] | None:
    """The Lease as it is; None when there is none. Raises RightsError or UnreachableError."""
    # Read as a list of one, so that one right (list) serves and an absent lease is not an error.
    body = api.get(
        f"read {lease}",
        api.client.custom_objects.list_namespaced_custom_object,
        "coordination.k8s.io",
        "v1",
        lease.namespace,
        "leases",
        field_selector=f"metadata.name={lease.name}",
    )
    try:
        items = _object.decode(body).get("items") or ()
        if not items:
            return None
        if not isinstance(items[0], dict):
            raise TypeError
        return items[0]
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreachableError(f"{lease} cannot be read: {type(error).__name__}") from error


def _renewed_at(item: dict[str, Any], lease: LeaseName) -> float:
    text = text_of(spec_of(item), "renewTime")
    try:
        return times.parse(text)
    except (ValueError, OverflowError) as error:
        raise UnreachableError(f"{lease} has no time of renewal that can be read: {text[:40]!a}") from error


def _by_pods(
    api: RawApi, location: SchedulerLocation, pods: PodSelection, absent: str, now: float
) -> SchedulerHealth:
    groups = read_scheduler_pods(api, pods, now)
    if not groups:
        return SchedulerHealth(location.name, None, f"{absent}, and {pods} there are no pods")
    down = [group for group in groups if not group.ready]
    if not down:
        ready = ", ".join(group.ready for group in groups)
        return SchedulerHealth(location.name, True, f"{absent}; {ready}")
    if len(groups) > 1:
        which = ", ".join(group.name for group in groups)
        why = f"which of {which} it is is not known, and no pod of {down[0].name} is ready"
        return SchedulerHealth(location.name, None, f"{absent}; {why}")
    return SchedulerHealth(location.name, False, f"{absent}, and no pod of {down[0].name} is ready")
