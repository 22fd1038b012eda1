"""Reads a cluster in order to record it: a live one with its documents, or a dump that kubectl printed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.pipeline.recording.description import about_recording, metric_times, why_unread
from rebalancer.pipeline.recording.documents import recorded_configuration
from rebalancer.pipeline.recording.prometheus import prometheus_document
from rebalancer.policy import LoadedPolicy

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


def record_live(
    api: RawApi,
    clock: Callable[[], float],
    documents: dict[str, bytes],
    progress: Callable[[str], None],
    loaded: LoadedPolicy,
    warn: Callable[[str], None],
) -> Recording:
    """Read every kind of a live cluster, and what Prometheus answers where the policy or plugins ask it."""
    from rebalancer.cluster.live.reader import LiveReader  # noqa: PLC0415 - imports kubernetes

    recording = LiveReader(api, clock).read(progress=progress)
    configuration = recorded_configuration(loaded, documents)
    answers = prometheus_document(recording, loaded, configuration, api, clock, warn)
    return dataclasses.replace(recording, documents={**documents, **answers})


def convert(
    source: Path,
    documents: dict[str, bytes],
    clock: Callable[[], float],
    progress: Callable[[str], None],
    max_bytes: int | None = None,
) -> tuple[Recording, float]:
    """Read a dump in order to record it again; and when it was recorded, which stays as it was."""
    recording = DumpReader(source, max_bytes).read(progress=progress)
    about = about_recording(recording)
    recorded_at = about.get("savedAt")
    if not isinstance(recorded_at, (int, float)):
        newest = metric_times(recording)[-1:]
        recorded_at = newest[0] if newest else clock()
    return (
        dataclasses.replace(
            recording,
            source=str(about.get("source") or recording.source),
            documents={**recording.documents, **documents},
            unread={plural: why_unread(about, plural, why) for plural, why in recording.unread.items()},
        ),
        float(recorded_at),
    )
