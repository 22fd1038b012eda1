"""Builders of small clusters, so that a test says only what it is about."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rebalancer.cluster.dumps.listing import Listing, Recording, decode_listing
from rebalancer.cluster.kinds import BY_PLURAL, DISRUPTION_BUDGETS, NODES, PODS
from rebalancer.cluster.records import PodSpec
from rebalancer.cluster.snapshot import Snapshot, build_snapshot

LONG_AGO = "2026-01-01T00:00:00Z"


def a_node(
    name: str,
    *,
    cpu: str | int = 4,
    memory: str = "8Gi",
    pods: int = 110,
    capacity_cpu: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Mapping[str, str]] = (),
    ready: bool = True,
    unschedulable: bool = False,
    extra: Mapping[str, str] | None = None,
    created: str | None = LONG_AGO,
) -> dict[str, Any]:
    """A Ready node; capacity equals allocatable unless said otherwise."""
    allocatable = {"cpu": str(cpu), "memory": memory, "pods": str(pods), **(extra or {})}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": created,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": {"unschedulable": unschedulable, "taints": list(taints)},
        "status": {
            "allocatable": allocatable,
            "capacity": {**allocatable, "cpu": capacity_cpu or str(cpu)},
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": LONG_AGO}
            ],
        },
    }


def a_pod(
    name: str,
    *,
    node: str = "",
    namespace: str = "default",
    cpu: str | None = None,
    memory: str | None = None,
    labels: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
    spec: PodSpec | None = None,
    annotations: Mapping[str, str] | None = None,
    created: str = LONG_AGO,
    ready: bool = True,
    **fields: Any,
) -> dict[str, Any]:
    """A running pod when it has a node, else a Pending one; ``fields`` are added to its spec."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    if spec is None:
        content: dict[str, Any] = {
            "containers": [{"name": "main", "image": "app:v1", "resources": {"requests": requests}}]
        }
    else:
        content = msgspec.to_builtins(spec)
    content |= {"schedulerName": content.get("schedulerName") or "default-scheduler", **fields}
    if node:
        content["nodeName"] = node
    status: dict[str, Any] = {"phase": "Running" if node else "Pending"}
    if node:
        status["startTime"] = created
        status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": created,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "ownerReferences": [owner] if owner else [],
        },
        "spec": content,
        "status": status,
    }


def owned_by(kind: str, name: str, *, namespace: str = "default") -> dict[str, Any]:
    """An ownerReference of a controller."""
    version = "batch/v1" if kind == "Job" else "apps/v1"
    uid = f"uid-{namespace}-{kind}-{name}"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def a_replica_set(
    name: str,
    *,
    replicas: int = 3,
    namespace: str = "default",
    template: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    ready: int | None = None,
) -> dict[str, Any]:
    """A ReplicaSet whose pods carry ``labels``; ``template`` is a pod spec."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-ReplicaSet-{name}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(labels or {})},
            "template": {"metadata": {"labels": dict(labels or {})}, "spec": dict(template or {})},
        },
        "status": {"replicas": replicas, "readyReplicas": replicas if ready is None else ready},
    }


def a_budget(
    name: str, *, labels: Mapping[str, str], allowed: int, namespace: str = "default", **spec: Any
) -> dict[str, Any]:
    """A PodDisruptionBudget whose status is up to date."""
    return {
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"selector": {"matchLabels": dict(labels)}, **(spec or {"minAvailable": 1})},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 2 + allowed,
            "desiredHealthy": 2,
            "expectedPods": 2 + allowed,
            "observedGeneration": 1,
        },
    }


def _listing(plural: str, items: Iterable[Mapping[str, Any]]) -> Listing:
    return _decoded(plural, items) if (items := list(items)) else _without_objects(plural)


@functools.cache
def _without_objects(plural: str) -> Listing:
    """Most kinds of most recordings."""
    return _decoded(plural, ())


def _decoded(plural: str, items: Iterable[Mapping[str, Any]]) -> Listing:
    return decode_listing(BY_PLURAL[plural], [msgspec.Raw(msgspec.json.encode(item)) for item in items])


def a_recording(
    documents: Mapping[str, bytes] | None = None, **kinds: Iterable[Mapping[str, Any]]
) -> Recording:
    """A recording of the kinds given by plural; nodes, pods and budgets are read even when not given."""
    everything: dict[str, Iterable[Mapping[str, Any]]] = {
        NODES.plural: (),
        PODS.plural: (),
        DISRUPTION_BUDGETS.plural: (),
        **kinds,
    }
    listings = {plural: _listing(plural, items) for plural, items in everything.items()}
    return Recording("test", listings, {}, documents or {})


def a_snapshot(**kinds: Iterable[Mapping[str, Any]]) -> Snapshot:
    """A snapshot of the kinds given by plural."""
    return build_snapshot(a_recording(None, **kinds))


def names_of(listing: Listing) -> list[str]:
    """The names of what a listing holds, in its order."""
    if listing.pods is not None:
        return list(listing.pods.names)
    return [record.metadata.name for record in listing.records]
