"""Persistent volume claims of pods: their storage class, and whether one node alone may mount them."""

from __future__ import annotations

from collections.abc import Iterator

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.records import PersistentVolumeClaim
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling import claim_names, claims_by_name

_SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class PersistentVolumeClaims:
    """The claims of a cluster, by namespace and name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._claims = claims_by_name(snapshot)

    def of(self, pod: PodClass) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
        """Name and record of each claim a pod uses; None where it was not read."""
        for name in claim_names(pod.spec):
            yield name, self._claims.get((pod.namespace, name))


def is_shared(claim: PersistentVolumeClaim) -> bool:
    """Whether pods on several nodes may mount it at once."""
    return bool(_SHARED_MODES & set(claim.spec.access_modes or ()))
