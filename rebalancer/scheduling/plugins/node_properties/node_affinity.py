"""NodeAffinity: nodeSelector, required and preferred node affinity.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go:206, :260.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec
import numpy as np
from pydantic import model_validator

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.records import NodeAffinity as NodeAffinityRecord
from rebalancer.cluster.records import NodeSelector, PodSpec, PreferredSchedulingTerm
from rebalancer.profiles.types import Arguments, extension_points
from rebalancer.scheduling.framework.plugin import (
    PASS,
    Evidence,
    Normalization,
    Plugin,
    PreFilter,
    normalize_by_maximum,
)
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.nodes import NodeLabels
from rebalancer.scheduling.versions.rules import (
    CONFLICT_OF_EACH_TERM,
    IDLE_ZEROS,
    NAMED_CANDIDATES,
    OLD_NODE_REASONS,
    PREFERENCES_ARE_PREPARED,
)

_ENFORCED = 1
_POD = 2
_NO_NODES = NodeLabels((), ())


def _affinity(spec: PodSpec) -> NodeAffinityRecord | None:
    return spec.affinity.node_affinity if spec.affinity else None


def required_by_pod(state: ClusterState, spec: PodSpec) -> BoolArray:
    """(nodes,) nodes that match the pod's nodeSelector and its required node affinity."""
    matched = np.ones(len(state.nodes), np.bool_)
    for key, value in (spec.node_selector or {}).items():
        matched &= state.nodes.labels.equal(key, value)
    affinity = _affinity(spec)
    if affinity and affinity.required:
        matched &= state.nodes.labels.selector(affinity.required)
    return matched


def _named_nodes(selector: NodeSelector, *, each_conflicts: bool) -> frozenset[str] | None:
    """The nodes a selector is limited to by name: only when each of its terms names some.

    ``each_conflicts``: none, as soon as one term names different nodes at once.
    """
    union: set[str] = set()
    for term in selector.node_selector_terms or ():
        named: set[str] | None = None
        for field in term.match_fields or ():
            if field.key == "metadata.name" and field.operator == "In":
                values = set(field.values or ())
                named = values if named is None else named & values
        if named is None:
            return None
        if each_conflicts and not named:
            return frozenset()
        union |= named
    return frozenset(union) if selector.node_selector_terms else None


class NodeAffinityArguments(Arguments):
    """Arguments of NodeAffinity; ``added_affinity`` is a plain ``nodeAffinity`` object."""

    added_affinity: Mapping[str, Any] | None = None

    @model_validator(mode="after")
    def _known_keys(self) -> Self:
        kinds = ("required", "preferred")
        expected = {f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in kinds}
        unknown = next((key for key in self.added_affinity or {} if key not in expected), None)
        if unknown is not None:
            raise ValueError(
                f"addedAffinity: unknown field {unknown}; it has {' and '.join(sorted(expected))}"
            )
        self._check_terms()
        return self

    def _check_terms(self) -> None:
        """Refuse what the scheduler refuses to start with (validation_pluginargs.go:242)."""
        added = self.as_record()
        required = added.required.node_selector_terms if added.required else None
        preferred = [term.preference for term in added.preferred or () if term.weight and term.preference]
        for kind, terms in (("required", required or ()), ("preferred", preferred)):
            for number, term in enumerate(terms):
                try:
                    _NO_NODES.parsed_term(term)
                except ValueError as error:
                    raise ValueError(f"addedAffinity: {kind} term {number}: {error}") from error

    def as_record(self) -> NodeAffinityRecord:
        """The affinity that every pod of the profile is given. Raises ValueError when it is none."""
        try:
            return msgspec.convert(self.added_affinity or {}, NodeAffinityRecord)
        except msgspec.ValidationError as error:
            raise ValueError(f"addedAffinity: {error}") from error


class NodeAffinity(Plugin):
    """Nodes must match what the pod and the profile require; matching preferences add their weights."""

    name = "NodeAffinity"
    points = extension_points("preFilter filter preScore score")
    Arguments = NodeAffinityArguments
    prepares_score_by = PREFERENCES_ARE_PREPARED
    evidence = Evidence.DECISIONS
    normalization = Normalization.MAXIMUM
    static = True
    reasons = {
        _ENFORCED: "node(s) didn't match scheduler-enforced node affinity",
        _POD: "node(s) didn't match Pod's node affinity/selector",
    }

    def __init__(self, arguments: NodeAffinityArguments) -> None:
        self._added = arguments.as_record()

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        """If every term of the required affinity names nodes, the search is limited to those."""
        affinity = _affinity(state.classes[pod_class].spec)
        release = state.classes.release
        if affinity is None or affinity.required is None or not release.has(NAMED_CANDIDATES):
            return PASS
        named = _named_nodes(affinity.required, each_conflicts=release.has(CONFLICT_OF_EACH_TERM))
        if named is None:
            return PASS
        if not named:
            return PreFilter(rejected="pod affinity terms conflict")
        return PreFilter(restricted_to=np.array([name in named for name in state.nodes.names], np.bool_))

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 where the profile's, 2 where the pod's requirements are not met."""
        codes = np.zeros(len(state.nodes), np.int64)
        codes[~required_by_pod(state, state.classes[pod_class].spec)] = _POD
        if self._added.required:
            codes[~state.nodes.labels.selector(self._added.required)] = _ENFORCED
        return codes

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        if code == _POD and state.classes.release.has(OLD_NODE_REASONS):
            return "node(s) didn't match Pod's node affinity"
        return self.reasons[code]

    def concerns(self, state: ClusterState, pod_class: int) -> bool:
        """Those that require anything, and all where the profile does."""
        spec = state.classes[pod_class].spec
        return bool(self._added.required or spec.node_selector or _affinity(spec))

    def preferring(self, state: ClusterState) -> Iterable[int]:
        affinities = enumerate(_affinity(pod.spec) for pod in state.classes)
        return [kind for kind, affinity in affinities if affinity and affinity.preferred]

    def may_score_higher(self, state: ClusterState, pod_class: int, nodes: IntArray) -> BoolArray:
        """By the weights of its preferences, which no other pod has a part in."""
        every = np.arange(len(state.nodes))
        raw = None if self.fails(state, pod_class, every) else self.raw_scores(state, pod_class, every)
        return np.zeros(len(nodes), np.bool_) if raw is None else raw[nodes] < raw.max()

    def fails(self, state: ClusterState, pod_class: int, feasible: IntArray) -> str:
        """A preference that does not parse fails the cycle, where a required term would match nothing."""
        affinity = _affinity(state.classes[pod_class].spec)
        if affinity is None or not affinity.preferred:
            return ""
        preferred = affinity.preferred

        def complaint() -> str:
            for term in preferred:
                if term.weight and term.preference:
                    try:
                        state.nodes.labels.parsed_term(term.preference)
                    except ValueError as error:
                        return f"a preferred node affinity does not parse: {error}"
            return ""

        return state.classes.cached(pod_class, self, "preferences", complaint)

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """The sum of the weights of the matching preferences; skipped when there are none at all."""
        affinity = _affinity(state.classes[pod_class].spec)
        own: list[PreferredSchedulingTerm] = (affinity.preferred if affinity else None) or []
        if not own and not self._added.preferred and not state.classes.release.has(IDLE_ZEROS):
            return None
        total = np.zeros(len(state.nodes), np.int64)
        for term in (*own, *(self._added.preferred or ())):
            if term.weight and term.preference:
                total += term.weight * state.nodes.labels.term(term.preference)
        return total[feasible]

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        return normalize_by_maximum(raw, largest)
