"""What every object carries, and the selectors that many do."""

from typing import Annotated

import msgspec

Labels = dict[str, str]
# The integers of the Kubernetes API: one that does not fit makes its object malformed, as it would in Go.
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The base of all records: immutable, camelCase on the wire, absent when default."""


class OwnerReference(Record, frozen=True):
    """metadata.ownerReferences[]."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Metadata(Record, frozen=True):
    """metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: list[OwnerReference] | None = None


class ApiObject(Record, frozen=True):
    """The base of the records of whole objects."""

    metadata: Metadata = Metadata()


class Requirement(Record, frozen=True):
    """One expression of a label selector or a node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Record, frozen=True):
    """A label selector: all of matchLabels and matchExpressions."""

    match_labels: Labels | None = None
    match_expressions: list[Requirement] | None = None


class ResourceRequirements(Record, frozen=True):
    """resources of a container, of a pod, or of a container's status."""

    requests: Labels | None = None
    limits: Labels | None = None


class Condition(Record, frozen=True):
    """status.conditions[]."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


def condition(conditions: list[Condition] | None, kind: str) -> Condition | None:
    """The first condition of a type, None when the object has none of it."""
    return next((candidate for candidate in conditions or () if candidate.type == kind), None)


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
