"""Which pods are placed by labels that the API server gives a pod only when it is bound.

The model places a replacement as it is created, without the zone and region that binding adds, and later
replacements do not see them on it. Where no selector asks for these labels that makes no difference. Where
one does, pods that carry it and pods that it may select, whatever their zone, are not predictable.

    a Service selects          app=web, topology.kubernetes.io/zone=a
    what it may select is then app=web, in any zone
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalancer.cluster.columns.binding_labels import BINDING_LABELS, GIVEN_SINCE_MINOR
from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.kinds import SERVICES
from rebalancer.cluster.records import Service
from rebalancer.cluster.selectors import LabelMatch
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.matching.affinity_terms import terms_of
from rebalancer.scheduling.matching.label_selectors import label_match
from rebalancer.scheduling.versions import Release


class BindingLabelReaders:
    """The selectors of a cluster that ask for labels which binding adds."""

    def __init__(self, snapshot: Snapshot, release: Release) -> None:
        self._selectors: list[LabelMatch] = []
        if _are_given(snapshot, release):
            found = {match for pod in snapshot.pods.classes for match in _selectors_of(pod)}
            found.update(_selectors_of_services(snapshot))
            self._selectors = [_without_binding_labels(match) for match in found if _asks(match)]

    def concerns(self, pod: PodClass) -> bool:
        """Whether such a selector, or what it selects, takes part in placing pods of a class."""
        return bool(self._selectors) and (
            any(_asks(match) for match in _selectors_of(pod))
            or any(match.matches(pod.labels) for match in self._selectors)
        )


def _are_given(snapshot: Snapshot, release: Release) -> bool:
    """Whether the API server gives pods such labels, by its version or by the pods that have them."""
    if snapshot.pods.class_before_binding:
        return True
    labelled = any(
        not BINDING_LABELS.isdisjoint(node.metadata.labels or {}) for node in snapshot.nodes.records
    )
    return labelled and release.minor >= GIVEN_SINCE_MINOR


def _selectors_of(pod: PodClass) -> Iterator[LabelMatch]:
    """The selectors over labels of pods that a pod carries."""
    for term, _ in terms_of(pod):
        if term.labels is not None:
            yield term.labels
    for constraint in pod.spec.topology_spread_constraints or ():
        match = label_match(constraint.label_selector) or LabelMatch()
        yield match.also((key, pod.labels.get(key, "")) for key in constraint.match_label_keys or ())


def _selectors_of_services(snapshot: Snapshot) -> Iterator[LabelMatch]:
    """Services count where a profile spreads pods by default."""
    items: Sequence[object] = snapshot.recording.records(SERVICES) if snapshot.has(SERVICES) else ()
    for item in items:
        if isinstance(item, Service) and item.spec.selector:
            yield LabelMatch(tuple(sorted(item.spec.selector.items())))


def _asks(match: LabelMatch) -> bool:
    keys = (*(key for key, _ in match.pairs), *(key for key, *_ in match.expressions))
    return not BINDING_LABELS.isdisjoint(keys)


def _without_binding_labels(match: LabelMatch) -> LabelMatch:
    return LabelMatch(
        tuple(pair for pair in match.pairs if pair[0] not in BINDING_LABELS),
        tuple(item for item in match.expressions if item[0] not in BINDING_LABELS),
    )
