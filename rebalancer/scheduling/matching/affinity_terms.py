"""The pod (anti-)affinity terms of pod classes and their carriers.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/interpodaffinity/filtering.go:274.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.records import LabelSelector, PodAffinity, PodAffinityTerm, Requirement
from rebalancer.cluster.selectors import LabelMatch
from rebalancer.scheduling.matching.label_selectors import PodSelector, label_match

NamespaceLabels = Mapping[str, Mapping[str, str]]
_NO_LABELS: Mapping[str, str] = {}


class TermKind(Enum):
    """Where in spec.affinity a term stands."""

    AFFINITY = "required affinity"
    ANTI_AFFINITY = "required anti-affinity"
    PREFERRED = "preferred affinity"
    PREFERRED_ANTI = "preferred anti-affinity"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One term in canonical form: equal terms of different classes are one."""

    kind: TermKind
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelMatch | None  # None: no namespace
    labels: LabelMatch | None  # None: no pod

    def selects(self, namespace: str, labels: Mapping[str, str], namespaces: NamespaceLabels) -> bool:
        """Whether the term of a pod that is there already matches an incoming one."""
        named = namespace in self.namespaces or (
            self.namespace_selector is not None
            and self.namespace_selector.matches(namespaces.get(namespace, _NO_LABELS))
        )
        return named and self.labels is not None and self.labels.matches(labels)

    @property
    def selects_namespaces(self) -> bool:
        """Whether it selects namespaces by their labels, rather than by name or all of them."""
        return self.namespace_selector is not None and not self.namespace_selector.is_empty

    def filed_as(self) -> PodSelector:
        """A selector that selects at least what the term does, for an index."""
        return PodSelector(None if self.namespace_selector is not None else self.namespaces, self.labels)

    def selector(self, namespaces: NamespaceLabels, *, kept: bool = True) -> PodSelector:
        """What the term of the incoming pod selects among the pods that are there.

        The scheduler expands a namespaceSelector into names. If it is ``kept`` all the same, as in 1.34 and
        later, it is then matched against no labels at all: one that matches the absence of labels (NotIn,
        DoesNotExist) matches every namespace.
        """
        chosen = self.namespace_selector
        if chosen is None:
            return PodSelector(self.namespaces, self.labels)
        if chosen.is_empty or (kept and chosen.matches(_NO_LABELS)):
            return PodSelector(None, self.labels)
        expanded = {name for name, labels in namespaces.items() if chosen.matches(labels)}
        return PodSelector(self.namespaces | expanded, self.labels)


def _selector_with_keys(term: PodAffinityTerm, labels: Mapping[str, str]) -> LabelSelector | None:
    """The term's selector as the API server stores it: matchLabelKeys and mismatchLabelKeys written out."""
    selector = term.label_selector
    added = [
        Requirement(key, operator, [labels[key]])
        for operator, keys in (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys))
        for key in keys or ()
        if key in labels
    ]
    present = [] if selector is None else selector.match_expressions or []
    added = [item for item in added if item not in present]
    if selector is None or not added:
        return selector
    return LabelSelector(selector.match_labels, [*present, *added])


def _term(kind: TermKind, term: PodAffinityTerm, pod: PodClass) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        kind,
        term.topology_key,
        frozenset((pod.namespace,) if own else term.namespaces or ()),
        label_match(term.namespace_selector),
        label_match(_selector_with_keys(term, pod.labels)),
    )


def _terms(
    required: TermKind, preferred: TermKind, affinity: PodAffinity | None, pod: PodClass
) -> Iterator[tuple[AffinityTerm, int]]:
    if affinity is None:
        return
    for term in affinity.required or ():
        yield _term(required, term, pod), 1
    for weighted in affinity.preferred or ():
        if weighted.pod_affinity_term is not None and weighted.weight:
            yield _term(preferred, weighted.pod_affinity_term, pod), weighted.weight


def terms_of(pod: PodClass) -> tuple[tuple[AffinityTerm, int], ...]:
    """The terms of a class with their weights; required ones weigh 1."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    return (
        *_terms(TermKind.AFFINITY, TermKind.PREFERRED, affinity.pod_affinity, pod),
        *_terms(TermKind.ANTI_AFFINITY, TermKind.PREFERRED_ANTI, affinity.pod_anti_affinity, pod),
    )
