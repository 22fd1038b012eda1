"""Where a pod asks to run: node and pod affinity, topology spread, taints and tolerations."""

from __future__ import annotations

import msgspec

from rebalancer.cluster.records.base import Int32, Int64, LabelSelector, Record, Requirement


class NodeSelectorTerm(Record, frozen=True):
    """One term of a node selector; its expressions are ANDed."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Record, frozen=True):
    """A node selector; its terms are ORed."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Record, frozen=True):
    """A node preference and its weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Record, frozen=True):
    """spec.affinity.nodeAffinity, and addedAffinity of the NodeAffinity plugin."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTerm(Record, frozen=True):
    """A required pod (anti-)affinity term."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Record, frozen=True):
    """A preferred pod (anti-)affinity term and its weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Record, frozen=True):
    """spec.affinity.podAffinity or podAntiAffinity."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Record, frozen=True):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Record, frozen=True):
    """spec.topologySpreadConstraints[]."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(Record, frozen=True):
    """spec.tolerations[]."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class Taint(Record, frozen=True):
    """spec.taints[] of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
