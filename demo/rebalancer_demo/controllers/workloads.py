"""The controllers that make pods from a template, and what they share.

ReplicaSets and ReplicationControllers replace a terminating pod at once, while it still runs. StatefulSets
count pods by ordinal and make the same name again only after the old pod is gone. Jobs keep as many pods at
work as the parallelism asks for, until enough have succeeded.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from rebalancer.cluster import times
from rebalancer_demo.admission import Registry
from rebalancer_demo.faults import Misbehaviours
from rebalancer_demo.objects import (
    Object,
    condition_of,
    controller_of,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
)
from rebalancer_demo.resources import STORED
from rebalancer_demo.store import Change, Key, Store


def owner_keys(change: Change, plural: str, child_plural: str = "pods") -> Iterable[Key]:
    """The keys of ``plural`` that a change of one of them, or of a child of theirs, concerns."""
    changed = change.record.object
    if change.resource == plural:
        return ((namespace_of(changed), name_of(changed)),)
    if change.resource != child_plural:
        return ()
    owner = controller_of(changed)
    if owner is None or owner.get("kind") != STORED[plural].kind:
        return ()
    return ((namespace_of(changed), owner["name"]),)


def every_key(store: Store, plural: str) -> list[Key]:
    """The keys of all objects of a kind."""
    return [(namespace_of(manifest), name_of(manifest)) for manifest in store.all(plural)]


def pod_of_template(owner: Object, plural: str) -> Object | None:
    """A new pod of the owner's template, without a name; None when the owner (of a dump) has no template."""
    template = (owner.get("spec") or {}).get("template")
    if not template or not template.get("spec"):
        return None
    metadata = copy.deepcopy(template.get("metadata") or {})
    row = STORED[plural]
    pod: Object = {
        "metadata": {
            "generateName": f"{name_of(owner)}-",
            "namespace": namespace_of(owner),
            "ownerReferences": [
                {
                    "apiVersion": row.api_version,
                    "kind": row.kind,
                    "name": name_of(owner),
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": copy.deepcopy(template["spec"]),
    }
    for field in ("labels", "annotations"):
        if metadata.get(field):
            pod["metadata"][field] = metadata[field]
    return pod


def set_status(
    store: Store, plural: str, owner: Object, counts: dict[str, Any], *, observed: bool = True
) -> None:
    """Write the counts into an owner's status, with the generation they were taken of when ``observed``."""

    def write(changed: Object) -> None:
        status = changed.get("status") or {}
        generation = changed["metadata"].get("generation")
        changed["status"] = {**status, **counts}
        if observed and generation is not None:
            changed["status"]["observedGeneration"] = generation

    store.mutate(plural, namespace_of(owner), name_of(owner), write)


def ready_count(pods: Iterable[Object]) -> int:
    """How many pods are ready."""
    return sum(1 for pod in pods if is_ready(pod))


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
        for replica_set in self._store.all(self._plural):
            uid = replica_set["metadata"]["uid"]
            surplus = len(self._active(uid)) - spec_of(replica_set).get("replicas", 1)
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
        replica_set = self._store.get(self._plural, *key)
        if replica_set is None or is_terminating(replica_set):
            return None
        uid = replica_set["metadata"]["uid"]
        replicas = spec_of(replica_set).get("replicas", 1)
        again = None
        active = self._active(uid)
        surplus = len(active) - replicas
        if surplus <= 0:
            self._dumped_surplus.pop(uid, None)
            again = self._create(replica_set, -surplus)
        elif surplus > self._dumped_surplus.get(uid, 0):
            self._delete(active, surplus)
        available_in = self._count(key, now)
        return available_in if again is None else again

    def _active(self, uid: str) -> list[Object]:
        return [pod for pod in self._store.pods_of(uid) if is_active(pod)]

    def _create(self, replica_set: Object, missing: int) -> float | None:
        for _ in range(missing):
            if self._misbehaviours.of_workload(replica_set):
                return _RETRY_SECONDS
            pod = pod_of_template(replica_set, self._plural)
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
        replica_set = self._store.get(self._plural, *key)
        if replica_set is None:
            return None
        active = self._active(replica_set["metadata"]["uid"])
        waits = [_available_in(pod, spec_of(replica_set).get("minReadySeconds", 0), now) for pod in active]
        counts = {
            "replicas": len(active),
            "readyReplicas": ready_count(active),
            "availableReplicas": sum(1 for seconds in waits if seconds is not None and seconds <= 0),
            "fullyLabeledReplicas": len(active),
        }
        set_status(self._store, self._plural, replica_set, counts)
        return min((seconds for seconds in waits if seconds is not None and seconds > 0), default=None)


def _available_in(pod: Object, min_ready_seconds: float, now: float) -> float | None:
    """The seconds until a pod is available, at most 0 when it is; None while it is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    since = condition.get("lastTransitionTime")
    return times.parse(since) + min_ready_seconds - now if min_ready_seconds and since else 0.0


class StatefulSetController:
    """Creates missing pods in order, each once those before it are ready (or all at once when Parallel)."""

    def __init__(self, registry: Registry, misbehaviours: Misbehaviours) -> None:
        self._registry = registry
        self._store = registry.store
        self._misbehaviours = misbehaviours

    def affected(self, change: Change) -> Iterable[Key]:
        """The owner of a changed pod, and a changed StatefulSet."""
        return owner_keys(change, "statefulsets")

    def every(self) -> Iterable[Key]:
        """All StatefulSets."""
        return every_key(self._store, "statefulsets")

    def reconcile(self, key: Key, now: float) -> float | None:  # noqa: ARG002 - nothing here depends on time
        """Create the next missing pod or delete the last surplus one; then count."""
        stateful_set = self._store.get("statefulsets", *key)
        if stateful_set is None or is_terminating(stateful_set):
            return None
        spec = spec_of(stateful_set)
        start = (spec.get("ordinals") or {}).get("start", 0)
        replicas = spec.get("replicas", 1)
        again = self._fill(stateful_set, range(start, start + replicas))
        pods = [pod for pod in self._store.pods_of(stateful_set["metadata"]["uid"]) if is_active(pod)]
        expected_names = {f"{name_of(stateful_set)}-{ordinal}" for ordinal in range(start, start + replicas)}
        surplus = sorted(
            (pod for pod in pods if name_of(pod) not in expected_names),
            key=lambda pod: _ordinal(name_of(pod)),
        )
        if surplus:
            self._registry.delete("pods", key[0], name_of(surplus[-1]))
        ready = ready_count(pods)
        counts = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": len(pods),
            "updatedReplicas": len(pods),
        }
        set_status(self._store, "statefulsets", stateful_set, counts)
        return again

    def _fill(self, stateful_set: Object, ordinals: range) -> float | None:
        parallel = spec_of(stateful_set).get("podManagementPolicy") == "Parallel"
        for ordinal in ordinals:
            pod = self._store.get("pods", namespace_of(stateful_set), f"{name_of(stateful_set)}-{ordinal}")
            if pod is None:
                if self._misbehaviours.of_workload(stateful_set):
                    return _RETRY_SECONDS
                pod = self._create(stateful_set, ordinal)
                if pod is None:
                    return None
            elif is_finished(pod) and not is_terminating(pod) and _owns(stateful_set, pod):
                self._registry.delete("pods", namespace_of(stateful_set), name_of(pod))
            if not parallel and not (is_ready(pod) and is_active(pod)):
                return None
        return None

    def _create(self, stateful_set: Object, ordinal: int) -> Object | None:
        pod = pod_of_template(stateful_set, "statefulsets")
        if pod is None:
            return None
        name = f"{name_of(stateful_set)}-{ordinal}"
        metadata = pod["metadata"]
        spec = pod["spec"]
        metadata.pop("generateName")
        metadata["name"] = name
        labels = metadata.setdefault("labels", {})
        labels["statefulset.kubernetes.io/pod-name"] = name
        labels["apps.kubernetes.io/pod-index"] = str(ordinal)
        spec["hostname"] = name
        if spec_of(stateful_set).get("serviceName"):
            spec["subdomain"] = spec_of(stateful_set)["serviceName"]
        claims = [name_of(claim) for claim in spec_of(stateful_set).get("volumeClaimTemplates") or ()]
        others = [volume for volume in spec.get("volumes") or () if volume.get("name") not in claims]
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims
        ]
        if volumes or others:
            spec["volumes"] = [*volumes, *others]
        return self._registry.create("pods", pod)


def _ordinal(name: str) -> int:
    last = name.rpartition("-")[2]
    return int(last) if last.isascii() and last.isdigit() else -1


def _owns(owner: Object, pod: Object) -> bool:
    reference = controller_of(pod)
    return reference is not None and reference.get("uid") == owner["metadata"]["uid"]


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
        job = self._store.get("jobs", *key)
        if job is None or is_terminating(job):
            return None
        missing = self._desired(job) - len(self._active(job))
        again = None
        for _ in range(missing):
            pod = pod_of_template(job, "jobs")
            if pod is None:
                break
            if self._misbehaviours.of_workload(job):
                again = _RETRY_SECONDS
                break
            self._registry.create("pods", pod)
        active = self._active(job)
        counts = {"active": len(active), "ready": ready_count(active)}
        set_status(self._store, "jobs", job, counts, observed=False)
        return again

    def _active(self, job: Object) -> list[Object]:
        return [pod for pod in self._store.pods_of(job["metadata"]["uid"]) if is_active(pod)]

    def _desired(self, job: Object) -> int:
        """How many pods are to be at work now."""
        spec = spec_of(job)
        if spec.get("suspend") or any(
            condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True"
            for condition in status_of(job).get("conditions") or ()
        ):
            return 0
        pods = self._store.pods_of(job["metadata"]["uid"])
        present = sum(1 for pod in pods if phase_of(pod) == "Succeeded")
        succeeded = max(int(status_of(job).get("succeeded", 0)), present)
        parallelism = int(spec.get("parallelism", 1))
        completions = spec.get("completions")
        if completions is None:
            return 0 if succeeded else parallelism
        return min(parallelism, max(int(completions) - succeeded, 0))
