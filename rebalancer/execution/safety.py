"""The safety checks, made before each wave: each returns the reason why the run must stop, if it must.

They compare the policy with the health of the cluster (its nodes, its Pending pods, its schedulers), which is
read for them. A pause is asked for again before each eviction: the policy may pause runs, and so may an
annotation of their lease, so that whoever shares a lease is paused together. The lease is in no manifest:
neither ``kubectl apply`` nor a controller that keeps a cluster as its repository says ends a pause.

Of the scheduler that must place the replacements its Lease is looked at first: a live leader renews it every
few seconds. The Lease is judged by our clock only while that calls it fresh. Otherwise it is watched for as
long as it is valid, as another candidate for the leadership would do, so that clocks that differ neither hide
a dead scheduler nor condemn a live one:

    renewed 3 s ago, valid for 15 s       alive
    renewed 70 s ago                      watched: renewed within 15 s, so the clocks differ, and it is alive
    renewed 70 s ago                      watched: unchanged for 15 s, so it is dead

A Lease that another scheduler's pod holds is no proof, however fresh: the two compete for it. The one of the
cluster's default scheduler is proof of a second one only while one of its own pods, known by name, holds it.

A scheduler without a Lease is alive when its pods are running and ready; all else is unknown. Its pods are
those that the policy selects, those that mount its configuration, else those of its image. Pods of one
controller, or the static pods of one namespace, are one scheduler: one ready replica suffices. Where several
schedulers match, each must be ready, as it is not known which of them places the plan's pods.

A scheduler lists its pods before or as soon as it becomes the leader, so it started at the latest when it
acquired its Lease. A scheduler without a Lease started at the latest when its pod became ready; of several
pods the last one counts, as it is not known which of them decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.lists import read_list
from rebalancer.cluster.records.pods import PROGRAM, is_scheduler
from rebalancer.counting import counted
from rebalancer.errors import RebalancerError, StopRequestedError, UnreachableError
from rebalancer.execution.lease import duration_of, record_of, spec_of, text_of
from rebalancer.execution.observed_pods import OBSERVED_PODS, ObservedCondition, ObservedPod
from rebalancer.planning.inputs import SchedulerLife, SchedulerStart
from rebalancer.planning.scheduler_location import (
    NAMED_BY_POLICY,
    LeaseName,
    PodSelection,
    SchedulerLocation,
    why_not_alive,
)
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import Safety
from rebalancer.state.run_state import MeasuredAgreement, why_refused


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
        return any(is_scheduler(container.image) for container in self.spec.containers or ())

    @property
    def is_static(self) -> bool:
        """Whether a kubelet runs it from a file, as those of a control plane."""
        return self.controller.kind == "Node"

    def mounts(self, config_map: str) -> bool:
        for volume in self.spec.volumes or ():
            sources = (volume.projected.sources if volume.projected else None) or ()
            mounted = [volume.config_map, *(source.config_map for source in sources)]
            if any(volume is not None and volume.name == config_map for volume in mounted):
                return True
        return False

    @property
    def scheduler(self) -> str:
        if self.controller.kind in ("", "Node"):
            return f"the static pods {self.metadata.namespace}/{PROGRAM}"
        return f"{self.metadata.namespace}/{self.controller.kind}/{self.controller.name}"


_PODS = Kind("pods", "Pod", "", "v1", _SchedulerPod)


def _read(api: RawApi, selection: PodSelection, of_others: Collection[str]) -> list[_SchedulerPod]:
    """The pods of a scheduler, without those that have ended for good, as one that a kubelet evicted.

    ``of_others`` are pods of other schedulers, as namespace/name, which may have the same image.

    Raises RightsError or UnreachableError when pods cannot be read, also single ones: any may be meant.
    """
    pods: list[_SchedulerPod] = []
    for namespace in selection.namespaces:
        what = f"list pods of {namespace}"
        listing = read_list(api, _PODS, what, object_path("v1", namespace, "pods"))
        if listing.malformed:
            names = ", ".join(malformed.name for malformed in listing.malformed[:3])
            raise UnreachableError(f"{what}: cannot be read: {names}")
        pods.extend(pod for pod in listing.records if isinstance(pod, _SchedulerPod) and not pod.finished)
    if selection.selector is not None:
        selects = selection.selector.selects
        return [pod for pod in pods if selects(pod.metadata.labels or {})]
    if selection.config_map:
        mounting = [pod for pod in pods if pod.mounts(selection.config_map)]
        return [pod for pod in mounting if pod.of_scheduler_image] or mounting
    own_or_new = [pod for pod in pods if pod.full_name not in of_others]
    return [pod for pod in own_or_new if pod.of_scheduler_image and pod.is_static == selection.static]


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
    says_what_to_do: bool = False  # the message does: to name its pods would not help


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
                why = f"{absent}, which {location.named_by} names; {_to_name(location.named_by)}"
                return SchedulerHealth(location.name, None, why, says_what_to_do=True)
        if location.pods is None:
            return SchedulerHealth(location.name, None, f"{absent}, and where its pods run is not known")
        return _by_pods(api, location, location.pods, absent, now)
    except StopRequestedError:
        raise
    except RebalancerError as error:
        return SchedulerHealth(location.name, None, str(error), bool(location.lease and location.named_by))


def _to_name(named_by: str) -> str:
    """What to do where a Lease does not exist that somebody named."""
    if named_by == NAMED_BY_POLICY:
        return "name the one that it holds there, or take it out where leader election is off"
    return (
        "correct that as the scheduler has it, or name the one that it holds in scheduler.lease of the policy"
    )


def _by_lease(
    api: RawApi, location: SchedulerLocation, lease: LeaseName, now: float
) -> SchedulerHealth | None:
    stored = read_lease(api, lease)
    if stored is None:
        return None
    spec = spec_of(stored)
    age = now - _time_in(spec, "renewTime", f"{lease} has no time of renewal that can be read")
    holder = text_of(spec, "holderIdentity")[:200]
    if stranger := _held_by_another(location, lease, holder):
        return stranger
    valid = (
        min(duration_of(spec, DEFAULT_VALID_SECONDS), MAX_VALID_SECONDS) if holder else DEFAULT_VALID_SECONDS
    )
    was = f"{lease} of {holder} was" if holder else f"nobody holds {lease},"
    when = f"{was} renewed " + (f"{age:.0f} s ago" if age >= 0 else f"{-age:.0f} s ahead of our clock")
    if holder and abs(age) <= valid:
        return SchedulerHealth(location.name, True, when)
    renewed, watched = _watched(api, lease, stored, valid)
    if renewed is None:
        why = f"{when}, and not again in the {watched:.0f} s for which it was watched"
        return SchedulerHealth(location.name, False, why)
    if stranger := _held_by_another(location, lease, text_of(spec_of(renewed), "holderIdentity")[:200]):
        return stranger
    why = f"; its clock differs from ours by about {abs(age):.0f} s" if holder else ""
    return SchedulerHealth(location.name, True, f"{when}, and again while it was watched{why}")


_WITHOUT_COMPETING = (
    "in its configuration, turn leader election off (leaderElection.leaderElect: false) or give it a Lease "
    "of its own (leaderElection.resourceName)"
)


def _held_by_another(location: SchedulerLocation, lease: LeaseName, holder: str) -> SchedulerHealth | None:
    """That a Lease says nothing about a scheduler, as none of its pods holds it; None where one may.

    A scheduler whose own configuration names the Lease schedules nothing while another one holds it. Where
    the policy names the Lease, the policy may be wrong.
    """
    remedy = _WITHOUT_COMPETING
    if location.named_by == NAMED_BY_POLICY:
        remedy = "name the Lease that it holds there, or take that out where leader election is off"
    if other := location.competitor(holder):
        alive = None if location.named_by == NAMED_BY_POLICY else False
        why = (
            f"{lease}{_named_by(location)} is held by pod {other} of another scheduler: the two compete for "
            f"it, and only its holder schedules; {remedy}, or, if that is a pod of its own, name its pods in "
            "scheduler.pods"
        )
        return SchedulerHealth(location.name, alive, why)
    if location.may_be_held_by_default_scheduler(holder):
        why = (
            f"{lease}{_named_by(location)} is held by {holder}, whose network its pod shares with whatever "
            f"else runs there, such as the kube-scheduler of k3s; {remedy}"
        )
        return SchedulerHealth(location.name, None, why)
    if holder and location.is_held_by_a_stranger(holder):
        own = ", ".join(sorted(location.own_hosts)) or "none is known"
        why = f"{lease}{_named_by(location)} is held by {holder}, which is none of its pods ({own})"
        if location.wants_lease_of_default_scheduler:
            why += f"; {remedy}"
        return SchedulerHealth(location.name, None, why)
    return None


def _named_by(location: SchedulerLocation) -> str:
    return f", which {location.named_by} names," if location.named_by else ""


def _watched(
    api: RawApi, lease: LeaseName, stored: dict[str, Any], seconds: float
) -> tuple[dict[str, Any] | None, float]:
    """The Lease as somebody renews it within ``seconds``, else None, and for how long it was watched."""
    since = api.retries.clock()
    while (watched := api.retries.clock() - since) < seconds:
        if api.retries.wait(min(_LOOK_SECONDS, seconds)):
            raise StopRequestedError(f"asked to stop while {lease} was watched")
        latest = read_lease(api, lease)
        if latest is None:
            return None, api.retries.clock() - since
        if record_of(latest) != record_of(stored) and text_of(spec_of(latest), "holderIdentity"):
            return latest, api.retries.clock() - since
    return None, watched


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
    for pod in _read(api, pods, location.other_hosts.values()):
        by_scheduler.setdefault(pod.scheduler, []).append(pod)
    if not by_scheduler:
        return SchedulerHealth(location.name, None, f"{absent}, and there is no {pods}")
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
                holder = text_of(spec_of(lease), "holderIdentity")[:200]
                if stranger := _held_by_another(location, location.lease, holder):
                    return SchedulerStart(None, stranger.message)
                never = f"{location.lease} does not say when it was acquired"
                acquired = _time_in(spec_of(lease), "acquireTime", never)
                when = times.render(acquired)
                return SchedulerStart(acquired, f"its scheduler acquired {location.lease} at {when}")
            absent = f"{location.lease} does not exist"
        if location.pods is None:
            return SchedulerStart(None, f"{absent}, and where its pods run is not known")
        pods = _read(api, location.pods, location.other_hosts.values())
        if not pods:
            return SchedulerStart(None, f"{absent}, and there is no {location.pods}")
        # A pod is ready after its container started; one that is not ready may be starting: that is now.
        at, name = max((now if pod.ready_at is None else pod.ready_at, pod.full_name) for pod in pods)
        return SchedulerStart(at, f"its scheduler's pod {name} has been ready since {times.render(at)}")
    except StopRequestedError:
        raise
    except RebalancerError as error:
        return SchedulerStart(None, str(error))


class ClusterHealth(msgspec.Struct, frozen=True):
    """The figures that the safety checks compare with the policy."""

    node_count: int = 0
    pod_count: int = 0  # of the cluster that the plan was made for; 0 when that is not known
    not_ready_nodes: tuple[str, ...] = ()
    pending_pods: tuple[str, ...] = ()  # namespace/name; unscheduled, and not just made
    schedulers: tuple[SchedulerHealth, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be determined: reported, where the policy does not stop the run for it."""
        return tuple(
            f"whether the scheduler {scheduler.name} is alive is not known: {scheduler.message}"
            for scheduler in self.schedulers
            if scheduler.alive is None
        )


class _NodeStatus(records.Record, frozen=True):
    conditions: list[ObservedCondition] | None = None


class _Node(records.ApiObject, frozen=True):
    status: _NodeStatus = _NodeStatus()

    @property
    def ready(self) -> bool:
        return any(
            condition.type == "Ready" and condition.status == "True"
            for condition in self.status.conditions or ()
        )


_NODES = Kind("nodes", "Node", "", "v1", _Node)


def read_health(
    api: RawApi,
    now: float,
    run_started: float,
    schedulers: Iterable[SchedulerLocation] = (),
    pod_count: int = 0,
) -> ClusterHealth:
    """Read the health of the cluster; RightsError or UnreachableError if nodes or pods cannot be read.

    ``pod_count`` is passed on, because only Pending pods are read here.
    A node that cannot be decoded counts as not ready, a pod as Pending: unknown is not favourable.
    """
    nodes = read_list(api, _NODES, "list nodes", _NODES.path)
    unscheduled = {"fieldSelector": "spec.nodeName="}
    pods = read_list(api, OBSERVED_PODS, "list unscheduled pods", OBSERVED_PODS.path, unscheduled)
    not_ready = [node.metadata.name for node in nodes.records if isinstance(node, _Node) and not node.ready]
    not_ready += [malformed.name for malformed in nodes.malformed]
    pending = [
        pod.full_name for pod in pods.records if isinstance(pod, ObservedPod) and _waits(pod, run_started)
    ]
    pending += [f"{malformed.namespace}/{malformed.name}" for malformed in pods.malformed]
    return ClusterHealth(
        node_count=len(nodes.records) + len(nodes.malformed),
        pod_count=pod_count,
        not_ready_nodes=tuple(not_ready),
        pending_pods=tuple(pending),
        schedulers=tuple(scheduler_health(api, location, now) for location in schedulers),
    )


def _waits(pod: ObservedPod, run_started: float) -> bool:
    """Whether a pod waits for a node: the scheduler found none for it, or it is older than the run.

    A pod with scheduling gates does not wait.
    """
    scheduled = pod.condition("PodScheduled")
    reason = scheduled.reason if scheduled is not None else ""
    if pod.spec.node_name or pod.terminating or pod.finished or reason == "SchedulingGated":
        return False
    return reason == "Unschedulable" or not pod.created_at >= run_started


SafetyCheck = Callable[[Safety, ClusterHealth], str]


def too_many_not_ready_nodes(safety: Safety, health: ClusterHealth) -> str:
    """More nodes are not ready than the policy allows."""
    count = len(health.not_ready_nodes)
    max_not_ready = safety.max_not_ready_nodes.of(health.node_count)
    if count <= max_not_ready:
        return ""
    names = _some(health.not_ready_nodes)
    limit = safety.max_not_ready_nodes
    of_all = counted(health.node_count, "node is", "nodes are")
    setting = f"the limit is {limit} (safety.maxNotReadyNodes)"
    return f"{count:,} of {of_all} not ready ({names}); {setting}"


def too_many_pending_pods(safety: Safety, health: ClusterHealth) -> str:
    """More pods wait for a node than the policy allows."""
    count = len(health.pending_pods)
    limit = safety.max_pending_pods
    if count <= limit.of(health.pod_count):
        return ""
    of_all = f"{count:,} of " if limit.percent else ""
    pods = counted(health.pod_count if limit.percent else count, "pod is", "pods are")
    setting = f"the limit is {limit} (safety.maxPendingPods)"
    return f"{of_all}{pods} Pending ({_some(health.pending_pods)}); {setting}"


def no_scheduler_alive(safety: Safety, health: ClusterHealth) -> str:
    """None of the schedulers that must place replacements is known to be alive.

    One that is not keeps its own pods, which are looked at again before each wave, and no others.
    """
    whys = [
        why_not_alive(
            scheduler.name,
            SchedulerLife(scheduler.alive, scheduler.message, scheduler.says_what_to_do),
            safety,
        )
        for scheduler in health.schedulers
    ]
    return whys[0] if whys and all(whys) else ""


SAFETY_CHECKS: tuple[SafetyCheck, ...] = (
    too_many_not_ready_nodes,
    too_many_pending_pods,
    no_scheduler_alive,
)


class SafetyChecks(msgspec.Struct, frozen=True, kw_only=True):
    """Whether pods may be evicted now: the policy is read again each time that is asked."""

    policy: LoadedPolicy  # by which the run plans
    policy_now: Callable[[], LoadedPolicy]  # as its file says now
    why_paused: Callable[[], str] = lambda: ""  # by the lease, which is read for that
    agreement: MeasuredAgreement | None = None  # None where it is not known
    now: Callable[[], float] = time.time  # Unix seconds

    def why_stop(self, read_health: Callable[[], ClusterHealth] | None = None) -> str:
        """Why nothing may be evicted now; empty when it may.

        Before each eviction only the policy is asked for a pause: the lease is read then in any case. Before
        each wave, with ``read_health``, the lease is asked too, a policy that changed ends the run, because
        the plan was made by another one, and the cluster's health is compared with it. Raises InputError for
        a policy that can no longer be used, RightsError or UnreachableError.
        """
        now = self.policy_now()
        safety = now.policy.safety
        if safety.pause:
            return "the policy is paused (safety.pause)"
        if read_health is None:
            return ""
        if paused := self.why_paused():
            return paused
        if now.digest != self.policy.digest:
            return f"the policy {now.source} changed while the run was at work; the next run plans by it"
        if disagrees := why_refused(safety, self.agreement, self.now()):
            return disagrees
        health = read_health()
        return next((reason for check in SAFETY_CHECKS if (reason := check(safety, health))), "")


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown}, …" if len(names) > 3 else shown
