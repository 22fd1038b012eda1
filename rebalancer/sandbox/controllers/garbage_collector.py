"""Deletes what a deleted object owned, in the background, as kube-controller-manager does."""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.sandbox.objects.accessors import is_terminating, name_of, namespace_of
from rebalancer.sandbox.objects.change_log import Change, Key
from rebalancer.sandbox.rules.defaults import Registry
from rebalancer.sandbox.rules.ownership import dependents

_OWNERS = frozenset(
    {"deployments", "replicasets", "replicationcontrollers", "statefulsets", "daemonsets", "jobs"}
)


class GarbageCollector:
    """Looks at an owner once it is gone; its key is its namespace and uid.

    Only deletions are followed: what a dump holds without its owner stays.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def affected(self, change: Change) -> Iterable[Key]:
        """The owner that was deleted."""
        if change.kind != "DELETED" or change.resource not in _OWNERS:
            return ()
        owner = change.record.object
        return ((namespace_of(owner), owner["metadata"]["uid"]),)

    def every(self) -> Iterable[Key]:
        """Nothing."""
        return ()

    def reconcile(self, key: Key, now: float) -> float | None:  # noqa: ARG002 - nothing here depends on time
        """Delete what it owned; a ReplicaSet's own pods follow when that is gone."""
        for plural, item in dependents(self._registry.store, *key):
            if not is_terminating(item):
                self._registry.delete(plural, namespace_of(item), name_of(item))
        return None
