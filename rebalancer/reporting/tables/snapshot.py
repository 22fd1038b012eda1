"""What a recorded cluster holds, and what the absence of a kind means for a plan made from it."""

from __future__ import annotations

import msgspec
from rich.text import Text

from rebalancer.planning.plan import API_VERSION
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, plain, words

_MAX_MALFORMED = 5

# What a plan cannot know without a kind. Unknown is never taken for empty.
ABSENCE_MEANS: dict[str, str] = {
    "nodes": "no plan can be made",
    "pods": "no plan can be made",
    "poddisruptionbudgets": "every pod may have a budget: all are protected",
    "replicasets": "pods of ReplicaSets are protected: what would come back is unknown",
    "statefulsets": "pods of StatefulSets are protected: what would come back is unknown",
    "deployments": "pods of Deployments are protected: whether one is in the middle of a rollout is unknown",
    "jobs": "pods of Jobs are protected: what would come back is unknown",
    "replicationcontrollers": "pods of ReplicationControllers are protected: what would come back is unknown",
    "namespaces": "pods whose inter-pod affinity selects namespaces by label are unpredictable",
    "priorityclasses": "pods that name one are protected: the priority of a replacement is unknown",
    "services": "default topology spreading of pods behind services is unpredictable",
    "persistentvolumeclaims": "pods with claims are unpredictable: where their volumes are is unknown",
    "persistentvolumes": "pods with claims are unpredictable: where their volumes are is unknown",
    "storageclasses": "pods with unbound claims are unpredictable: when they are bound is unknown",
    "csinodes": "pods with volumes are unpredictable: how many a node takes is unknown",
    "csidrivers": "pods with unbound claims are unpredictable: whether capacity counts is unknown",
    "csistoragecapacities": "pods with unbound claims are unpredictable: where there is room is unknown",
    "volumeattachments": "pods with volumes are unpredictable: what is attached where is unknown",
    "horizontalpodautoscalers": "pods of workloads are protected: one may be scaled just now",
    "verticalpodautoscalers": "pods of workloads are protected: replacements may have other requests",
    "resourcequotas": "pods are protected: there may be no room for a replacement beside them",
    "nodemetrics": "no load from the Metrics API: nodes are known only by another source",
    "podmetrics": "what a pod uses is unknown: its share of a node's load cannot be told",
}


class KindCount(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One kind that was read."""

    plural: str
    count: int
    malformed: int
    resource_version: str


class UnreadKind(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One kind that was not read: why, and what follows."""

    plural: str
    because: str
    means: str


class RecordedDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A document beside the kinds."""

    name: str
    size_bytes: int


class SnapshotInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A recorded cluster described; times in RFC 3339, empty when unknown."""

    source: str
    inputs: str  # digest of what was recorded
    kinds: tuple[KindCount, ...]
    unread: tuple[UnreadKind, ...]
    malformed: tuple[str, ...]
    documents: tuple[RecordedDocument, ...]
    warnings: tuple[str, ...] = ()
    recorded_from: str = ""
    recorded_at: str = ""
    newest_metric: str = ""
    oldest_metric: str = ""
    metrics_age_seconds: float | None = None  # of the newest, when the cluster was recorded
    api_version: str = API_VERSION
    kind: str = "SnapshotInfo"


def snapshot_table(info: SnapshotInfo, style: Style = Style()) -> Text:  # noqa: B008 - a frozen value
    """The description as text."""
    lines = Lines(style)
    lines.add(("Snapshot: ", "bold"), (words(info.source), "bold"))
    if info.recorded_at:
        lines.add(("recorded ", "dim"), plain(info.recorded_at), " from ", words(info.recorded_from) or "?")
    lines.add(("digest   ", "dim"), info.inputs)
    lines.add(("metrics  ", "dim"), _metrics(info))
    lines.heading("KINDS")
    width = max((len(kind.plural) for kind in info.kinds), default=0)
    for kind in info.kinds:
        malformed = f"  {kind.malformed} malformed" if kind.malformed else ""
        version = f"  version {plain(kind.resource_version)}" if kind.resource_version else ""
        lines.add(f"  {kind.plural.ljust(width)} {kind.count:8d}", (malformed, "yellow"), (version, "dim"))
    _unread(lines, info)
    if info.documents:
        lines.heading("DOCUMENTS")
        for document in info.documents:
            lines.add(f"  {plain(document.name)}  ", (f"{document.size_bytes} bytes", "dim"))
    if info.malformed:
        shown = info.malformed[: lines.shown(len(info.malformed), _MAX_MALFORMED)]
        lines.heading("MALFORMED", "pods on their nodes are protected")
        for item in shown:
            lines.message(item, 2, "yellow")
        lines.more(len(info.malformed) - len(shown), "object")
    if info.warnings:
        lines.heading("WARNINGS")
        for warning in info.warnings:
            lines.message(warning, 2, "yellow")
    return lines.text


def _unread(lines: Lines, info: SnapshotInfo) -> None:
    if not info.unread:
        return
    lines.heading("NOT READ", f"{counted(len(info.unread), 'kind')}, unknown rather than empty")
    for kind in info.unread:
        lines.message(f"{kind.plural} ({kind.because}): {kind.means}", 2, "yellow")


def _metrics(info: SnapshotInfo) -> str:
    if not info.newest_metric:
        return "none"
    age = info.metrics_age_seconds
    said = f"newest of {info.newest_metric}"
    if info.oldest_metric != info.newest_metric:
        said += f", oldest of {info.oldest_metric}"
    return said if age is None else f"{said}, {age:.0f} s old when recorded"
