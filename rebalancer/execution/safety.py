"""The safety checks, made before each wave: each returns the reason why the run must stop, if it must.

They compare the policy with the health of the cluster (its nodes, its Pending pods, its schedulers), which is
read for them. A pause is asked for again before each eviction: the policy may pause runs, and so does the
mere existence of a ConfigMap that stands beside the lease and is named after it, so that whoever shares a
lease is paused together. It is no part of the manifests: kustomize gives it no hashed name, which a running
pod would never see, and neither ``kubectl apply`` nor a controller that keeps a cluster as its repository
says ends a pause:

    kubectl -n rebalancer create configmap rebalancer-pause --from-literal=reason="incident 42"
    kubectl -n rebalancer delete configmap rebalancer-pause
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.lists import read_list
from rebalancer.counting import counted
from rebalancer.execution.observed_pods import OBSERVED_PODS, ObservedCondition, ObservedPod
from rebalancer.execution.scheduler_health import SchedulerHealth, scheduler_health
from rebalancer.planning.scheduler_facts import SchedulerLocation
from rebalancer.policy.schema import Safety
from rebalancer.state.run_state import MeasuredAgreement, why_refused


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
    nodes = read_list(api, _NODES, "list nodes", _NODES.path)
    unscheduled = {"fieldSelector": "spec.nodeName="}
    pods = read_list(api, OBSERVED_PODS, "list unscheduled pods", OBSERVED_PODS.path, unscheduled)
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
    if pod.spec.node_name or pod.terminating or pod.finished or reason == "SchedulingGated":
        return False
    return reason == "Unschedulable" or not pod.created_at >= run_started


_REASON = "reason"
_MAX_REASON = 200


class PauseSwitch:
    """The ConfigMap that pauses the runs of a lease, read again each time."""

    def __init__(self, api: RawApi, namespace: str, lease: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = f"{lease}-pause"

    def why_paused(self) -> str:
        """Why runs are paused; empty when they are not.

        Raises RightsError or UnreachableError when that cannot be read: then nothing may be evicted either.
        """
        data = self._api.config_map(self._namespace, self._name)
        if data is None:
            return ""
        given = f" ({data[_REASON][:_MAX_REASON]!a})" if data.get(_REASON) else ""
        return (
            f"runs are paused by the configmap {self._namespace}/{self._name}{given}; "
            f"kubectl -n {self._namespace} delete configmap {self._name} lets them go on"
        )


SafetyCheck = Callable[[Safety, ClusterHealth], str]


def too_many_not_ready_nodes(safety: Safety, health: ClusterHealth) -> str:
    """More nodes are not ready than the policy allows."""
    count, most = len(health.not_ready_nodes), safety.max_not_ready_nodes.of(health.node_count)
    if count <= most:
        return ""
    names, limit = _some(health.not_ready_nodes), safety.max_not_ready_nodes
    of_all = counted(health.node_count, "node is", "nodes are")
    setting = f"the limit is {limit} (safety.maxNotReadyNodes)"
    return f"{count:,} of {of_all} not ready ({names}); {setting}"


def too_many_pending_pods(safety: Safety, health: ClusterHealth) -> str:
    """More pods wait for a node than the policy allows."""
    count, limit = len(health.pending_pods), safety.max_pending_pods
    if count <= limit.of(health.pod_count):
        return ""
    of_all = f"{count:,} of " if limit.percent else ""
    pods = counted(health.pod_count if limit.percent else count, "pod is", "pods are")
    setting = f"the limit is {limit} (safety.maxPendingPods)"
    return f"{of_all}{pods} Pending ({_some(health.pending_pods)}); {setting}"


def scheduler_not_alive(_safety: Safety, health: ClusterHealth) -> str:
    """A scheduler that must place replacements is known to be down."""
    dead = [scheduler for scheduler in health.schedulers if scheduler.alive is False]
    return f"the scheduler {dead[0].name} is not alive: {dead[0].message}" if dead else ""


def scheduler_unknown(safety: Safety, health: ClusterHealth) -> str:
    """It cannot be determined whether a scheduler is alive, and the policy does not accept that."""
    if not health.unknown or safety.unknown_scheduler == "proceed":
        return ""
    first = next(item for item in health.schedulers if item.alive is None)
    if first.lease_is_named:
        return f"{health.unknown[0]}. Until it is, safety.unknownScheduler: proceed accepts this"
    return (
        f"{health.unknown[0]}. Name the Lease that it holds (scheduler.lease in the policy), or accept this "
        "with safety.unknownScheduler: proceed"
    )


SAFETY_CHECKS: tuple[SafetyCheck, ...] = (
    too_many_not_ready_nodes,
    too_many_pending_pods,
    scheduler_not_alive,
    scheduler_unknown,
)


class SafetyChecks(msgspec.Struct, frozen=True, kw_only=True):
    """Whether pods may be evicted now: what the policy says is read again each time it is asked."""

    policy: Callable[[], Safety]
    pause: PauseSwitch | None = None  # None where nothing but the policy pauses a run
    agreement: MeasuredAgreement | None = None  # None where it is not known
    now: Callable[[], float] = time.time  # Unix seconds

    def why_stop(self, read_health: Callable[[], ClusterHealth] | None = None) -> str:
        """Why nothing may be evicted now; empty when it may.

        Before each eviction only a pause is asked for; before each wave, with ``read_health``, the cluster's
        health is compared with the policy too. Raises InputError for a policy that can no longer be used,
        RightsError or UnreachableError.
        """
        policy = self.policy()
        if policy.pause:
            return "the policy is paused (safety.pause)"
        paused = self.pause.why_paused() if self.pause else ""
        if paused or read_health is None:
            return paused
        if disagrees := why_refused(policy, self.agreement, self.now()):
            return disagrees
        health = read_health()
        return next((reason for check in SAFETY_CHECKS if (reason := check(policy, health))), "")


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown}, …" if len(names) > 3 else shown
