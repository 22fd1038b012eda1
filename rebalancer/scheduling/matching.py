"""Who selects whom: label selectors, affinity terms, what Services and controllers select, and tolerations.

Selectors and terms are kept in a form that makes equal ones one, and are indexed both ways.

Sources: kubernetes v1.34.4 pkg/scheduler/framework/plugins/interpodaffinity/filtering.go:274 (terms),
helper/spread.go:37 (``Owners``); k8s.io/api v0.34.4 core/v1/toleration.go:38 (``Tolerations``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import kinds, records
from rebalancer.cluster.pod_classes import BINDING_LABELS, GIVEN_SINCE_MINOR, PodClass
from rebalancer.cluster.selectors import LabelMatch, Pair, canonical
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.versions.release import Release

T = TypeVar("T", bound=Hashable)


NamespaceLabels = Mapping[str, Mapping[str, str]]
EVERYTHING = LabelMatch()
_NO_LABELS: Mapping[str, str] = {}
TEMPLATE_HASH = "pod-template-hash"  # which ReplicaSet of its Deployment a pod is of
_NEXT = "next"  # as the hash, and as the end of the name, of a ReplicaSet that is not there yet
# The controllers whose selectors count; a pod of any other has its Services' alone.
OWNER_KINDS: Mapping[tuple[str, str], kinds.KindOf[records.Workload]] = {
    ("apps/v1", "ReplicaSet"): kinds.REPLICA_SETS,
    ("apps/v1", "StatefulSet"): kinds.STATEFUL_SETS,
    ("v1", "ReplicationController"): kinds.REPLICATION_CONTROLLERS,
}


def label_match(selector: records.LabelSelector | None) -> LabelMatch | None:
    """A selector in canonical form; None, which matches nothing, for nil and for a malformed one."""
    if selector is None:
        return None
    try:
        return canonical(selector)
    except ValueError:
        return None


class PodSelector(msgspec.Struct, frozen=True):
    """Pods of some namespaces whose labels match."""

    namespaces: frozenset[str] | None  # None: of every namespace
    labels: LabelMatch | None  # None: nothing

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is selected."""
        if self.labels is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.labels.matches(labels)

    @property
    def places(self) -> Iterator[tuple[str | None, Pair | None]]:
        """Where an index files it: by namespace, and by one of the pairs every selected pod carries."""
        if self.labels is None:
            return
        pair = self.labels.pairs[0] if self.labels.pairs else None
        for namespace in (None,) if self.namespaces is None else sorted(self.namespaces):
            yield namespace, pair


class SelectorIndex(Generic[T]):
    """Finds the selectors that may select a pod without trying them all."""

    def __init__(self) -> None:
        self._filed: dict[tuple[str | None, Pair | None], dict[T, None]] = {}

    def add(self, selector: PodSelector, member: T) -> None:
        """File a member under its selector."""
        for place in selector.places:
            self._filed.setdefault(place, {})[member] = None

    def __len__(self) -> int:
        return len(self._filed)

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Items whose selector may select a pod: each once, in a fixed order."""
        if not self._filed:
            return
        seen: dict[T, None] = {}
        for where in (None, namespace):
            for pair in (None, *labels.items()):
                seen.update(self._filed.get((where, pair), {}))
        yield from seen


class ClassIndex:
    """Finds the pod classes that a selector may select without trying them all."""

    def __init__(self) -> None:
        self._filed: dict[tuple[str | None, Pair | None], list[int]] = {}

    def add(self, pod_class: int, namespace: str, labels: Mapping[str, str]) -> None:
        """File a class."""
        for where in (None, namespace):
            for pair in (None, *labels.items()):
                self._filed.setdefault((where, pair), []).append(pod_class)

    def candidates(self, selector: PodSelector) -> list[int]:
        """Classes that may be selected, ascending."""
        classes = {pod_class for place in selector.places for pod_class in self._filed.get(place, ())}
        return sorted(classes)


class TermKind(Enum):
    """Where in spec.affinity a term stands."""

    AFFINITY = "required affinity"
    ANTI_AFFINITY = "required anti-affinity"
    PREFERRED = "preferred affinity"
    PREFERRED_ANTI = "preferred anti-affinity"


class AffinityTerm(msgspec.Struct, frozen=True):
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

    def selector(self, namespaces: NamespaceLabels, *, matched_again: bool = True) -> PodSelector:
        """What the term of the incoming pod selects among the pods that are there.

        The scheduler expands a namespaceSelector into names. Where it is ``matched_again``, as in 1.34 and
        later, it is then matched against no labels at all: one that matches the absence of labels (NotIn,
        DoesNotExist) matches every namespace.
        """
        chosen = self.namespace_selector
        if chosen is None:
            return PodSelector(self.namespaces, self.labels)
        if chosen.is_empty or (matched_again and chosen.matches(_NO_LABELS)):
            return PodSelector(None, self.labels)
        expanded = {name for name, labels in namespaces.items() if chosen.matches(labels)}
        return PodSelector(self.namespaces | expanded, self.labels)


def _selector_with_keys(
    term: records.PodAffinityTerm, labels: Mapping[str, str]
) -> records.LabelSelector | None:
    """The term's selector as the API server stores it: matchLabelKeys and mismatchLabelKeys written out."""
    selector = term.label_selector
    added = [
        records.Requirement(key, operator, [labels[key]])
        for operator, keys in (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys))
        for key in keys or ()
        if key in labels
    ]
    present = [] if selector is None else selector.match_expressions or []
    added = [requirement for requirement in added if requirement not in present]
    if selector is None or not added:
        return selector
    return records.LabelSelector(selector.match_labels, [*present, *added])


def _term(kind: TermKind, term: records.PodAffinityTerm, pod: PodClass) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        kind,
        term.topology_key,
        frozenset((pod.namespace,) if own else term.namespaces or ()),
        label_match(term.namespace_selector),
        label_match(_selector_with_keys(term, pod.labels)),
    )


def _terms(
    required: TermKind, preferred: TermKind, affinity: records.PodAffinity | None, pod: PodClass
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


class Owners(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Services, and the selectors of controllers, from which the scheduler derives one selector for a pod."""

    services: tuple[records.Service, ...] = ()
    # By kind, namespace and name: its selector as it was read.
    controllers: Mapping[tuple[str, str, str], Any] = {}
    _matches: dict[tuple[str, str, str], LabelMatch | None] = {}  # computed so far

    @classmethod
    def of(cls, snapshot: Snapshot) -> Owners:
        """Those of a snapshot; none of a kind that was not read, which ``find_unpredictable`` reports."""
        controllers = {}
        for kind in OWNER_KINDS.values():
            for controller in snapshot.recording.records(kind):
                controllers[kind.name, controller.metadata.namespace, controller.metadata.name] = (
                    controller.spec.selector
                )
        return cls(tuple(snapshot.recording.records(kinds.SERVICES)), controllers)

    @cached_property
    def _services(self) -> SelectorIndex[tuple[PodSelector, tuple[Pair, ...]]]:
        index: SelectorIndex[tuple[PodSelector, tuple[Pair, ...]]] = SelectorIndex()
        for service in self.services:
            if service.spec.selector is not None:
                pairs = tuple(sorted(service.spec.selector.items()))
                selector = PodSelector(frozenset({service.metadata.namespace}), LabelMatch(pairs))
                index.add(selector, (selector, pairs))
        return index

    def next_revision(self, pod: PodClass) -> PodClass:
        """The class of the pod that a Deployment makes of a changed template: one of another ReplicaSet.

        Its hash is another one, in the pod's labels as in what the ReplicaSet selects, so that what looks for
        pods of the same revision finds none.
        """
        hashed = {TEMPLATE_HASH: _NEXT} if TEMPLATE_HASH in pod.labels else {}
        owner = replace(pod.owner, name=f"{pod.owner.name}/{_NEXT}", uid="")
        old = self._own(kinds.REPLICA_SETS, pod)
        if old is not None:
            pairs = tuple(sorted({**dict(old.pairs), **hashed}.items()))
            self._matches[kinds.REPLICA_SETS.name, pod.namespace, owner.name] = replace(old, pairs=pairs)
        return replace(pod, labels={**pod.labels, **hashed}, owner=owner)

    def derived(self, pod: PodClass) -> LabelMatch:
        """All that the Services selecting the pod and its controller require; empty when there is nothing."""
        required = LabelMatch()
        for selector, pairs in self._services.candidates(pod.namespace, pod.labels):
            if selector.matches(pod.namespace, pod.labels):
                required = required.also(pairs)
        kind = OWNER_KINDS.get((pod.owner.api_version, pod.owner.kind))
        own = self._own(kind, pod) if kind else None
        return required.and_also(own) if own is not None else required

    def derived_from_all(self, pod: PodClass) -> LabelMatch:
        """As ``derived``, of every controller that selects the pod, whichever owns it: up to 1.21.

        Source: kubernetes v1.20.15 pkg/scheduler/framework/plugins/helper/spread.go:29.
        """
        required = LabelMatch()
        for selector, pairs in self._services.candidates(pod.namespace, pod.labels):
            if selector.matches(pod.namespace, pod.labels):
                required = required.also(pairs)
        for kind in OWNER_KINDS.values():
            for name in self._names.get((kind.name, pod.namespace), ()):
                match = self._selected_by(kind, pod.namespace, name)
                if match is not None and not match.is_empty and match.matches(pod.labels):
                    required = required.and_also(match)
        return required

    @cached_property
    def _names(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """The names of the controllers by kind and namespace."""
        names: dict[tuple[str, str], list[str]] = {}
        for kind, namespace, name in self.controllers:
            names.setdefault((kind, namespace), []).append(name)
        return names

    def _own(self, kind: kinds.Kind, pod: PodClass) -> LabelMatch | None:
        """What the controller of a pod selects; None when it is not there or its selector is malformed."""
        return self._selected_by(kind, pod.namespace, pod.owner.name)

    def _selected_by(self, kind: kinds.Kind, namespace: str, name: str) -> LabelMatch | None:
        key = kind.name, namespace, name
        if key not in self._matches:
            self._matches[key] = _selector(kind, self.controllers[key]) if key in self.controllers else None
        return self._matches[key]


def _selector(kind: kinds.Kind, selector: Any) -> LabelMatch | None:
    """A ReplicationController's selector is a map, the others' a LabelSelector."""
    try:
        if kind is kinds.REPLICATION_CONTROLLERS:
            return LabelMatch(tuple(sorted(msgspec.convert(selector or {}, dict[str, str]).items())))
        return label_match(msgspec.convert(selector, records.LabelSelector | None))
    except msgspec.ValidationError:
        return None


class Tolerations:
    """The tolerations of a pod, by what a taint must have: however many they are, a taint is looked up once.

    An empty effect or key of a toleration stands for any; Exists ignores the value.
    """

    def __init__(self, tolerations: Iterable[records.Toleration] | None) -> None:
        self._of_any_value: set[tuple[str, str]] = set()  # (key, effect)
        self._of_one_value: set[tuple[str, str, str]] = set()  # (key, effect, value)
        for toleration in tolerations or ():
            if toleration.operator in ("", "Equal"):
                self._of_one_value.add((toleration.key, toleration.effect, toleration.value))
            elif toleration.operator == "Exists":
                self._of_any_value.add((toleration.key, toleration.effect))

    def tolerate(self, taint: records.Taint) -> bool:
        """Whether any of them tolerates the taint."""
        for key in (taint.key, ""):
            for effect in (taint.effect, ""):
                if (key, effect) in self._of_any_value or (key, effect, taint.value) in self._of_one_value:
                    return True
        return False


class BindingLabelReaders:
    """The selectors of a cluster that ask for labels which the API server gives a pod only when it is bound.

    The model places a replacement as it is created, without the zone and region that binding adds, and later
    replacements do not see them on it. Where no selector asks for these labels that makes no difference.
    Where one does, pods that carry it and pods that it may select, whatever their zone, are not predictable.

        a Service selects          app=web, topology.kubernetes.io/zone=a
        what it may select is then app=web, in any zone
    """

    def __init__(self, snapshot: Snapshot, release: Release) -> None:
        self._selectors: list[LabelMatch] = []
        if _are_given(snapshot, release):
            matches = {match for pod in snapshot.pods.classes for match in _selectors_of(pod)}
            matches.update(_selectors_of_services(snapshot))
            self._selectors = [_without_binding_labels(match) for match in matches if _asks(match)]

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
    for service in snapshot.recording.records(kinds.SERVICES):
        if service.spec.selector:
            yield LabelMatch(tuple(sorted(service.spec.selector.items())))


def _asks(match: LabelMatch) -> bool:
    keys = (*(key for key, _ in match.pairs), *(key for key, *_ in match.expressions))
    return not BINDING_LABELS.isdisjoint(keys)


def _without_binding_labels(match: LabelMatch) -> LabelMatch:
    return LabelMatch(
        tuple(pair for pair in match.pairs if pair[0] not in BINDING_LABELS),
        tuple(expression for expression in match.expressions if expression[0] not in BINDING_LABELS),
    )
