"""Room in ResourceQuotas within one wave, where every evicted pod still counts beside its replacement."""

from __future__ import annotations

from collections import defaultdict

from rebalancer.cluster.pod_classes import PodClass
from rebalancer.planning.eviction.quotas import Quotas
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.scheduling.state.pod_classes import PodClasses


class WaveQuotas:
    """The replacements of one wave by namespace; the next wave begins when the evicted pods are gone."""

    def __init__(self, quotas: Quotas, classes: PodClasses) -> None:
        self._quotas = quotas
        self._classes = classes
        self._made: dict[str, list[PodClass]] = defaultdict(list)

    def copy(self) -> WaveQuotas:
        """An independent account."""
        other = self.of_next_wave()
        other._made.update({namespace: list(pods) for namespace, pods in self._made.items()})
        return other

    def of_next_wave(self) -> WaveQuotas:
        """An account of a wave that has made nothing yet."""
        return WaveQuotas(self._quotas, self._classes)

    def lacking(self, candidate: Candidate) -> str:
        """The quota without room for one more replacement in this wave; empty when all have."""
        if candidate.replaced_late:
            return ""
        pod = self._classes[candidate.replacement]
        return self._quotas.lacking(pod, self._made.get(pod.namespace, ()))

    def spend(self, candidate: Candidate) -> None:
        """Count a replacement that is made while its predecessor still counts."""
        if not candidate.replaced_late:
            pod = self._classes[candidate.replacement]
            self._made[pod.namespace].append(pod)
