"""Deployments: a change of the pod template rolls out, a change of scale reaches the newest ReplicaSet.

A Deployment of a dump may not match its ReplicaSets, as those are often dumped without templates. It is
taken as rolled out until its template changes; only then are its ReplicaSets compared with it.

In a rolling update the new ReplicaSet grows while all pods together are fewer than the replicas and
maxSurge; the old ones shrink while the available pods are more than the replicas without maxUnavailable:

    1 replica, maxSurge 25 % (1), maxUnavailable 25 % (0)
    old 1 available, new 0                   the new one grows to 1
    old 1 available, new 1 not available     nothing: one must stay available
    old 1 available, new 1 available         the old one shrinks to 0

Source: kubernetes v1.35.0 pkg/controller/deployment: sync.go, rolling.go, recreate.go,
util/deployment_util.go (ResolveFenceposts and NewRSNewReplicas). Left out: proportional scaling while a
rollout is under way, the limit of the history, and the deadline of its progress.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rebalancer_demo.admission import Registry
from rebalancer_demo.controllers.workloads import every_key, owner_keys, set_status
from rebalancer_demo.objects import (
    Object,
    annotations_of,
    controller_of,
    is_terminating,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from rebalancer_demo.resources import STORED
from rebalancer_demo.store import Change, Key

_DEFAULT = "25%"  # of maxSurge and maxUnavailable alike


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """What a Deployment asks for."""

    replicas: int
    surge: int  # pods above the replicas
    unavailable: int  # pods that may lack

    @classmethod
    def of(cls, deployment: Object) -> RollingUpdate:
        """Percentages of the replicas, surge rounded up and unavailable down; both at 0 would never end."""
        spec = spec_of(deployment)
        replicas = int(spec.get("replicas", 1))
        rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge = _share(rolling.get("maxSurge", _DEFAULT), replicas, up=True)
        unavailable = _share(rolling.get("maxUnavailable", _DEFAULT), replicas, up=False)
        if surge == unavailable == 0:
            unavailable = 1
        return cls(replicas, surge, min(unavailable, replicas))

    def of_new(self, new: Object, old: Sequence[Object]) -> int:
        """The size of the new ReplicaSet."""
        size = size_of(new)
        if size >= self.replicas:
            return self.replicas
        room = self.replicas + self.surge - size - sum(map(size_of, old))
        return size + max(min(room, self.replicas - size), 0)

    def of_old(self, new: Object, old: Sequence[Object]) -> list[int]:
        """The sizes of the old ReplicaSets, oldest first. Unavailable pods are removed first."""
        sizes = list(map(size_of, old))
        least = self.replicas - self.unavailable
        new_unavailable = size_of(new) - _available(new)
        room = size_of(new) + sum(sizes) - least - new_unavailable
        for at, replica_set in enumerate(old):
            ended = min(max(sizes[at] - _available(replica_set), 0), max(room, 0))
            sizes[at] -= ended
            room -= ended
        room = min(room, _available(new) + sum(map(_available, old)) - least)
        for at in range(len(old)):
            ended = min(sizes[at], max(room, 0))
            sizes[at] -= ended
            room -= ended
        return sizes


def size_of(replica_set: Object) -> int:
    """How many pods a ReplicaSet is to have."""
    return int(spec_of(replica_set).get("replicas", 1))


def _available(replica_set: Object) -> int:
    return int(status_of(replica_set).get("availableReplicas", 0))


def _share(value: int | str, replicas: int, *, up: bool) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    share = int(text[:-1]) * replicas
    return -(-share // 100) if up else share // 100


_REVISION = "deployment.kubernetes.io/revision"
_HASH = "pod-template-hash"
_HASH_LENGTH = 10


class DeploymentController:
    """Rolls out new templates, scales, and counts the replicas of a Deployment."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        # uid -> the hash of the template it was loaded with, empty once its rollouts are followed
        self._dumped: dict[str, str] = {}

    def loaded(self) -> None:
        """Take every Deployment as rolled out: its ReplicaSets came with the same dump."""
        for deployment in self._store.all("deployments"):
            self._dumped.setdefault(deployment["metadata"]["uid"], _hash_of(deployment))

    def affected(self, change: Change) -> Iterable[Key]:
        """The Deployment of a changed ReplicaSet or of a pod that has gone, and a changed Deployment."""
        if change.resource == "pods" and change.kind == "DELETED":
            return self._of_pod(change.record.object)
        return owner_keys(change, "deployments", "replicasets")

    def _of_pod(self, pod: Object) -> Iterable[Key]:
        """Recreate waits for the last old pod, whose ReplicaSet has stopped counting it long before."""
        owner = controller_of(pod)
        if owner is None or owner.get("kind") != "ReplicaSet":
            return ()
        replica_set = self._store.get("replicasets", namespace_of(pod), owner["name"])
        above = controller_of(replica_set) if replica_set is not None else None
        return ((namespace_of(pod), above["name"]),) if above is not None else ()

    def every(self) -> Iterable[Key]:
        """All Deployments."""
        return every_key(self._store, "deployments")

    def reconcile(self, key: Key, now: float) -> float | None:  # noqa: ARG002 - nothing here depends on time
        """One step of a rollout or of a change of scale, which leads to the next one; then count."""
        deployment = self._store.get("deployments", *key)
        if deployment is None or is_terminating(deployment):
            return None
        sets = self._replica_sets(deployment)
        uid = deployment["metadata"]["uid"]
        digest = _hash_of(deployment)
        if self._dumped.get(uid) == digest:
            if sets:
                self._scale_newest(deployment, sets)
                self._count(deployment, sets[-1], sets)
            return None
        self._dumped[uid] = ""
        new = next((other for other in sets if _hash_of(other) == digest), None)
        if not spec_of(deployment).get("paused"):
            new = self._roll_out(deployment, new, [other for other in sets if other is not new])
        self._count(deployment, new, self._replica_sets(deployment))
        return None

    def _roll_out(self, deployment: Object, new: Object | None, old: Sequence[Object]) -> Object | None:
        """One step towards the new template; the new ReplicaSet, None while there is none."""
        if (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate":
            for other in old:
                self._scale(other, 0)
            if any(self._store.pods_of(other["metadata"]["uid"]) for other in old):
                return new
            new = new or self._create(deployment, old)
            self._scale(new, RollingUpdate.of(deployment).replicas)
            return new
        new = new or self._create(deployment, old)
        update = RollingUpdate.of(deployment)
        size = update.of_new(new, old)
        if size != size_of(new):
            self._scale(new, size)
            return new
        for other, replicas in zip(old, update.of_old(new, old), strict=True):
            self._scale(other, replicas)
        return new

    def _create(self, deployment: Object, old: Sequence[Object]) -> Object:
        """A ReplicaSet without pods for the present template."""
        digest = _hash_of(deployment)
        row = STORED["deployments"]
        template = copy.deepcopy(spec_of(deployment).get("template") or {})
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), _HASH: digest}
        selector = copy.deepcopy(spec_of(deployment).get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: digest}
        revision = max((_revision(other) for other in old), default=0) + 1
        made: Object = {
            "metadata": {
                "name": f"{name_of(deployment)}-{digest}",
                "namespace": namespace_of(deployment),
                "labels": metadata["labels"],
                "annotations": {_REVISION: str(revision)},
                "ownerReferences": [
                    {
                        "apiVersion": row.api_version,
                        "kind": row.kind,
                        "name": name_of(deployment),
                        "uid": deployment["metadata"]["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "replicas": 0,
                "selector": selector,
                "template": template,
                "minReadySeconds": spec_of(deployment).get("minReadySeconds", 0),
            },
        }
        return self._registry.create("replicasets", made)

    def _scale_newest(self, deployment: Object, sets: Sequence[Object]) -> None:
        """A change of scale, where the newest ReplicaSet of a dump is the only one with pods."""
        newest = sets[-1]
        replicas = spec_of(deployment).get("replicas", 1)
        generation = deployment["metadata"].get("generation", 0)
        observed = status_of(deployment).get("observedGeneration", 0)
        if generation > observed and all(size_of(other) == 0 for other in sets[:-1]):
            self._scale(newest, replicas)

    def _scale(self, replica_set: Object, replicas: int) -> None:
        def resize(changed: Object) -> None:
            changed["spec"]["replicas"] = replicas

        if size_of(replica_set) != replicas:
            self._store.mutate("replicasets", namespace_of(replica_set), name_of(replica_set), resize)

    def _count(self, deployment: Object, new: Object | None, sets: Sequence[Object]) -> None:
        counts = {"updatedReplicas": status_of(new).get("replicas", 0) if new is not None else 0}
        for field in ("replicas", "readyReplicas", "availableReplicas"):
            counts[field] = sum(status_of(other).get(field, 0) for other in sets)
        replicas = spec_of(deployment).get("replicas", 1)
        counts["unavailableReplicas"] = max(replicas - counts["availableReplicas"], 0)
        set_status(self._store, "deployments", deployment, counts)

    def _replica_sets(self, deployment: Object) -> list[Object]:
        """The oldest first."""
        owned = []
        for replica_set in self._store.all("replicasets", namespace_of(deployment)):
            owner = controller_of(replica_set)
            if owner is not None and owner.get("uid") == deployment["metadata"]["uid"]:
                owned.append(replica_set)

        def age(replica_set: Object) -> tuple[int, str]:
            return _revision(replica_set), replica_set["metadata"]["creationTimestamp"]

        return sorted(owned, key=age)


def _revision(replica_set: Object) -> int:
    return int(annotations_of(replica_set).get(_REVISION) or 0)


def _hash_of(owner: Object) -> str:
    """A hash of a pod template, without the label that names such a hash."""
    template = copy.deepcopy(spec_of(owner).get("template") or {})
    labels = (template.get("metadata") or {}).get("labels") or {}
    labels.pop(_HASH, None)
    text = json.dumps(template, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH]
