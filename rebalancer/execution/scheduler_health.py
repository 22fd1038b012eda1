"""Whether the scheduler that must place the replacements is alive, and when it started.

Its Lease is looked at first: a live leader renews it every few seconds. The Lease is judged by our clock only
while that calls it fresh. Otherwise it is watched for as long as it is valid, as another candidate for the
leadership would do, so that clocks that differ neither hide a dead scheduler nor condemn a live one:

    renewed 3 s ago, valid for 15 s       alive
    renewed 70 s ago                      watched: renewed within 15 s, so the clocks differ, and it is alive
    renewed 70 s ago                      watched: unchanged for 15 s, so it is dead

A scheduler without a Lease is alive when its pods are running and ready; all else is unknown. Its pods are
those that mount its configuration, else those of its image. Pods of one controller, or the static pods of one
namespace, are one scheduler: one ready replica suffices. Where several schedulers match, each must be ready,
as it is not known which of them places the plan's pods.

A scheduler lists its pods before or as soon as it becomes the leader, so it started at the latest when it
acquired its Lease. A scheduler without a Lease started at the latest when its pod became ready; of several
pods the last one counts, as it is not known which of them decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.lists import read_list
from rebalancer.cluster.records.pods import PROGRAM, is_scheduler
from rebalancer.errors import InternalError, RebalancerError, StopRequestedError, UnreachableError
from rebalancer.execution.lease import duration_of, record_of, spec_of, text_of
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.planning.inputs import SchedulerStart
from rebalancer.planning.scheduler_facts import LeaseName, PodSelection, SchedulerLocation


class _Named(records.Record, frozen=True):
    name: str = ""


class _Projected(records.Record, frozen=True):
    config_map: _Named | None = None


class _Sources(records.Record, frozen=True):
    sources: list[_Projected] | None = None


class _Volume(records.Record, frozen=True):
    config_map: _Named | None = None
    projected: _Sources | None = None


class _Container(records.Record, frozen=True):
    image: str = ""


class _SchedulerPodSpec(records.Record, frozen=True):
    node_name: str = ""
    containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None


class _SchedulerPod(ObservedPod, frozen=True):
    spec: _SchedulerPodSpec = _SchedulerPodSpec()  # type: ignore[assignment] # more fields of the same object

    @property
    def of_scheduler_image(self) -> bool:
        return any(is_scheduler(item.image) for item in self.spec.containers or ())

    @property
    def of_default_scheduler(self) -> bool:
        """Labelled as kubeadm, and whoever follows it, labels the control plane's own scheduler."""
        return (self.metadata.labels or {}).get("component") == PROGRAM

    def mounts(self, config_map: str) -> bool:
        for volume in self.spec.volumes or ():
            sources = (volume.projected.sources if volume.projected else None) or ()
            mounted = [volume.config_map, *(source.config_map for source in sources)]
            if any(item is not None and item.name == config_map for item in mounted):
                return True
        return False

    @property
    def scheduler(self) -> str:
        if self.controller.kind in ("", "Node"):
            return f"the static pods {self.metadata.namespace}/{PROGRAM}"
        return f"{self.metadata.namespace}/{self.controller.kind}/{self.controller.name}"


_PODS = Kind("pods", "Pod", "", "v1", _SchedulerPod)


def _read(api: RawApi, selection: PodSelection) -> list[_SchedulerPod]:
    """The pods of a scheduler.

    Raises RightsError or UnreachableError when pods cannot be read, also single ones: any may be meant.
    """
    found: list[_SchedulerPod] = []
    for namespace in selection.namespaces:
        what = f"list pods of {namespace}"
        listing = read_list(api, _PODS, what, object_path("v1", namespace, "pods"))
        if listing.malformed:
            names = ", ".join(item.name for item in listing.malformed[:3])
            raise UnreachableError(f"{what}: cannot be read: {names}")
        found.extend(pod for pod in listing.records if isinstance(pod, _SchedulerPod))
    if selection.config_map:
        mounting = [pod for pod in found if pod.mounts(selection.config_map)]
        return [pod for pod in mounting if pod.of_scheduler_image] or mounting
    return [
        pod
        for pod in found
        if pod.of_scheduler_image and not (selection.without_default and pod.of_default_scheduler)
    ]


def _ready(pods: Iterable[_SchedulerPod], now: float) -> str:
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        since = pod.ready_at
        if pod.status.phase == "Running" and not pod.terminating and since is not None:
            return f"pod {pod.full_name} has been ready for {max(0.0, now - since):.0f} s"
    return ""


DEFAULT_VALID_SECONDS = 15.0  # kube-scheduler's leaderElection.leaseDuration
MAX_VALID_SECONDS = 60.0  # a Lease that claims to be valid for longer is not trusted for longer
_LOOK_SECONDS = 2.0
_object = msgspec.json.Decoder(dict[str, Any])


class SchedulerHealth(msgspec.Struct, frozen=True):
    """Whether a scheduler is alive, None being unknown, and how that was determined."""

    name: str
    alive: bool | None
    message: str
    lease_is_named: bool = False  # and could not be read: to name another one would not help


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
        return SchedulerHealth(location.name, None, str(error), bool(location.lease and location.named_by))


def _by_lease(
    api: RawApi, location: SchedulerLocation, lease: LeaseName, now: float
) -> SchedulerHealth | None:
    found = read_lease(api, lease)
    if found is None:
        return None
    spec = spec_of(found)
    age = now - _time_in(spec, "renewTime", f"{lease} has no time of renewal that can be read")
    holder = text_of(spec, "holderIdentity")[:200]
    valid = (
        min(duration_of(spec, DEFAULT_VALID_SECONDS), MAX_VALID_SECONDS) if holder else DEFAULT_VALID_SECONDS
    )
    was = f"{lease} of {holder} was" if holder else f"nobody holds {lease},"
    when = f"{was} renewed " + (f"{age:.0f} s ago" if age >= 0 else f"{-age:.0f} s ahead of our clock")
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
        object_path("coordination.k8s.io/v1", lease.namespace, "leases"),
        {"fieldSelector": f"metadata.name={lease.name}"},
    )
    try:
        items = _object.decode(body).get("items") or ()
        if not items:
            return None
        if not isinstance(items[0], dict):
            raise TypeError
        return items[0]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreachableError(f"{lease} cannot be read: {type(error).__name__}") from error


def _time_in(spec: dict[str, Any], field: str, problem: str) -> float:
    text = text_of(spec, field)
    try:
        return times.parse(text)
    except (ValueError, OverflowError) as error:
        raise UnreachableError(f"{problem}: {text[:40]!a}") from error


def _by_pods(
    api: RawApi, location: SchedulerLocation, pods: PodSelection, absent: str, now: float
) -> SchedulerHealth:
    by_scheduler: dict[str, list[_SchedulerPod]] = {}
    for pod in _read(api, pods):
        by_scheduler.setdefault(pod.scheduler, []).append(pod)
    if not by_scheduler:
        return SchedulerHealth(location.name, None, f"{absent}, and {pods} there are no pods")
    ready = {name: _ready(replicas, now) for name, replicas in sorted(by_scheduler.items())}
    down = [name for name, words in ready.items() if not words]
    if not down:
        return SchedulerHealth(location.name, True, f"{absent}; {', '.join(ready.values())}")
    if len(ready) > 1:
        why = f"which of {', '.join(ready)} it is is not known, and no pod of {down[0]} is ready"
        return SchedulerHealth(location.name, None, f"{absent}; {why}")
    return SchedulerHealth(location.name, False, f"{absent}, and no pod of {down[0]} is ready")


def scheduler_start(api: RawApi, location: SchedulerLocation, now: float) -> SchedulerStart:
    """The latest moment at which the scheduler may have started; ``now`` in Unix seconds."""
    try:
        absent = location.why_no_lease or "it has no lease"
        if location.lease is not None:
            lease = read_lease(api, location.lease)
            if lease is not None:
                never = f"{location.lease} does not say when it was acquired"
                acquired = _time_in(spec_of(lease), "acquireTime", never)
                when = times.render(acquired)
                return SchedulerStart(acquired, f"its scheduler acquired {location.lease} at {when}")
            absent = f"{location.lease} does not exist"
        if location.pods is None:
            return SchedulerStart(None, f"{absent}, and where its pods run is not known")
        pods = [pod for pod in _read(api, location.pods) if not pod.finished]
        if not pods:
            return SchedulerStart(None, f"{absent}, and {location.pods} there are no pods")
        # A pod is ready after its container started; one that is not ready may be starting: that is now.
        at, name = max((now if pod.ready_at is None else pod.ready_at, pod.full_name) for pod in pods)
        return SchedulerStart(at, f"its scheduler's pod {name} has been ready since {times.render(at)}")
    except (StopRequestedError, InternalError):
        raise
    except RebalancerError as error:
        return SchedulerStart(None, str(error))
