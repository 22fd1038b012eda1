"""Room in ResourceQuotas for a replacement that is made while the evicted pod still counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from rebalancer.cluster import quantities
from rebalancer.cluster.kinds import RESOURCE_QUOTAS
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import ResourceQuota
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling import pod_requests

_COUNTED = frozenset({"pods", "count/pods"})
_THOUSAND = Fraction(1000)


class Quotas:
    """The quotas of a cluster, by namespace. A quota with scopes counts as if it matched every pod."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.read = snapshot.has(RESOURCE_QUOTAS)
        self._by_namespace: dict[str, list[ResourceQuota]] = defaultdict(list)
        for item in snapshot.recording.records(RESOURCE_QUOTAS):
            if isinstance(item, ResourceQuota):
                self._by_namespace[item.metadata.namespace].append(item)

    def lacking(self, pod: PodClass, others: Sequence[PodClass] = ()) -> str:
        """Which quota has no room for one more pod of a class, and in what; empty when all have.

        ``others`` are pods of the same namespace that will be made at the same time.
        """
        for quota in self._by_namespace.get(pod.namespace, ()):
            hard = quota.status.hard or quota.spec.hard or {}
            used = quota.status.used or {}
            for resource in sorted(hard):
                try:
                    wanted = _wanted(pod, resource)
                    left = quantities.parse(hard[resource]) - quantities.parse(used.get(resource, "0"))
                    left -= sum((_wanted(other, resource) for other in others), Fraction(0))
                except ValueError:
                    return f"quota {quota.metadata.name} could not be read in {resource}"
                if wanted > left and wanted > 0:
                    beside = f", and this wave makes {len(others)} more beside it" if others else ""
                    return (
                        f"quota {quota.metadata.name} has no room for a second one in {resource}: "
                        f"{used.get(resource, '0')} of {hard[resource]} used{beside}"
                    )
        return ""

    def without_room(self, namespace: str, resource: str) -> str:
        """Which quota of a namespace admits no further object of a kind; empty when all do.

        ``resource`` is such as ``count/replicasets.apps``. A quota that could not be read admits none.
        """
        for quota in self._by_namespace.get(namespace, ()):
            hard = (quota.status.hard or quota.spec.hard or {}).get(resource)
            used = (quota.status.used or {}).get(resource, "0")
            try:
                full = hard is not None and quantities.parse(used) >= quantities.parse(hard)
            except ValueError:
                full = True
            if full:
                return f"quota {quota.metadata.name} has no room for another one in {resource}"
        return ""

    def room(self, pod: PodClass) -> tuple[int, str] | None:
        """How many more pods of a class the tightest quota admits, and which that is; None without one.

        A quota that could not be read admits none.
        """
        found: list[tuple[int, str]] = []
        for quota in self._by_namespace.get(pod.namespace, ()):
            hard = quota.status.hard or quota.spec.hard or {}
            used = quota.status.used or {}
            for resource in sorted(hard):
                try:
                    wanted = _wanted(pod, resource)
                    left = quantities.parse(hard[resource]) - quantities.parse(used.get(resource, "0"))
                except ValueError:
                    found.append((0, f"quota {quota.metadata.name} could not be read in {resource}"))
                    continue
                if wanted > 0:
                    words = f"{used.get(resource, '0')} of {hard[resource]} {resource} used"
                    found.append((max(int(left // wanted), 0), f"quota {quota.metadata.name}, {words}"))
        return min(found, default=None)


def _wanted(pod: PodClass, resource: str) -> Fraction:
    """What a pod counts for in a resource of a quota; 0 for what is not of pods."""
    if resource in _COUNTED:
        return Fraction(1)
    if resource.startswith("limits."):
        name = resource.removeprefix("limits.")
        return sum(
            (
                quantities.parse((item.resources.limits or {}).get(name, "0"))
                for item in pod.spec.containers or ()
                if item.resources
            ),
            Fraction(0),
        )
    name = resource.removeprefix("requests.")
    amount = Fraction(pod_requests(pod).incoming.get(name, 0))
    return amount / _THOUSAND if name == "cpu" else amount
