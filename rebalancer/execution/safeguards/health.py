"""The health of a cluster, as far as the brakes need it: its nodes, its Pending pods, its schedulers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.lists import read_list
from rebalancer.errors import RebalancerError, UnreachableError
from rebalancer.execution.observed_pods import OBSERVED_PODS, ObservedCondition, ObservedPod

LEASE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SchedulerLocation:
    """Where a scheduler shows that it is alive: its leader election lease, or its own pods."""

    name: str  # as messages name it
    lease_namespace: str = "kube-system"
    lease_name: str = "kube-scheduler"
    pod_namespace: str = ""  # empty: where its pods run is not known
    pod_selector: str = ""  # a label selector


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """Whether a scheduler is alive, None being unknown, and how that was determined."""

    name: str
    alive: bool | None
    because: str


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The figures that the brakes compare with the policy."""

    node_count: int = 0
    pod_count: int = 0  # of the cluster that the plan was made for; 0 when that is not known
    not_ready_nodes: tuple[str, ...] = ()
    pending_pods: tuple[str, ...] = ()  # namespace/name; unscheduled, and not just made
    schedulers: tuple[SchedulerHealth, ...] = ()


class _NodeStatus(records.Record, frozen=True):
    conditions: list[ObservedCondition] | None = None


class _Node(records.Record, frozen=True):
    metadata: records.Metadata = records.Metadata()
    status: _NodeStatus = _NodeStatus()

    @property
    def ready(self) -> bool:
        return any(item.type == "Ready" and item.status == "True" for item in self.status.conditions or ())


_NODES = Kind("nodes", "Node", "", "v1", _Node)
_object = msgspec.json.Decoder(dict[str, Any])


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
    core = api.client.core
    nodes = read_list(api, _NODES, "list nodes", core.list_node)
    pods = read_list(
        api,
        OBSERVED_PODS,
        "list unscheduled pods",
        core.list_pod_for_all_namespaces,
        field_selector="spec.nodeName=",
    )
    not_ready = [node.metadata.name for node in nodes.records if isinstance(node, _Node) and not node.ready]
    not_ready += [item.name for item in nodes.malformed]
    pending = [
        pod.full_name for pod in pods.records if isinstance(pod, ObservedPod) and _waits(pod, run_started)
    ]
    pending += [f"{item.namespace}/{item.name}" for item in pods.malformed]
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
    finished = pod.status.phase in ("Succeeded", "Failed")
    if pod.spec.node_name or pod.terminating or finished or reason == "SchedulingGated":
        return False
    return reason == "Unschedulable" or not pod.created_at >= run_started


def scheduler_health(api: RawApi, location: SchedulerLocation, now: float) -> SchedulerHealth:
    """Whether a scheduler is alive: by its lease where there is one, else by a Ready pod, else unknown."""
    try:
        by_lease = _by_lease(api, location, now)
        if by_lease is not None:
            return by_lease
        return _by_pods(api, location)
    except RebalancerError as error:
        return SchedulerHealth(location.name, None, f"unknown: {error}")


def _by_lease(api: RawApi, location: SchedulerLocation, now: float) -> SchedulerHealth | None:
    where = f"lease {location.lease_namespace}/{location.lease_name}"
    read = api.client.custom_objects.list_namespaced_custom_object
    # Read as a list of one, so that one right (list) serves and an absent lease is no error.
    body = api.get(
        f"read {where}",
        read,
        "coordination.k8s.io",
        "v1",
        location.lease_namespace,
        "leases",
        field_selector=f"metadata.name={location.lease_name}",
    )
    try:
        items = _object.decode(body).get("items") or ()
        if not items:
            return None
        renewed = times.parse(str(items[0]["spec"]["renewTime"]))
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreachableError(f"{where} cannot be read: {type(error).__name__}") from error
    age = now - renewed
    because = f"{where} was renewed {age:.0f} s ago"
    return SchedulerHealth(location.name, age <= LEASE_SECONDS, because)


def _by_pods(api: RawApi, location: SchedulerLocation) -> SchedulerHealth:
    if not location.pod_namespace or not location.pod_selector:
        return SchedulerHealth(location.name, None, "it has no lease, and where its pods run is not known")
    where = f"{location.pod_selector} in {location.pod_namespace}"
    pods = read_list(
        api,
        OBSERVED_PODS,
        f"list pods {where}",
        api.client.core.list_namespaced_pod,
        location.pod_namespace,
        label_selector=location.pod_selector,
    )
    ready = [
        pod.metadata.name
        for pod in pods.records
        if isinstance(pod, ObservedPod) and not pod.terminating and pod.ready_at is not None
    ]
    if ready:
        return SchedulerHealth(location.name, True, f"pod {ready[0]} is ready")
    return SchedulerHealth(location.name, False, f"no pod {where} is ready")
