"""Where a scheduler shows that it is alive: by the Lease of its leader election, else by its own pods.

If leader election is on, rebalancer looks at one Lease and at nothing else, because a scheduler that waits
for its Lease is ready and yet schedules nothing. It is the Lease that the policy names, else the one that the
flags of the scheduler's pods name, else the one that its configuration names. Where none of them names one,
it is kube-system/kube-scheduler, for which a second scheduler competes with the cluster's default one. So the
second one is alive only while one of its own pods holds that Lease.

    no configuration, default-scheduler                           lease kube-system/kube-scheduler
    leaderElection: {resourceName: trimaran}                      lease kube-system/trimaran
    leaderElection: {leaderElect: false}                          pods
    --leader-elect=false                                          pods
    profiles: [trimaran], nothing said about leader election      lease kube-system/kube-scheduler of its pods
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.records.pods import LEASE_NAME_FLAG, PROGRAM
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.inputs import PlanningInputs, SchedulerFacts, SchedulerLife
from rebalancer.planning.plan import Plan
from rebalancer.planning.scheduler_pods import SchedulerPod, leader_election_of, pods_of_schedulers
from rebalancer.policy.schedulers import SchedulerPods
from rebalancer.policy.schema import Safety


class LeaseName(msgspec.Struct, frozen=True):
    """The namespace and the name of a Lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"lease {self.namespace}/{self.name}"


_LEASE_OF_DEFAULT_SCHEDULER = LeaseName("kube-system", "kube-scheduler")
NAMED_BY_POLICY = "scheduler.lease of the policy"


class PodSelection(msgspec.Struct, frozen=True):
    """Which pods of some namespaces are a scheduler's: by labels, by a ConfigMap, or else by their image."""

    namespaces: tuple[str, ...]
    config_map: str = ""  # its pods mount the ConfigMap of this name; empty: it is not known by one
    selector: SchedulerPods | None = None  # its pods have these labels; None: it is not known by labels
    static: bool = False  # by image only: whether its pods are static ones, or all others

    def __str__(self) -> str:
        """For a message that there is none: ``pod in kube-system that mounts the configmap c``."""
        where = " and ".join(self.namespaces)
        if self.selector is not None:
            return f"pod in {where} with the labels {self.selector}"
        if self.config_map:
            return f"pod in {where} that mounts the configmap {self.config_map}"
        return f"{'static ' if self.static else ''}pod in {where} of the image {PROGRAM}"


class SchedulerLocation(msgspec.Struct, frozen=True):
    """Where a scheduler shows that it is alive: its leader election lease, else its own pods.

    A Lease names its holder by a host name: that of a pod, or that of the node whose network the pod shares.
    """

    name: str  # the schedulerNames that it serves, as messages name it
    lease: LeaseName | None = _LEASE_OF_DEFAULT_SCHEDULER
    why_no_lease: str = ""  # in words, where ``lease`` is None
    pods: PodSelection | None = None  # None: where its pods run is not known
    # What names the lease, in words. A scheduler whose Lease is named schedules nothing unless it holds it.
    named_by: str = ""
    own_hosts: frozenset[str] = frozenset()  # the host names of its pods
    hosts_are_certain: bool = False  # none of its pods shares the network of its node
    other_hosts: Mapping[str, str] = {}  # by host name: the pod of another scheduler, as namespace/name
    serves_default: bool = True

    @property
    def key(self) -> str:
        """The key of this location in an observation, and in a recording of it."""
        parts = [str(part) for part in (self.lease, self.pods) if part is not None]
        if self.wants_lease_of_default_scheduler:
            # Several schedulers may want that Lease, which shows that one of them is alive and the others
            # not.
            parts.insert(0, self.name)
        return "; ".join(parts)

    @property
    def wants_lease_of_default_scheduler(self) -> bool:
        """Whether it competes for the Lease of the cluster's default scheduler, which it is not."""
        return self.lease == _LEASE_OF_DEFAULT_SCHEDULER and not self.serves_default

    def competitor(self, holder: str) -> str:
        """The pod of another scheduler that holds the Lease, as namespace/name; empty for none."""
        host = _host_of(holder)
        other_pod = self.other_hosts.get(host, "")
        # Pods of both schedulers may share the network of the node that holds the Lease. Then the default
        # scheduler's Lease is taken to be held by the other pod, and any other Lease by this scheduler's own.
        if host in self.own_hosts and not self.wants_lease_of_default_scheduler:
            return ""
        return other_pod

    def may_be_held_by_default_scheduler(self, holder: str) -> bool:
        """Whether the holder may be the default scheduler, on a node whose network a pod of this one shares.

        The default scheduler need not run in a pod, so that ``other_hosts`` need not have it.
        """
        may_share_a_host = self.wants_lease_of_default_scheduler and not self.hosts_are_certain
        return may_share_a_host and _host_of(holder) in self.own_hosts

    def is_held_by_a_stranger(self, holder: str) -> bool:
        """Whether the holder is none of the scheduler's pods; False where not all of them need be known."""
        must_be_known = self.hosts_are_certain or self.wants_lease_of_default_scheduler
        return must_be_known and _host_of(holder) not in self.own_hosts


_MAX_HOST_NAME = 63


def _host_of(holder: str) -> str:
    """The host name in a holderIdentity: kube-scheduler appends ``_`` and a random name to it."""
    return holder.rpartition("_")[0] or holder


def _hosts(pods: Iterable[SchedulerPod], snapshot: Snapshot) -> dict[str, str]:
    """By host name: the pod that has this host name, as namespace/name."""
    table = snapshot.pods
    shares_host_network = {pod.index: bool(pod.pod.spec.host_network) for pod in pods}
    hosts: dict[str, str] = {}
    for row in np.flatnonzero(np.isin(table.pod_class, list(shares_host_network))).tolist():
        host = table.names[row][:_MAX_HOST_NAME].rstrip("-.")
        if shares_host_network[int(table.pod_class[row])]:
            node = int(table.node[row])
            host = snapshot.nodes.names[node] if node >= 0 else ""
        if host:
            hosts[host] = table.full_name(PodRow(row))
    return hosts


def schedulers_of(plan: Plan, inputs: PlanningInputs) -> tuple[SchedulerLocation, ...]:
    """The locations of the schedulers that place the pods of a plan."""
    pods = inputs.snapshot.pods
    names = {pods.class_of(pods.row[move.pod.namespace, move.pod.name]).scheduler_name for move in plan.moves}
    return tuple(
        locate(scheduler, inputs.schedulers, inputs.snapshot)
        for scheduler in inputs.schedulers
        if not names.isdisjoint(scheduler.configuration.scheduler_names)
    )


def locate(
    scheduler: SchedulerFacts, schedulers: Iterable[SchedulerFacts], snapshot: Snapshot
) -> SchedulerLocation:
    """Where a scheduler shows that it is alive; ``schedulers`` are all that the policy knows."""
    own_classes = {pod.index for pod in scheduler.pods}
    candidates = pods_of_schedulers(snapshot)
    for other in schedulers:
        candidates += other.pods
    others = [pod for pod in candidates if pod.index not in own_classes]
    shares_a_network = any(pod.pod.spec.host_network for pod in scheduler.pods)
    location = SchedulerLocation(
        scheduler.name,
        pods=_selection(scheduler),
        own_hosts=frozenset(_hosts(scheduler.pods, snapshot)),
        hosts_are_certain=bool(own_classes) and not shares_a_network,
        other_hosts=_hosts(others, snapshot),
        serves_default=scheduler.serves_default,
    )
    stated = scheduler.settings.lease
    if stated is not None:
        lease = LeaseName(stated.namespace, stated.name)
        return replace(location, lease=lease, named_by=NAMED_BY_POLICY)
    configured = scheduler.configuration.leader_election
    election = leader_election_of(scheduler.pods, configured)
    if not election.enabled:
        what = "--leader-elect=false of its pods" if configured.enabled else "its configuration"
        return replace(location, lease=None, why_no_lease=f"{what} turns leader election off")
    named_by = ""
    if election.named:
        named_by = f"{LEASE_NAME_FLAG} of its pods"
        # A flag may turn on an election that the configuration names and turns off.
        if election == replace(configured, enabled=True):
            named_by = f"leaderElection of {scheduler.configuration.source}"
    return replace(location, lease=LeaseName(election.namespace, election.name), named_by=named_by)


def _selection(scheduler: SchedulerFacts) -> PodSelection | None:
    """Which pods are the scheduler's; None where neither the policy nor the pods seen tell."""
    settings = scheduler.settings
    if settings.pods is not None:
        return PodSelection((settings.pods.namespace,), selector=settings.pods)
    config_map = settings.config_map
    if config_map is not None:
        some_mount_it = any(pod.mounts(config_map) for pod in scheduler.pods)
        if some_mount_it or not scheduler.pods:
            return PodSelection((config_map.namespace,), config_map.name)
    namespaces = tuple(sorted({pod.pod.namespace for pod in scheduler.pods}))
    if not namespaces:
        return None
    return PodSelection(namespaces, static=any(pod.is_static for pod in scheduler.pods))


def why_not_alive(name: str, life: SchedulerLife, safety: Safety) -> str:
    """Why a scheduler may place no pod, and what to do; empty if it lives or the policy accepts the doubt."""
    if life.alive:
        return ""
    if life.alive is False:
        return f"the scheduler {name} is not alive: {life.because}"
    if safety.unknown_scheduler == "proceed":
        return ""
    unknown = f"whether the scheduler {name} is alive is not known: {life.because}"
    if life.says_what_to_do:
        return f"{unknown}. Until it is, safety.unknownScheduler: proceed accepts this"
    return (
        f"{unknown}. Name the pods that run it (scheduler.pods in the policy) or the Lease that it holds "
        "(scheduler.lease), or accept this with safety.unknownScheduler: proceed"
    )
