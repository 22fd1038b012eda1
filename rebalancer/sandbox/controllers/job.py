"""Jobs: as many pods at work as the parallelism asks for, until enough have succeeded."""

from __future__ import annotations

from collections.abc import Iterable

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
    is_active,
    is_terminating,
    phase_of,
    spec_of,
    status_of,
)
from rebalancer.sandbox.objects.change_log import Change, Key
from rebalancer.sandbox.rules.defaults import Registry

_RETRY_SECONDS = 1.0


class JobController:
    """Creates the pods a Job lacks; by the default replacement policy a terminating pod no longer counts.

    Jobs of a dump without a template are counted only, and pods end only when somebody writes that they did.
    """

    def __init__(self, registry: Registry, misbehaviours: Misbehaviours) -> None:
        self._registry = registry
        self._store = registry.store
        self._misbehaviours = misbehaviours

    def affected(self, change: Change) -> Iterable[Key]:
        """The owner of a changed pod, and a changed Job."""
        return owner_keys(change, "jobs")

    def every(self) -> Iterable[Key]:
        """All Jobs."""
        return every_key(self._store, "jobs")

    def reconcile(self, key: Key, now: float) -> float | None:  # noqa: ARG002 - nothing here depends on time
        """Create missing pods; then count."""
        item = self._store.get("jobs", *key)
        if item is None or is_terminating(item):
            return None
        missing = self._wanted(item) - len(self._active(item))
        again = None
        for _ in range(missing):
            pod = pod_of_template(item, "jobs")
            if pod is None:
                break
            if self._misbehaviours.of_workload(item):
                again = _RETRY_SECONDS
                break
            self._registry.create("pods", pod)
        active = self._active(item)
        counts = {"active": len(active), "ready": ready_count(active)}
        set_status(self._store, "jobs", item, counts, observed=False)
        return again

    def _active(self, item: Object) -> list[Object]:
        return [pod for pod in self._store.pods_of(item["metadata"]["uid"]) if is_active(pod)]

    def _wanted(self, item: Object) -> int:
        """How many pods are to be at work now."""
        spec = spec_of(item)
        if spec.get("suspend") or any(
            condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True"
            for condition in status_of(item).get("conditions") or ()
        ):
            return 0
        pods = self._store.pods_of(item["metadata"]["uid"])
        present = sum(1 for pod in pods if phase_of(pod) == "Succeeded")
        succeeded = max(int(status_of(item).get("succeeded", 0)), present)
        parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
        if completions is None:
            return 0 if succeeded else parallelism
        return min(parallelism, max(int(completions) - succeeded, 0))
