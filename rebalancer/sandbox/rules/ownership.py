"""What an object owns by the ownerReferences of others: it goes with its owner, or is released before."""

from __future__ import annotations

from rebalancer.sandbox.objects.accessors import Object, controller_of, name_of, namespace_of
from rebalancer.sandbox.objects.store import Store

ORPHAN = "Orphan"


def dependents(store: Store, namespace: str, uid: str) -> list[tuple[str, Object]]:
    """The ReplicaSets and pods that a controller of this uid owns, each with its plural."""
    sets = [item for item in store.all("replicasets", namespace) if _owned(item, uid)]
    return [*(("replicasets", item) for item in sets), *(("pods", item) for item in store.pods_of(uid))]


def release(store: Store, namespace: str, uid: str) -> None:
    """Take the owner out of all that it owns."""

    def forget(item: Object) -> None:
        references = item["metadata"].get("ownerReferences") or ()
        item["metadata"]["ownerReferences"] = [one for one in references if one.get("uid") != uid]

    for plural, item in dependents(store, namespace, uid):
        store.mutate(plural, namespace_of(item), name_of(item), forget)


def _owned(item: Object, uid: str) -> bool:
    owner = controller_of(item)
    return owner is not None and owner.get("uid") == uid
