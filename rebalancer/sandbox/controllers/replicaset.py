"""ReplicaSets and ReplicationControllers: a terminating pod is replaced at once, while it still runs."""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.cluster import times
from rebalancer.sandbox.controllers.workloads import (
    every_key,
    owner_keys,
    pod_of_template,
    ready_count,
    set_status,
)
from rebalancer.sandbox.faults.misbehaviour import Misbehaviours
from rebalancer.sandbox.objects.accessors import (
    Object,
    condition_of,
    is_active,
    is_ready,
    is_terminating,
    name_of,
    node_of,
    spec_of,
)
from rebalancer.sandbox.objects.change_log import Change, Key
from rebalancer.sandbox.rules.defaults import Registry

_RETRY_SECONDS = 1.0


class ReplicaSetController:
    """Creates replacements from the template and deletes surplus pods, except a surplus that a dump brought.

    A terminating pod no longer counts, so its replacement is created while it still runs.
    """

    def __init__(self, registry: Registry, misbehaviours: Misbehaviours, plural: str = "replicasets") -> None:
        self._registry = registry
        self._store = registry.store
        self._misbehaviours = misbehaviours
        self._plural = plural
        self._dumped_surplus: dict[str, int] = {}  # uid -> pods too many when it was loaded

    def loaded(self) -> None:
        """Accept the present surplus of every ReplicaSet: it came with a dump."""
        for item in self._store.all(self._plural):
            uid = item["metadata"]["uid"]
            surplus = len(self._active(uid)) - spec_of(item).get("replicas", 1)
            if surplus > 0:
                self._dumped_surplus[uid] = surplus

    def affected(self, change: Change) -> Iterable[Key]:
        """The owner of a changed pod, and a changed ReplicaSet."""
        return owner_keys(change, self._plural)

    def every(self) -> Iterable[Key]:
        """All ReplicaSets."""
        return every_key(self._store, self._plural)

    def reconcile(self, key: Key, now: float) -> float | None:
        """Create or delete pods until as many are active as asked for; then count."""
        item = self._store.get(self._plural, *key)
        if item is None or is_terminating(item):
            return None
        uid, replicas = item["metadata"]["uid"], spec_of(item).get("replicas", 1)
        again = None
        active = self._active(uid)
        surplus = len(active) - replicas
        if surplus <= 0:
            self._dumped_surplus.pop(uid, None)
            again = self._create(item, -surplus)
        elif surplus > self._dumped_surplus.get(uid, 0):
            self._delete(active, surplus)
        available_in = self._count(key, now)
        return available_in if again is None else again

    def _active(self, uid: str) -> list[Object]:
        return [pod for pod in self._store.pods_of(uid) if is_active(pod)]

    def _create(self, item: Object, missing: int) -> float | None:
        for _ in range(missing):
            if self._misbehaviours.of_workload(item):
                return _RETRY_SECONDS
            pod = pod_of_template(item, self._plural)
            if pod is None:
                return None
            self._registry.create("pods", pod)
        return None

    def _delete(self, active: list[Object], surplus: int) -> None:
        """Delete the pods that are missed least: unbound first, then unready, then the youngest."""
        active = sorted(
            active, key=lambda pod: (pod["metadata"]["creationTimestamp"], name_of(pod)), reverse=True
        )
        active.sort(key=lambda pod: (bool(node_of(pod)), is_ready(pod)))
        for pod in active[:surplus]:
            self._registry.delete("pods", pod["metadata"]["namespace"], name_of(pod))

    def _count(self, key: Key, now: float) -> float | None:
        """Write the counts; the seconds until another pod has been ready for long enough, if one will be."""
        item = self._store.get(self._plural, *key)
        if item is None:
            return None
        active = self._active(item["metadata"]["uid"])
        waits = [_available_in(pod, spec_of(item).get("minReadySeconds", 0), now) for pod in active]
        counts = {
            "replicas": len(active),
            "readyReplicas": ready_count(active),
            "availableReplicas": sum(1 for seconds in waits if seconds is not None and seconds <= 0),
            "fullyLabeledReplicas": len(active),
        }
        set_status(self._store, self._plural, item, counts)
        return min((seconds for seconds in waits if seconds is not None and seconds > 0), default=None)


def _available_in(pod: Object, min_ready_seconds: float, now: float) -> float | None:
    """The seconds until a pod is available, at most 0 when it is; None while it is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    since = condition.get("lastTransitionTime")
    return times.parse(since) + min_ready_seconds - now if min_ready_seconds and since else 0.0
