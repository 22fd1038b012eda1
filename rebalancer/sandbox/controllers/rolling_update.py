"""The arithmetic of a rolling update: how many pods each ReplicaSet of a Deployment should have next.

The new ReplicaSet grows while all pods together are fewer than the replicas and maxSurge; the old ones shrink
while the available pods are more than the replicas without maxUnavailable:

    1 replica, maxSurge 25 % (1), maxUnavailable 25 % (0)
    old 1 available, new 0                   the new one grows to 1
    old 1 available, new 1 not available     nothing: one must stay available
    old 1 available, new 1 available         the old one shrinks to 0

Source: kubernetes v1.35.0 pkg/controller/deployment/rolling.go, and util/deployment_util.go,
ResolveFenceposts and NewRSNewReplicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalancer.sandbox.objects.accessors import Object, spec_of, status_of

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
        sizes, least = list(map(size_of, old)), self.replicas - self.unavailable
        new_unavailable = size_of(new) - _available(new)
        room = size_of(new) + sum(sizes) - least - new_unavailable
        for at, item in enumerate(old):
            ended = min(max(sizes[at] - _available(item), 0), max(room, 0))
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
