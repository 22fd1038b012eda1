"""What a recorded cluster holds, what it lacks, and what the lack means for a plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest
from rebalancer.cluster.kinds import BY_PLURAL, KINDS, METRICS, REQUIRED
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from rebalancer.reporting.tables.snapshot import (
    ABSENCE_MEANS,
    KindCount,
    RecordedDocument,
    SnapshotInfo,
    UnreadKind,
)

ABOUT = "recording.json"
_UNKNOWN = "whatever depends on it is unknown"


def describe_recording(
    path: Path, progress: Callable[[str], None] = lambda _: None, max_bytes: int | None = None
) -> SnapshotInfo:
    """What a recorded cluster holds; InputError when there is none."""
    read = DumpReader(path, max_bytes).read(progress=progress)
    about = about_recording(read)
    # What does not fit into columns is malformed too; without nodes and pods there are no columns.
    recording = build_snapshot(read).recording if all(map(read.has, REQUIRED)) else read
    moments = metric_times(recording)
    saved_at = about.get("savedAt")
    recorded = float(saved_at) if isinstance(saved_at, (int, float)) else math.nan
    age = recorded - moments[-1] if moments and not math.isnan(recorded) else None
    return SnapshotInfo(
        source=str(path),
        inputs=digest(recording),
        kinds=tuple(
            KindCount(
                plural=kind.plural,
                count=len(recording.listings[kind.plural]),
                malformed=len(recording.listings[kind.plural].malformed),
                resource_version=recording.listings[kind.plural].resource_version,
            )
            for kind in KINDS
            if recording.has(kind)
        ),
        unread=tuple(
            UnreadKind(
                plural=plural,
                because=why_unread(about, plural, why),
                means=ABSENCE_MEANS.get(plural, _UNKNOWN),
            )
            for plural, why in recording.unread.items()
            if plural in BY_PLURAL
        ),
        malformed=tuple(str(item) for listing in recording.listings.values() for item in listing.malformed),
        documents=tuple(
            RecordedDocument(name=name, size_bytes=len(content))
            for name, content in sorted(recording.documents.items())
            if name != ABOUT
        ),
        warnings=recording.warnings,
        recorded_from=str(about.get("source") or ""),
        recorded_at="" if math.isnan(recorded) else times.render(recorded),
        newest_metric=times.render(moments[-1]) if moments else "",
        oldest_metric=times.render(moments[0]) if moments else "",
        metrics_age_seconds=age,
    )


def about_recording(recording: Recording) -> dict[str, Any]:
    """Who recorded it, from where and when; empty for a dump made by kubectl."""
    try:
        about = msgspec.json.decode(recording.documents.get(ABOUT, b"{}"), type=dict[str, Any])
        if not 0 <= about.get("savedAt", 0) <= times.LATEST:
            raise ValueError("savedAt is not a time")
        return about
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"not what snapshot save writes: {error}", where=f"{recording.source}/{ABOUT}"
        ) from error


def why_unread(about: dict[str, Any], plural: str, otherwise: str) -> str:
    """Why a kind was not read: as the recording states it, else ``otherwise``."""
    reasons = about.get("unread")
    return str(reasons.get(plural, otherwise)) if isinstance(reasons, dict) else otherwise


def metric_times(recording: Recording) -> list[float]:
    """When the recorded metrics were taken, in order."""
    moments: set[float] = set()
    for kind in METRICS:
        for item in recording.records(kind):
            if isinstance(item, (records.NodeMetrics, records.PodMetrics)):
                try:
                    moments.add(times.parse(item.timestamp))
                except ValueError:
                    continue
    return sorted(moments)
