"""NodeAffinity: nodeSelector, required and preferred node affinity.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go:206, :260.
"""

from __future__ import annotations

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.records import NodeAffinity as NodeAffinityRecord
from rebalancer.cluster.records import NodeSelector, PodSpec, PreferredSchedulingTerm
from rebalancer.profiles.arguments import NodeAffinityArguments
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import (
    PASS,
    Normalization,
    Plugin,
    PreFilter,
    normalize_by_maximum,
)
from rebalancer.scheduling.state.cluster_state import ClusterState

_ENFORCED, _POD = 1, 2


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


def _named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """The nodes a selector is limited to by name: only when each of its terms names some."""
    union: set[str] = set()
    for term in selector.node_selector_terms or ():
        named: set[str] | None = None
        for field in term.match_fields or ():
            if field.key == "metadata.name" and field.operator == "In":
                values = set(field.values or ())
                named = values if named is None else named & values
        if named is None:
            return None
        union |= named
    return frozenset(union) if selector.node_selector_terms else None


class NodeAffinity(Plugin):
    """Nodes must match what the pod and the profile require; matching preferences add their weights."""

    name = "NodeAffinity"
    points = frozenset(
        {ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE}
    )
    normalization = Normalization.MAXIMUM
    static = True

    def __init__(self, arguments: NodeAffinityArguments) -> None:
        added = arguments.added_affinity
        self._added = msgspec.convert(added, NodeAffinityRecord) if added else NodeAffinityRecord()

    def pre_filter(self, state: ClusterState, class_index: int) -> PreFilter:
        """A required affinity of which every term names nodes limits the search to them."""
        affinity = _affinity(state.facts.classes[class_index].spec)
        named = _named_nodes(affinity.required) if affinity and affinity.required else None
        if named is None:
            return PASS
        if not named:
            return PreFilter(rejected="pod affinity terms conflict")
        return PreFilter(restricted_to=np.array([name in named for name in state.nodes.names], np.bool_))

    def filter(self, state: ClusterState, class_index: int) -> IntArray:
        """1 where the profile's, 2 where the pod's requirements are not met."""
        codes = np.zeros(len(state.nodes), np.int64)
        codes[~required_by_pod(state, state.facts.classes[class_index].spec)] = _POD
        if self._added.required:
            codes[~state.nodes.labels.selector(self._added.required)] = _ENFORCED
        return codes

    def reason(self, state: ClusterState, class_index: int, code: int) -> str:
        """The scheduler's words."""
        if code == _ENFORCED:
            return "node(s) didn't match scheduler-enforced node affinity"
        return "node(s) didn't match Pod's node affinity/selector"

    def raw_scores(self, state: ClusterState, class_index: int, feasible: IntArray) -> IntArray | None:
        """The sum of the weights of the matching preferences; skipped when there are none at all."""
        affinity = _affinity(state.facts.classes[class_index].spec)
        own: list[PreferredSchedulingTerm] = (affinity.preferred if affinity else None) or []
        if not own and not self._added.preferred:
            return None
        total = np.zeros(len(state.nodes), np.int64)
        for term in (*own, *(self._added.preferred or ())):
            if term.weight and term.preference:
                total += term.weight * state.nodes.labels.term(term.preference)
        return total[feasible]

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """Relative to the best node."""
        return normalize_by_maximum(raw, largest)
