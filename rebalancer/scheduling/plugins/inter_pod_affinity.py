"""InterPodAffinity: pods that want to be near other pods or away from them.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/interpodaffinity/filtering.go:412, scoring.go:240.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec
import numpy as np
from pydantic import Field

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.kinds import NAMESPACES, Kind
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import PodAffinity
from rebalancer.profiles.types import Arguments, ExtensionPoint, extension_points, inputs_of
from rebalancer.scheduling.framework.plugin import (
    MAX_SCORE,
    PASS,
    SKIP,
    Enabled,
    Evidence,
    Normalization,
    ObjectsRead,
    Plugin,
    PluginInputs,
    PreFilter,
)
from rebalancer.scheduling.matching import AffinityTerm, NamespaceLabels, TermKind, terms_of
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.counters import MatchingPods, PodsWithTerm
from rebalancer.scheduling.versions.rules import (
    AFFINITY_RANGE_WITH_ZERO,
    IDLE_SCORES,
    KEPT_NAMESPACE_SELECTOR,
    OLD_AFFINITY_REASON,
    OLD_NODE_REASONS,
)

_FAR_FROM_WANTED = 1
_NEAR_UNWANTED = 2
_UNWANTED_HERE = 3


class InterPodAffinityArguments(Arguments):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = Field(default=1, ge=0, le=100)
    ignore_preferred_terms_of_existing_pods: bool = False


class CountedTerm(msgspec.Struct, frozen=True):
    """A counter by a topology key, and how much each of its pods adds to a score."""

    key: str
    counter: int
    weight: int = 1


class Required(msgspec.Struct, frozen=True):
    """What decides whether a class may be on a node."""

    affinity: Sequence[CountedTerm]  # of the pods that match all required terms, by the key of each
    matches_itself: bool
    anti_affinity: Sequence[CountedTerm]
    existing: Sequence[CountedTerm]  # of the pods whose anti-affinity matches the class, a count a key


_NOTHING_REQUIRED = Required((), False, (), ())


def _own(pod: PodClass) -> list[PodAffinity]:
    """The affinity and the anti-affinity of a class, where it has them."""
    affinity = pod.spec.affinity
    if not affinity:
        return []
    return [side for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if side]


class InterPodAffinity(Plugin):
    """Required terms reject nodes, those of the pod and those of pods already there; preferred terms score.

    Scores depend on the feasible nodes through their extremes alone, so they are exact in samples too.
    """

    name = "InterPodAffinity"
    needs_pre_filter = True
    needs_pre_score = True
    points = extension_points("preFilter filter preScore score")
    Arguments = InterPodAffinityArguments
    inputs = inputs_of(NAMESPACES)
    evidence = Evidence.DECISIONS
    normalization = Normalization.RANGE
    is_in_range = True
    reasons = {
        _FAR_FROM_WANTED: "node(s) didn't match pod affinity rules",
        _NEAR_UNWANTED: "node(s) didn't match pod anti-affinity rules",
        _UNWANTED_HERE: "node(s) didn't satisfy existing pods anti-affinity rules",
    }

    @classmethod
    def make(cls, arguments: InterPodAffinityArguments, inputs: PluginInputs) -> Self:
        with_zero = inputs.release.has(AFFINITY_RANGE_WITH_ZERO)
        return cls(arguments, inputs.namespaces, range_with_zero=with_zero)

    @classmethod
    def needs(cls, pod: PodClass, enabled: Enabled, objects: ObjectsRead) -> Iterable[Kind]:
        """Namespaces, if a term of the pod or one of another pod that may match it selects them by labels."""
        if objects.has(NAMESPACES):
            return ()
        if any(term.selects_namespaces for term, _ in terms_of(pod)):
            return (NAMESPACES,)
        others = objects.namespace_selecting_terms
        matched = any(term.labels is not None and term.labels.matches(pod.labels) for term in others)
        return (NAMESPACES,) if matched else ()

    def __init__(
        self,
        arguments: InterPodAffinityArguments,
        namespaces: NamespaceLabels,
        *,
        range_with_zero: bool = False,
    ) -> None:
        """``namespaces`` are the labels by name of the namespaces there are."""
        self.range_with_zero = range_with_zero
        self._arguments = arguments
        self._namespaces = namespaces

    def _matching(self, state: ClusterState, pod_class: int, kind: TermKind) -> list[AffinityTerm]:
        """The terms any class carries that match a pod of this one."""
        pod = state.classes[pod_class]
        candidates = state.classes.counters.terms[kind].candidates(pod.namespace, pod.labels)
        return [term for term in candidates if term.selects(pod.namespace, pod.labels, self._namespaces)]

    def required(self, state: ClusterState, pod_class: int) -> Required:
        """What rejects nodes for a class."""
        number_of_classes = state.classes.counters.catch_up()
        if not number_of_classes:
            return _NOTHING_REQUIRED
        # Classes that are added later may bring terms that match this one.
        key = ("required", number_of_classes)
        return state.classes.cached(pod_class, self, key, lambda: self._find_required(state, pod_class))

    def _find_required(self, state: ClusterState, pod_class: int) -> Required:
        pod = state.classes[pod_class]
        book = state.classes.counters
        matched_again = state.classes.release.has(KEPT_NAMESPACE_SELECTOR)
        own = [term for term, _ in terms_of(pod)]
        affinity = [term for term in own if term.kind is TermKind.AFFINITY]
        selectors = tuple(term.selector(self._namespaces, matched_again=matched_again) for term in affinity)
        everyone = book.number(MatchingPods(selectors, terminating=True)) if affinity else -1
        return Required(
            affinity=[CountedTerm(term.topology_key, everyone) for term in affinity],
            matches_itself=all(selector.matches(pod.namespace, pod.labels) for selector in selectors),
            anti_affinity=[
                self._selected(state, term) for term in own if term.kind is TermKind.ANTI_AFFINITY
            ],
            existing=self._carrying(state, pod_class, TermKind.ANTI_AFFINITY),
        )

    def _selected(self, state: ClusterState, term: AffinityTerm, weight: int = 1) -> CountedTerm:
        """Of the pods that a term of the pod selects."""
        matched_again = state.classes.release.has(KEPT_NAMESPACE_SELECTOR)
        selected = MatchingPods(
            (term.selector(self._namespaces, matched_again=matched_again),), terminating=True
        )
        return CountedTerm(term.topology_key, state.classes.counters.number(selected), weight)

    def _carrying(
        self, state: ClusterState, pod_class: int, kind: TermKind, weight: int = 1
    ) -> list[CountedTerm]:
        """Of the pods that carry terms of a kind which match a class, a count a key."""
        by_key: dict[str, list[tuple[AffinityTerm, int]]] = {}
        for term in self._matching(state, pod_class, kind):
            by_key.setdefault(term.topology_key, []).append((term, 1))
        number = state.classes.counters.number
        return [
            CountedTerm(topology_key, number(PodsWithTerm(frozenset(terms))), weight)
            for topology_key, terms in by_key.items()
        ]

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        """Nothing to filter when neither side requires anything."""
        required = self.required(state, pod_class)
        if required.affinity or required.anti_affinity:
            return PASS
        unwanted = any(state.counter(count.counter, count.key).any() for count in required.existing)
        return PASS if unwanted else SKIP

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """In this order: the pod's affinity, its anti-affinity, the anti-affinity of pods that are there."""
        required = self.required(state, pod_class)
        labels = state.nodes.labels
        codes = np.zeros(len(state.nodes), np.int64)
        for kind, counts in ((_UNWANTED_HERE, required.existing), (_NEAR_UNWANTED, required.anti_affinity)):
            for count in counts:
                occupied = state.counter(count.counter, count.key) > 0
                if occupied.any():
                    codes[occupied[labels.column(count.key).values]] = kind
        if required.affinity:
            self._reject_far(state, required, codes)
        return codes

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        release = state.classes.release
        if release.has(OLD_NODE_REASONS):
            return f"node(s) didn't match pod affinity/anti-affinity, {self.reasons[code]}"
        if release.has(OLD_AFFINITY_REASON):
            return f"node(s) didn't match pod affinity/anti-affinity rules, {self.reasons[code]}"
        return self.reasons[code]

    def _reject_far(self, state: ClusterState, required: Required, codes: IntArray) -> None:
        """The first pod of a group, which only itself would match, needs no more than the keys."""
        labels = state.nodes.labels
        counted = [(count.key, state.counter(count.counter, count.key) > 0) for count in required.affinity]
        first = required.matches_itself and not any(occupied.any() for _, occupied in counted)
        for key, occupied in counted:
            values = labels.column(key).values
            codes[values < 0 if first else ~occupied[values]] = _FAR_FROM_WANTED

    def scored(self, state: ClusterState, pod_class: int) -> Sequence[CountedTerm]:
        """What adds to the scores of nodes for a class."""
        number_of_classes = state.classes.counters.catch_up()
        if not number_of_classes:
            return ()
        key = ("scored", number_of_classes)
        return state.classes.cached(pod_class, self, key, lambda: self._find_scored(state, pod_class))

    def _find_scored(self, state: ClusterState, pod_class: int) -> Sequence[CountedTerm]:
        """What counts for the score: the pod's preferences, and the wishes of pods that are there."""
        counts: list[CountedTerm] = []
        for term, weight in terms_of(state.classes[pod_class]):
            if term.kind in (TermKind.PREFERRED, TermKind.PREFERRED_ANTI):
                sign = 1 if term.kind is TermKind.PREFERRED else -1
                counts.append(self._selected(state, term, sign * weight))
        if self._arguments.ignore_preferred_terms_of_existing_pods and not counts:
            return ()
        signs: Mapping[TermKind, int] = {
            TermKind.AFFINITY: self._arguments.hard_pod_affinity_weight,
            TermKind.PREFERRED: 1,
            TermKind.PREFERRED_ANTI: -1,
        }
        for kind, factor in signs.items():
            counts += self._carrying(state, pod_class, kind, factor) if factor else ()
        return counts

    def is_static(self, point: ExtensionPoint, state: ClusterState, pod_class: int) -> bool:
        """It scores no class that has no preferences and that no preference of others selects."""
        return point is ExtensionPoint.SCORE and not self.scored(state, pod_class)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """Σ over the keys of what is recorded at the node's value; skipped when nothing is recorded."""
        by_key: dict[str, IntArray] = {}
        for count in self.scored(state, pod_class):
            pods = state.counter(count.counter, count.key)
            if pods.any():
                weighted = pods * count.weight
                counted = by_key.get(count.key)
                by_key[count.key] = weighted if counted is None else weighted + counted
        if not by_key:
            return np.zeros(len(feasible), np.int64) if state.classes.release.has(IDLE_SCORES) else None
        total = np.zeros(len(feasible), np.int64)
        for key, values in by_key.items():
            total += values[state.nodes.labels.column(key).values[feasible]]
        return total

    def concerns(self, state: ClusterState, pod_class: int) -> bool:
        """Those that require something of others, and those that others require to keep away."""
        state.classes.counters.catch_up()
        if any(side.required for side in _own(state.classes[pod_class])):
            return True
        unwanted = len(state.classes.counters.terms[TermKind.ANTI_AFFINITY])
        return bool(unwanted and self._matching(state, pod_class, TermKind.ANTI_AFFINITY))

    def may_reject(self, state: ClusterState, pod_class: int, nodes: IntArray) -> BoolArray:
        """The pod itself is taken off its own domains; the first of a group is taken for one too far off."""
        required = self.required(state, pod_class)
        doubtful = np.zeros(len(nodes), np.bool_)
        labels = state.nodes.labels
        if required is _NOTHING_REQUIRED:
            return doubtful
        own = {entry.counter: entry.weight for entry in state.classes.counters.entries(pod_class)}
        unwanted = (*required.anti_affinity, *required.existing)
        for counts, must_be_occupied in ((required.affinity, True), (unwanted, False)):
            for count in counts:
                others = state.counter(count.counter, count.key, keep=False) - own.get(count.counter, 0)
                occupied: BoolArray = (others > 0)[labels.column(count.key).values[nodes]]
                doubtful |= occupied != must_be_occupied
        return doubtful

    def preferring(self, state: ClusterState) -> Iterable[int]:
        for kind, pod in enumerate(state.classes):
            if any(side.preferred for side in _own(pod)):
                yield kind

    def may_score_higher(self, state: ClusterState, pod_class: int, nodes: IntArray) -> BoolArray:
        """The pod itself is taken off its own domains; others of them gain what it cost them at most."""
        counts = self.scored(state, pod_class)  # which makes the entries
        own = {entry.counter: entry.weight for entry in state.classes.counters.entries(pod_class)}
        by_key = dict[str, IntArray]()
        gained = 0
        lacks = np.zeros(len(nodes), np.bool_)
        total = np.zeros(len(nodes), np.int64)  # without itself
        for count in counts:
            part = own.get(count.counter, 0) * count.weight
            counted = state.counter(count.counter, count.key, keep=False) * count.weight
            total -= part
            by_key[count.key] = by_key[count.key] + counted if count.key in by_key else counted
            if len(state.nodes.labels.column(count.key).names) < len(state.nodes):
                gained += max(0, -part)  # else no other node is in its domain
        for key, counted in by_key.items():
            column = state.nodes.labels.column(key)
            domains = column.values[nodes]
            total += counted[domains]
            lacks |= domains < 0
            # The last cell is for nodes without the key; the best node may be the best by every key.
            gained += int(counted[: len(counted) - (column.count == len(column.values))].max())
        higher: BoolArray = total < gained
        return higher | lacks

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """trunc(100·((raw − min)/(max − min))); all 0 when they are the same."""
        if self.range_with_zero:
            smallest = min(smallest, 0)
            largest = max(largest, 0)
        if largest <= smallest:
            return np.zeros_like(raw)
        share: FloatArray = (raw - smallest) / float(largest - smallest)
        return (float(MAX_SCORE) * share).astype(np.int64)
