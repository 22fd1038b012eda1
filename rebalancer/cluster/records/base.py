"""What every object carries, and the selectors that many do."""

from __future__ import annotations

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


def metadata_of(record: Record) -> Metadata:
    """The metadata of an object; only for records of whole objects, which all have it."""
    metadata: Metadata = record.metadata  # type: ignore[attr-defined] # parts of objects are records, too
    return metadata


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
    return next((item for item in conditions or () if item.type == kind), None)
