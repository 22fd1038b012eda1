"""What a recorded cluster contains, and what a plan made from it cannot know."""

from __future__ import annotations

from rich.text import Text

from rebalancer.counting import counted
from rebalancer.planning.plan import API_VERSION, Value
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain

_MAX_MALFORMED = 5

# What a plan lacks without a kind. A kind that was not read is unknown, never empty.
ABSENCE_MEANS: dict[str, str] = {
    "nodes": "no plan can be made",
    "pods": "no plan can be made",
    "poddisruptionbudgets": "every pod may have a budget: all are protected",
    "replicasets": "pods of ReplicaSets are protected: what their replacements look like is unknown",
    "statefulsets": "pods of StatefulSets are protected: what their replacements look like is unknown",
    "deployments": "pods of Deployments are protected: whether a rollout is in progress is unknown",
    "jobs": "pods of Jobs are protected: what their replacements look like is unknown",
    "replicationcontrollers": "their pods are protected: what their replacements look like is unknown",
    "namespaces": "pods of a live cluster are protected: their namespace may be ending",
    "priorityclasses": "pods that name one, and all of a live cluster, are protected: priorities may change",
    "runtimeclasses": "pods that name one are unpredictable, unless a sibling shows what admission adds",
    "deviceclasses": "pods that request extended resources are unpredictable, from scheduler 1.36 on",
    "services": "default topology spreading of pods behind services is unpredictable",
    "persistentvolumeclaims": "pods with claims are unpredictable: where their volumes are is unknown",
    "persistentvolumes": "pods with claims are unpredictable: where their volumes are is unknown",
    "storageclasses": "pods with unbound claims are unpredictable: the binding mode is unknown",
    "csinodes": "pods with volumes are unpredictable: how many a node can attach is unknown",
    "csidrivers": "pods with unbound claims are unpredictable: whether capacity counts is unknown",
    "csistoragecapacities": "pods with unbound claims are unpredictable: where there is capacity is unknown",
    "volumeattachments": "pods with volumes are unpredictable: what is attached where is unknown",
    "horizontalpodautoscalers": "pods of workloads are protected: an autoscaler may be scaling them",
    "verticalpodautoscalers": "pods of workloads are protected: replacements may have other requests",
    "evictionrequests": "pods are protected: somebody else may be evicting them",
    "evictions": "pods are protected: somebody else may be evicting them",
    "cronjobs": "a run refuses to act: another descheduler may be one",
    "resourcequotas": "pods are protected: there may be no room for a replacement beside them",
    "limitranges": "pods of a live cluster are protected: one may change or refuse replacements",
    "nodemetrics": "no load from the Metrics API: node loads need another source",
    "podmetrics": "what a pod uses is not measured, only estimated from its requests",
}


class KindCount(Value, frozen=True):
    """One kind that was read."""

    plural: str
    count: int
    malformed: int
    resource_version: str


class UnreadKind(Value, frozen=True):
    """One kind that was not read: why, and what that means for a plan."""

    plural: str
    because: str
    means: str


class RecordedDocument(Value, frozen=True):
    """A recorded document that is not a list of objects, such as the scheduler's configuration."""

    name: str
    size_bytes: int


class SnapshotInfo(Value, frozen=True):
    """The description of a recorded cluster; times are in RFC 3339, empty when unknown."""

    source: str
    inputs: str  # digest of what was recorded
    kinds: tuple[KindCount, ...]
    unread: tuple[UnreadKind, ...]
    malformed: tuple[str, ...]
    documents: tuple[RecordedDocument, ...]
    warnings: tuple[str, ...] = ()
    moments: int = 1  # of a timeline; what is described is one of them
    first_moment: str = ""  # empty where it is no timeline
    last_moment: str = ""
    recorded_from: str = ""
    recorded_at: str = ""
    newest_metric: str = ""
    oldest_metric: str = ""
    metrics_age_seconds: float | None = None  # of the newest, when the cluster was recorded
    api_version: str = API_VERSION
    kind: str = "SnapshotInfo"


def snapshot_table(info: SnapshotInfo, style: Style = Style()) -> Text:
    """The description as text."""
    lines = Lines(style)
    lines.headline("Snapshot: ", info.source)
    if info.recorded_at:
        lines.labelled("recorded ", f"{info.recorded_at} from {info.recorded_from or '?'}")
    if info.first_moment:
        span = f"{counted(info.moments, 'moment')} from {info.first_moment} to {info.last_moment}"
        lines.labelled("timeline ", f"{span}; --at chooses one, by default the last")
    lines.labelled("digest   ", info.inputs)
    lines.labelled("metrics  ", _metrics(info))
    lines.heading("KINDS")
    columns = [
        Column("KIND", lambda kind: kind.plural),
        Column("OBJECTS", lambda kind: f"{kind.count:,}", right=True),
        Column("MALFORMED", lambda kind: (str(kind.malformed or ""), "yellow"), right=True),
        Column("VERSION", lambda kind: (plain(kind.resource_version), "dim"), right=True),
    ]
    write_table(
        lines,
        columns if any(kind.malformed for kind in info.kinds) else columns[:2] + columns[3:],
        info.kinds,
    )
    unread = [f"{kind.plural} ({kind.because}): {kind.means}" for kind in info.unread]
    note = f"{counted(len(unread), 'kind')}, treated as unknown, not as empty"
    lines.listed("NOT READ", unread, note=note)
    if info.documents:
        lines.heading("DOCUMENTS")
        name = Column("NAME", lambda document: plain(document.name))
        size = Column("BYTES", lambda document: f"{document.size_bytes:,}", right=True)
        write_table(lines, [name, size], info.documents)
    malformed = "pods on their nodes are protected"
    lines.listed("MALFORMED", info.malformed, note=malformed, max_rows=_MAX_MALFORMED, noun="object")
    lines.listed("WARNINGS", info.warnings)
    return lines.text


def _metrics(info: SnapshotInfo) -> str:
    if not info.newest_metric:
        return "none"
    age = info.metrics_age_seconds
    times = f"newest {info.newest_metric}"
    if info.oldest_metric != info.newest_metric:
        times += f", oldest {info.oldest_metric}"
    return times if age is None else f"{times}, {max(round(age), 0)} s old when recorded"
