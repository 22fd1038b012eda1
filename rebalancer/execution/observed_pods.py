"""Pods as execution reads them: identity, node and readiness, without the rest of their specification."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.lists import read_list
from rebalancer.cluster.pods import EVICTION_IN_PROGRESS
from rebalancer.errors import UnreachableError

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
        return next((item for item in self.status.conditions or () if item.type == kind), None)


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
        return None if body is None else _pod.decode(body)
    except (ValueError, RecursionError) as error:
        raise UnreachableError(
            f"{what}: the answer is not a pod: {str(error)[:200]}", where=api.host
        ) from error


def read_pods(api: RawApi, scopes: Iterable[Scope]) -> tuple[ObservedPod, ...]:
    """Each pod of these scopes once, if it could be read. Raises UnreachableError or RightsError."""
    wanted = set(scopes)
    whole = {scope.namespace for scope in wanted if not scope.selector}
    found: dict[str, ObservedPod] = {}  # by uid: selectors may overlap
    for scope in sorted(wanted):
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
        found.update((pod.metadata.uid, pod) for pod in pods)
    return tuple(found.values())
