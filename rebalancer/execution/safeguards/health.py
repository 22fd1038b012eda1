"""The health of a cluster, as far as the brakes need it: its nodes, its Pending pods, its schedulers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.lists import read_list
from rebalancer.execution.observed_pods import OBSERVED_PODS, ObservedCondition, ObservedPod
from rebalancer.execution.safeguards.scheduler_health import (
    SchedulerHealth,
    SchedulerLocation,
    scheduler_health,
)


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
