"""Where a pod goes: what the sandbox's scheduler asks, and a simple answer to it."""

from __future__ import annotations

from typing import Protocol

from rebalancer.cluster import quantities
from rebalancer.sandbox.objects.accessors import (
    Object,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    requests_of,
    spec_of,
    status_of,
)
from rebalancer.sandbox.objects.change_log import Key, Record

_MAX_CACHED_ARRAYS = 100_000


class ClusterView(Protocol):
    """What a decider may read; the objects are shared and must not be changed."""

    @property
    def version(self) -> int:
        """The newest resourceVersion: the same number means the same objects."""
        ...

    def all(self, resource: str, namespace: str = "") -> list[Object]:
        """All objects of a plural such as ``pods``, by namespace and name, without kind and apiVersion."""
        ...

    def records(self, resource: str, namespace: str = "") -> tuple[list[Record], int]:
        """The same with their JSON (``record.encoded``), and the version at which that was so."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object, None when there is none."""
        ...

    def pods_on(self, node: str) -> list[Object]:
        """The pods bound to a node."""
        ...


class UnschedulableError(Exception):
    """No node fits; its text goes into the FailedScheduling event."""


class Decider(Protocol):
    """Chooses the node for a pod; None or UnschedulableError when none fits."""

    def __call__(self, view: ClusterView, pod: Object) -> str | None:
        """The name of the node."""
        ...


class LeastAllocated:
    """Fits CPU, memory and pod count, minds taints, cordons and nodeSelector, prefers the emptiest; ties
    by name.
    """

    def __init__(self) -> None:
        self._requests: dict[tuple[Key, str], tuple[int, int]] = {}

    def __call__(self, view: ClusterView, pod: Object) -> str | None:
        """The least allocated node that fits, None when none does."""
        best: tuple[float, str] | None = None
        for node in view.all("nodes"):
            if not _admits(node, pod):
                continue
            share = self._share(view, node, pod)
            if share is not None and (best is None or (share, name_of(node)) < best):
                best = share, name_of(node)
        return best[1] if best else None

    def feasible(self, view: ClusterView, pod: Object) -> list[str]:
        """All nodes that fit, by name."""
        nodes = view.all("nodes")
        return [
            name_of(node) for node in nodes if _admits(node, pod) and self._share(view, node, pod) is not None
        ]

    def _share(self, view: ClusterView, node: Object, pod: Object) -> float | None:
        """The mean share of CPU and memory requested once the pod is there; None when it does not fit."""
        allocatable = {name: str(text) for name, text in (status_of(node).get("allocatable") or {}).items()}
        cpu, memory = self._requested(pod)
        count = 1
        for other in view.pods_on(name_of(node)):
            if not is_finished(other):
                other_cpu, other_memory = self._requested(other)
                cpu, memory, count = cpu + other_cpu, memory + other_memory, count + 1
        room_cpu = quantities.cpu_milli(allocatable.get("cpu", "0"))
        room_memory = quantities.units(allocatable.get("memory", "0"))
        if cpu > room_cpu or memory > room_memory or count > quantities.units(allocatable.get("pods", "110")):
            return None
        return (cpu / max(room_cpu, 1) + memory / max(room_memory, 1)) / 2

    def _requested(self, pod: Object) -> tuple[int, int]:
        key = (pod["metadata"].get("namespace", ""), name_of(pod)), pod["metadata"].get("uid", "")
        known = self._requests.get(key)
        if known is None:
            if len(self._requests) > _MAX_CACHED_ARRAYS:
                self._requests.clear()
            cpu = memory = 0
            for requests in requests_of(pod):
                cpu += quantities.cpu_milli(requests.get("cpu", "0"))
                memory += quantities.units(requests.get("memory", "0"))
            known = self._requests[key] = (cpu, memory)
        return known


def _admits(node: Object, pod: Object) -> bool:
    if not is_ready(node) or spec_of(node).get("unschedulable"):
        return False
    wanted = spec_of(pod).get("nodeSelector") or {}
    if any(labels_of(node).get(key) != value for key, value in wanted.items()):
        return False
    tolerations = spec_of(pod).get("tolerations") or ()
    return all(
        taint.get("effect") == "PreferNoSchedule"
        or any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in spec_of(node).get("taints") or ()
    )


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
