"""The sandbox's scheduler: takes pods in queue order, asks a decider, binds them and writes events.

A ``Decider`` says where a pod goes; ``LeastAllocated`` is a simple one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from rebalancer.cluster import quantities, times
from rebalancer_demo.admission import Registry
from rebalancer_demo.faults import WORST, Misbehaviours
from rebalancer_demo.kubelet import is_heartbeat
from rebalancer_demo.objects import (
    Object,
    StatusError,
    condition_of,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    requests_of,
    set_condition,
    spec_of,
    status_of,
)
from rebalancer_demo.store import Change, Key, Record

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
                cpu = cpu + other_cpu
                memory = memory + other_memory
                count = count + 1
        room_cpu = quantities.cpu_milli(allocatable.get("cpu", "0"))
        room_memory = quantities.units(allocatable.get("memory", "0"))
        if cpu > room_cpu or memory > room_memory or count > quantities.units(allocatable.get("pods", "110")):
            return None
        return (cpu / max(room_cpu, 1) + memory / max(room_memory, 1)) / 2

    def _requested(self, pod: Object) -> tuple[int, int]:
        key = (pod["metadata"].get("namespace", ""), name_of(pod)), pod["metadata"].get("uid", "")
        amounts = self._requests.get(key)
        if amounts is None:
            if len(self._requests) > _MAX_CACHED_ARRAYS:
                self._requests.clear()
            cpu = memory = 0
            for requests in requests_of(pod):
                cpu += quantities.cpu_milli(requests.get("cpu", "0"))
                memory += quantities.units(requests.get("memory", "0"))
            amounts = self._requests[key] = (cpu, memory)
        return amounts


def _admits(node: Object, pod: Object) -> bool:
    if not is_ready(node) or spec_of(node).get("unschedulable"):
        return False
    selector = spec_of(pod).get("nodeSelector") or {}
    if any(labels_of(node).get(key) != value for key, value in selector.items()):
        return False
    tolerations = spec_of(pod).get("tolerations") or ()
    for taint in spec_of(node).get("taints") or ():
        is_tolerated = any(_tolerates(toleration, taint) for toleration in tolerations)
        if taint.get("effect") != "PreferNoSchedule" and not is_tolerated:
            return False
    return True


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


LEASE = ("kube-system", "kube-scheduler")
_TICK_SECONDS = 0.1
_RENEW_SECONDS = 2.0
_RETRY_SECONDS = 5.0
_LEASE_SECONDS = 15
_RUNNING_SECONDS = 3600.0
_HOLDER = "sandbox-scheduler"
_LOG = logging.getLogger(__name__)


@dataclass
class _Waiting:
    """A pod of the queue: when it came, by number and by the clock, and until when it is left alone."""

    number: int
    since: float
    not_before: float = 0.0
    unschedulable: bool = False


class Scheduler:
    """Binds the pods of ``names`` (None: of all scheduler names) to the nodes of ``decide``, on a thread.

    ``loads`` (the load of each node in [0, 1] by name) orders nodes for misplacements. The lease
    ``kube-scheduler`` is renewed every 2 s while the thread lives.
    """

    def __init__(
        self,
        registry: Registry,
        misbehaviours: Misbehaviours,
        decide: Decider,
        *,
        loads: Callable[[], dict[str, float]],
        names: Collection[str] | None = None,
    ) -> None:
        self._registry = registry
        self._store = registry.store
        self._misbehaviours = misbehaviours
        self._decide = decide
        self._loads = loads
        self._names = names
        self._queue: dict[Key, _Waiting] = {}
        self._numbers = 0
        self._fits = LeastAllocated()
        self._renewed: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-scheduler")
        self.rounds = 0  # how often it has looked at what changed and what is due

    def start(self) -> None:
        """Begin with the pods that are unbound already."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let the lease lapse."""
        self._stopping.set()
        self._store.wake()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        cursor = self._store.version
        self._enqueue_all()
        while not self._stopping.is_set():
            self._renew()
            self._schedule()
            try:
                changes = self._store.changes(cursor, wait_seconds=_TICK_SECONDS)
            except StatusError:
                cursor = self._store.version
                self._enqueue_all()
                continue
            for change in changes:
                self._notice(change)
                cursor = change.version
            self.rounds += 1

    def _enqueue_all(self) -> None:
        pods = self._store.all("pods")
        for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"])):
            self._enqueue(pod)

    def _enqueue(self, pod: Object) -> None:
        key = (namespace_of(pod), name_of(pod))
        name = spec_of(pod).get("schedulerName", "default-scheduler")
        ours = self._names is None or name in self._names
        if node_of(pod) or is_terminating(pod) or is_finished(pod) or not ours:
            self._queue.pop(key, None)
        elif key not in self._queue:
            self._numbers += 1
            self._queue[key] = _Waiting(self._numbers, self._store.clock())

    def _notice(self, change: Change) -> None:
        manifest = change.record.object
        frees_room = change.resource == "nodes" and not (
            change.previous and is_heartbeat(change.previous.object, manifest)
        )
        if change.resource == "pods":
            if change.kind == "DELETED":
                self._queue.pop((namespace_of(manifest), name_of(manifest)), None)
                frees_room = bool(node_of(manifest))
            else:
                self._enqueue(manifest)
        if frees_room:
            for waiting in self._queue.values():
                if waiting.unschedulable:
                    waiting.not_before = 0.0

    def _schedule(self) -> None:
        """One attempt for every pod that is due, by priority and then by arrival."""
        now = self._store.clock()
        due = []
        for key, waiting in self._queue.items():
            pod = self._store.get("pods", *key)
            if pod is not None and waiting.not_before <= now:
                due.append((-spec_of(pod).get("priority", 0), waiting.number, key))
        for _, _, key in sorted(due):
            if self._stopping.is_set():
                return
            self._renew()
            pod = self._store.get("pods", *key)
            if pod is None or node_of(pod) or is_terminating(pod):
                self._queue.pop(key, None)
                continue
            try:
                self._attempt(key, pod)
            except StatusError:
                _LOG.debug("the pod %s changed while it was scheduled", key, exc_info=True)
                self._queue[key].not_before = self._store.clock() + _TICK_SECONDS
            except Exception as error:  # noqa: BLE001
                # the edge of the thread: a decider that fails on one pod must not stop the others
                _LOG.exception("the decider failed on %s", key)
                self._refuse(key, pod, f"running the scheduler failed: {error}")

    def _attempt(self, key: Key, pod: Object) -> None:
        waiting = self._queue[key]
        now = self._store.clock()
        if self._misbehaviours.of_pod(pod, "drop"):
            waiting.not_before = now + 1.0
            return
        delay = self._misbehaviours.of_pod(pod, "delay")
        if delay is not None and now < waiting.since + delay.seconds:
            waiting.not_before = waiting.since + delay.seconds
            return
        try:
            node = self._decide(self._store, pod)
        except UnschedulableError as error:
            self._refuse(key, pod, str(error))
            return
        misplaced = self._misbehaviours.of_pod(pod, "misplace")
        if misplaced is not None:
            node = self._worst(pod) if misplaced.node == WORST else misplaced.node
        if node is None:
            count = self._store.count("nodes")
            self._refuse(key, pod, f"0/{count} nodes are available: {count} Insufficient cpu.")
            return
        self._registry.bind(*key, {"metadata": {"uid": pod["metadata"]["uid"]}, "target": {"name": node}})
        self._queue.pop(key, None)
        message = f"Successfully assigned {key[0]}/{key[1]} to {node}"
        self._event(pod, "Normal", "Scheduled", message)

    def _worst(self, pod: Object) -> str | None:
        loads = self._loads()
        feasible = self._fits.feasible(self._store, pod)
        return max(feasible, key=lambda name: (loads.get(name, 0.0), name), default=None)

    def _refuse(self, key: Key, pod: Object, message: str) -> None:
        waiting = self._queue[key]
        now = self._store.clock()
        waiting.unschedulable = True
        waiting.not_before = now + _RETRY_SECONDS
        condition = condition_of(pod, "PodScheduled") or {}
        if (condition.get("reason"), condition.get("message")) == ("Unschedulable", message):
            return
        self._store.mutate(
            "pods",
            *key,
            lambda changed: set_condition(
                changed, "PodScheduled", "False", now, reason="Unschedulable", message=message
            ),
        )
        self._event(pod, "Warning", "FailedScheduling", message)

    def _event(self, pod: Object, kind: str, reason: str, message: str) -> None:
        """Say what became of a pod, unless its namespace has gone meanwhile or nobody may write there."""
        now = self._store.clock()
        metadata = pod["metadata"]
        event = {
            "metadata": {
                "name": f"{name_of(pod)}.{self._store.new_uid().replace('-', '')[:16]}",
                "namespace": namespace_of(pod),
            },
            "involvedObject": {
                "kind": "Pod",
                "apiVersion": "v1",
                "namespace": namespace_of(pod),
                "name": name_of(pod),
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": spec_of(pod).get("schedulerName", "default-scheduler")},
            "reportingComponent": spec_of(pod).get("schedulerName", "default-scheduler"),
            "reportingInstance": _HOLDER,
            "action": "Binding" if kind == "Normal" else "Scheduling",
            "firstTimestamp": times.render(now),
            "lastTimestamp": times.render(now),
            "eventTime": times.render_micro(now),
            "count": 1,
        }
        with contextlib.suppress(StatusError):
            self._registry.create("events", event)

    def _renew(self) -> None:
        now = self._store.clock()
        if self._renewed is not None and 0 <= now - self._renewed < _RENEW_SECONDS:
            return
        self._renewed = now
        spec = {
            "holderIdentity": _HOLDER,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": times.render_micro(now),
        }

        # It decides as a scheduler that has run for long, which takes no pod to be just bound.
        acquired = times.render_micro(now - _RUNNING_SECONDS)

        def renew(changed: Object) -> None:
            changed["spec"] = {"acquireTime": acquired, **(changed.get("spec") or {}), **spec}

        if self._store.mutate("leases", *LEASE, renew) is None:
            metadata = {"namespace": LEASE[0], "name": LEASE[1]}
            lease = {"metadata": metadata, "spec": {**spec, "acquireTime": acquired}}
            self._registry.create("leases", lease)
