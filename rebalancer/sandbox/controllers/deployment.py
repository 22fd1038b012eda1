"""Deployments: their status follows their ReplicaSets, and a change of scale reaches the newest of those."""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.sandbox.controllers.workloads import every_key, owner_keys, set_status
from rebalancer.sandbox.objects.accessors import (
    Object,
    controller_of,
    is_terminating,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from rebalancer.sandbox.objects.change_log import Change, Key
from rebalancer.sandbox.rules.defaults import Registry

_REVISION = "deployment.kubernetes.io/revision"


class DeploymentController:
    """Counts the replicas of a Deployment; it rolls nothing out, since a dump contains its ReplicaSets."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store

    def affected(self, change: Change) -> Iterable[Key]:
        """The Deployment of a changed ReplicaSet, and a changed Deployment."""
        return owner_keys(change, "deployments", "replicasets")

    def every(self) -> Iterable[Key]:
        """All Deployments."""
        return every_key(self._store, "deployments")

    def reconcile(self, key: Key, now: float) -> float | None:  # noqa: ARG002 - nothing here depends on time
        """Scale the newest ReplicaSet when that is the only one with pods; then count."""
        item = self._store.get("deployments", *key)
        if item is None or is_terminating(item):
            return None
        sets = self._replica_sets(item)
        if not sets:
            return None
        newest, replicas = max(sets, key=_age), spec_of(item).get("replicas", 1)
        settled = all(spec_of(other).get("replicas", 1) == 0 for other in sets if other is not newest)
        changed = item["metadata"].get("generation", 0) > status_of(item).get("observedGeneration", 0)
        if changed and settled and spec_of(newest).get("replicas", 1) != replicas:
            self._scale(newest, replicas)
        counts = {"updatedReplicas": status_of(newest).get("replicas", 0)}
        for field in ("replicas", "readyReplicas", "availableReplicas"):
            counts[field] = sum(status_of(other).get(field, 0) for other in sets)
        counts["unavailableReplicas"] = max(replicas - counts["availableReplicas"], 0)
        set_status(self._store, "deployments", item, counts)
        return None

    def _scale(self, replica_set: Object, replicas: int) -> None:
        def resize(item: Object) -> None:
            item["spec"]["replicas"] = replicas

        self._store.mutate("replicasets", namespace_of(replica_set), name_of(replica_set), resize)

    def _replica_sets(self, deployment: Object) -> list[Object]:
        found = []
        for item in self._store.all("replicasets", namespace_of(deployment)):
            owner = controller_of(item)
            if owner is not None and owner.get("uid") == deployment["metadata"]["uid"]:
                found.append(item)
        return found


def _age(replica_set: Object) -> tuple[int, str]:
    annotations = replica_set["metadata"].get("annotations") or {}
    return int(annotations.get(_REVISION) or 0), replica_set["metadata"]["creationTimestamp"]
