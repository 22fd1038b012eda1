"""Pods as execution reads them: identity, node and readiness, without the rest of their specification.

And their controllers, where one has made no replacement: it may want none any more, or may not make one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import records, times
from rebalancer.cluster.kinds import JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, Kind
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.lists import read_list
from rebalancer.cluster.pods import EVICTION_IN_PROGRESS
from rebalancer.counting import counted
from rebalancer.errors import RebalancerError, UnreachableError
from rebalancer.planning.plan import PodReference

MAX_PAGES = 2000


class ObservedCondition(records.Record, frozen=True):
    """status.conditions[] with the message, which for PodScheduled is why no node was found."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ObservedSpec(records.Record, frozen=True):
    """spec of a pod: where it runs."""

    node_name: str = ""


class ObservedStatus(records.Record, frozen=True):
    """status of a pod: its phase and conditions."""

    phase: str = ""
    reason: str | None = None
    message: str | None = None
    conditions: list[ObservedCondition] | None = None


class ObservedPod(records.ApiObject, frozen=True):
    """A pod as execution sees it."""

    spec: ObservedSpec = ObservedSpec()
    status: ObservedStatus = ObservedStatus()

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def controller(self) -> records.OwnerReference:
        """The controller that owns it; one without kind and uid when none does."""
        owners = self.metadata.owner_references or ()
        return next((owner for owner in owners if owner.controller), records.OwnerReference())

    @property
    def why_pending(self) -> str:
        """Why it has no node, in the scheduler's words."""
        scheduled = self.condition("PodScheduled")
        message = (scheduled.message or scheduled.reason) if scheduled else None
        return f"not bound: {message[:300]}" if message else "not bound, and the scheduler gave no reason"

    @property
    def created_at(self) -> float:
        """Unix seconds, whole; NaN when not stated."""
        return times.parse_if_possible(self.metadata.creation_timestamp)

    @property
    def terminating(self) -> bool:
        """Whether its deletion was requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Whether all its containers ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def being_evicted(self) -> bool:
        """Whether whoever moves it in the background says that this is under way."""
        return EVICTION_IN_PROGRESS in (self.metadata.annotations or {})

    @property
    def failed(self) -> bool:
        """Whether it ended for good, without success."""
        return self.status.phase == "Failed"

    @property
    def ready_at(self) -> float | None:
        """Since when it is ready or, where it ran to completion, when it ended; None while neither."""
        if self.status.phase == "Succeeded":
            return _true_since(self, "Ready", always=True)
        return _true_since(self, "Ready")

    @property
    def bound_at(self) -> float | None:
        """Since when it has a node; None while it has none."""
        return _true_since(self, "PodScheduled", always=True) if self.spec.node_name else None

    def condition(self, kind: str) -> ObservedCondition | None:
        """The condition of a type, if the pod carries it."""
        return next((candidate for candidate in self.status.conditions or () if candidate.type == kind), None)


OBSERVED_PODS = Kind("pods", "Pod", "", "v1", ObservedPod)
_pod = msgspec.json.Decoder(ObservedPod)


def _true_since(pod: ObservedPod, kind: str, *, always: bool = False) -> float | None:
    condition = pod.condition(kind)
    if condition is None or condition.status != "True":
        return pod.created_at if always else None
    since = times.parse_if_possible(condition.last_transition_time)
    return since if since == since else pod.created_at  # noqa: PLR0124 - NaN alone differs from itself


class Scope(NamedTuple):
    """Some pods of a namespace: those that a label selector selects, or all where it is empty."""

    namespace: str
    selector: str = ""


def read_pod(api: RawApi, namespace: str, name: str) -> ObservedPod | None:
    """One pod; None when there is none of that name. Raises UnreachableError or RightsError."""
    what = f"read pod {namespace}/{name}"
    try:
        body = api.find(what, object_path("v1", namespace, "pods", name))
        pod = None if body is None else _pod.decode(body)
    except (ValueError, RecursionError) as error:
        raise UnreachableError(
            f"{what}: the answer is not a pod: {str(error)[:200]}", where=api.host
        ) from error
    if pod is not None and not pod.metadata.uid:
        raise UnreachableError(f"{what}: the answer is not a pod: it has no uid", where=api.host)
    return pod


def read_pods(api: RawApi, scopes: Iterable[Scope]) -> tuple[ObservedPod, ...]:
    """Each pod of these scopes once, if it could be read. Raises UnreachableError or RightsError."""
    distinct = set(scopes)
    whole = {scope.namespace for scope in distinct if not scope.selector}
    pods_by_uid: dict[str, ObservedPod] = {}  # by uid: selectors may overlap
    for scope in sorted(distinct):
        if scope.selector and scope.namespace in whole:
            continue
        listing = read_list(
            api,
            OBSERVED_PODS,
            f"list pods of {scope.namespace}",
            object_path("v1", scope.namespace, "pods"),
            {"labelSelector": scope.selector or None},
            max_pages=MAX_PAGES,
        )
        pods = [pod for pod in listing.records if isinstance(pod, ObservedPod)]
        pods_by_uid.update((pod.metadata.uid, pod) for pod in pods)
    return tuple(pods_by_uid.values())


class _ControllerStatus(records.Record, frozen=True):
    replicas: int = 0
    conditions: list[ObservedCondition] | None = None


class _Controller(records.ApiObject, frozen=True):
    spec: records.WorkloadSpec = records.WorkloadSpec()
    status: _ControllerStatus = _ControllerStatus()

    def why_none(self, pod: PodReference) -> str:
        """Why it makes no pod in the stead of this one; empty where it does not say."""
        if self.metadata.deletion_timestamp is not None:
            return "is being deleted"
        replicas = self.spec.replicas
        has = self.status.replicas
        if replicas is not None and pod.controller_kind == STATEFUL_SETS.name:
            first = self.spec.ordinals.start if self.spec.ordinals else 0
            number = pod.name.rpartition("-")[2]
            has = replicas if number.isdecimal() and int(number) >= first + replicas else -1
        if replicas is not None and has >= replicas:
            return f"wants {counted(replicas, 'pod')} and has them" if replicas else "wants no pods"
        failures = (condition for condition in self.status.conditions or () if condition.type in _FAILURES)
        message = next(
            (condition.message or condition.reason for condition in failures if condition.status == "True"),
            "",
        )
        return f"cannot make one: {message[:300]}" if message else ""


_FAILURES = ("ReplicaFailure", "Failed")  # of a ReplicaSet or ReplicationController, and of a Job
_CONTROLLERS = {
    kind.name: replace(kind, record=_Controller)
    for kind in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)
}


def why_not_replaced(api: RawApi, pod: PodReference) -> str:
    """Why the controller of an evicted pod has made no replacement; empty where that is not known."""
    kind = _CONTROLLERS.get(pod.controller_kind)
    name = f"{pod.controller_kind} {pod.controller_name}"
    if kind is None:
        return ""
    path = object_path(kind.api_version, pod.namespace, kind.plural)
    named = {"fieldSelector": f"metadata.name={pod.controller_name}"}  # runs need no right to get one
    try:
        listing = read_list(api, kind, f"read {name}", path, named)
    except RebalancerError:
        return ""
    controller = next(
        (record for record in listing.records if record.metadata.uid == pod.controller_uid), None
    )
    why = "" if listing.malformed else "is gone"
    if isinstance(controller, _Controller):
        why = controller.why_none(pod)
    return f"{name} {why}" if why else ""
