"""Objects that could not be read, identified as far as possible: the nodes they run on are known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind

# The names the API server admits; anything else in a dump is hostile or broken (and would reach a terminal).
_NAME = re.compile(r"[a-z0-9A-Z]([-a-z0-9A-Z.:_]{0,251}[a-z0-9A-Z])?", re.ASCII)
_POSITION = re.compile(r"#\d{1,9}", re.ASCII)  # stands for the name of an object that has none
_MAX_REASON_LENGTH = 1000
_FINISHED_PHASES = ("Succeeded", "Failed")
_Value = TypeVar("_Value")
LISTED_TWICE = "listed twice; the newest one counts"
TWO_FIGURES = "listed twice with different figures; neither is used"  # metrics have no version
Encoded = msgspec.Raw | bytes | memoryview


class Malformed(msgspec.Struct, frozen=True):
    """An object that could not be read: which, where it runs if it is a pod, and why."""

    kind: str
    namespace: str
    name: str
    node_name: str
    reason: str

    def __str__(self) -> str:
        """One line naming the object and the reason."""
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {path}: {self.reason}"


def _as_far_as_it_goes(encoded: Encoded, kind: type[_Value]) -> _Value | None:
    try:
        return msgspec.json.decode(encoded, type=kind)
    except (ValueError, RecursionError):
        return None


def _fields(encoded: Encoded) -> dict[str, msgspec.Raw]:
    """The fields of an object, each still encoded; none where it is no object."""
    return _as_far_as_it_goes(encoded, dict[str, msgspec.Raw]) or {}


def admitted(name: str) -> bool:
    """Whether it is a name that Kubernetes admits."""
    return _NAME.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def _admitted_namespace(name: str) -> bool:
    return not name or admitted(name)


def check_names(namespace: str, name: str) -> None:
    """ValueError unless an object's name is one that Kubernetes admits, and its namespace too."""
    if not admitted(name):
        raise ValueError(f"metadata.name {name[:60]!a} is not a name Kubernetes admits")
    if not _admitted_namespace(namespace):
        raise ValueError(f"metadata.namespace {namespace[:60]!a} is not a name Kubernetes admits")


def describe(kind: Kind, encoded: Encoded, position: int, reason: str) -> Malformed:
    """Identify a malformed object as far as possible."""
    fields = _fields(encoded)
    metadata, spec, status = (_fields(fields.get(part, b"")) for part in ("metadata", "spec", "status"))

    def text(part: Mapping[str, msgspec.Raw], field: str) -> str | None:
        return _as_far_as_it_goes(part.get(field, b""), str)

    named = text(metadata, "name")  # stated: by a recording of it
    stated = text(fields, "malformed")
    name = _text(named, f"#{position}")
    if stated and len(stated) <= _MAX_REASON_LENGTH:
        reason = stated
        if named and _POSITION.fullmatch(named):
            name = named
    node_name = node_in_doubt(text(status, "phase"), _text(text(spec, "nodeName"), ""))
    return Malformed(kind.name, _text(text(metadata, "namespace"), ""), name, node_name, reason)


def node_in_doubt(phase: object, node_name: str) -> str:
    """The node of a pod that cannot be read; none where it has finished, and takes nothing of its node."""
    return "" if phase in _FINISHED_PHASES else node_name


def listed_twice(kind: Kind, record: records.ApiObject) -> Malformed:
    """The older version of an object that was listed twice."""
    metadata = record.metadata
    node = record.spec.node_name if isinstance(record, records.Pod) else ""
    reason = TWO_FIGURES if isinstance(record, records.NodeMetrics) else LISTED_TWICE
    return Malformed(kind.name, metadata.namespace, metadata.name, _text(node, ""), reason)


def _text(value: object, fallback: str) -> str:
    return value if isinstance(value, str) and admitted(value) else fallback
