"""Recording a cluster with the documents a plan needs beside it, and describing what was recorded."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.kinds import BY_PLURAL, KINDS, METRICS, REQUIRED
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.recordings import writer as saving
from rebalancer.cluster.recordings.listing import Recording
from rebalancer.cluster.recordings.reader import DumpReader, read_bytes
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.load_watcher.client import fetch_watcher
from rebalancer.load.load_watcher.document import decode_watcher
from rebalancer.pipeline.configurations import ConfigurationText, configuration_text, load_with_plugins
from rebalancer.pipeline.recording_prometheus import prometheus_document
from rebalancer.policy import LoadedPolicy, LoadWatcherSource
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.reporting.tables.snapshot import (
    ABSENCE_MEANS,
    KindCount,
    RecordedDocument,
    SnapshotInfo,
    UnreadKind,
)
from rebalancer.state.run_state import decode as decode_state

CONFIGURATION, WATCHER, STATE, ABOUT = "scheduler-config.yaml", "watcher.json", "state.json", "recording.json"
_MAX_DOCUMENT_BYTES = 64 << 20
_UNKNOWN = "whatever depends on it is unknown"


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    """Files given by options, recorded instead of what the cluster or the policy says."""

    scheduler_config: Path | None = None
    watcher: Path | None = None
    state: Path | None = None


def documents_from_files(files: DocumentFiles) -> dict[str, bytes]:
    """The documents given as files; InputError when one cannot be read or is not what it should be."""
    documents: dict[str, bytes] = {}
    if files.watcher is not None:
        documents[WATCHER] = _checked(files.watcher, decode_watcher, "what load-watcher answers")
    if files.state is not None:
        documents[STATE] = read_bytes(files.state, _MAX_DOCUMENT_BYTES)
        decode_state(documents[STATE], str(files.state))
    return documents


def _checked(path: Path, decode: Callable[[bytes], object], what: str) -> bytes:
    content = read_bytes(path, _MAX_DOCUMENT_BYTES)
    try:
        decode(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not {what}: {error}", where=str(path)) from error
    return content


def policy_documents(
    loaded: LoadedPolicy, files: DocumentFiles, api: RawApi | None, warn: Callable[[str], None]
) -> dict[str, bytes]:
    """The scheduler's configuration and load-watcher's answer, as the policy says where they are.

    A load-watcher that does not answer is a warning: without its document its figures are unknown.
    """
    documents: dict[str, bytes] = {}
    configuration = configuration_text(loaded, files.scheduler_config, api)
    if configuration is not None:
        documents[CONFIGURATION] = configuration.text.encode()
    if api is None or files.watcher is not None:
        return documents
    addresses = _watcher_addresses(loaded, configuration, warn)
    if len(addresses) > 1:
        warn(f"several load-watchers are named; only {addresses[0]} is recorded")
    for address in addresses[:1]:
        try:
            documents[WATCHER] = fetch_watcher(api, address, inside="KUBERNETES_SERVICE_HOST" in os.environ)
        except RebalancerError as error:
            warn(f"load-watcher is not recorded: {error}")
    return documents


def _configuration(
    loaded: LoadedPolicy, documents: dict[str, bytes], where: str
) -> SchedulerConfiguration | None:
    """The recorded configuration; None where there is none that can be used."""
    try:
        text = documents[CONFIGURATION].decode()
        return load_with_plugins(loaded, ConfigurationText(text, where))
    except (KeyError, UnicodeDecodeError, InputError):
        return None


def _watcher_addresses(
    loaded: LoadedPolicy, configuration: ConfigurationText | None, warn: Callable[[str], None]
) -> list[str]:
    """The load-watchers that the policy and the scheduler's plugins read, each once, the policy's first."""
    found = [
        source.load_watcher.address
        for source in loaded.policy.load.sources
        if isinstance(source, LoadWatcherSource)
    ]
    if configuration is not None:
        try:
            parsed = load_with_plugins(loaded, configuration)
        except InputError as error:
            # A cluster is worth recording whatever its scheduler's configuration.
            warn(f"the scheduler's configuration is recorded, yet cannot be used: {error}")
            return found
        found += [
            str(getattr(arguments, "watcher_address", ""))
            for profile in parsed.profiles
            for arguments in profile.arguments.values()
        ]
    return [address for address in dict.fromkeys(found) if address]


def record_live(
    api: RawApi,
    clock: Callable[[], float],
    documents: dict[str, bytes],
    progress: Callable[[str], None],
    loaded: LoadedPolicy,
    warn: Callable[[str], None],
) -> Recording:
    """Read every kind of a live cluster, and what Prometheus says of it where policy or plugins ask it."""
    recording = LiveReader(api, clock).read(progress=progress)
    configuration = _configuration(loaded, documents, CONFIGURATION)
    answers = prometheus_document(recording, loaded, configuration, api, clock, warn)
    return dataclasses.replace(recording, documents={**documents, **answers})


def convert(
    source: Path, documents: dict[str, bytes], clock: Callable[[], float], progress: Callable[[str], None]
) -> tuple[Recording, float]:
    """Read a dump in order to record it again; and when it was recorded, which stays as it was."""
    recording = DumpReader(source).read(progress=progress)
    about = _about(recording)
    recorded_at = about.get("savedAt")
    if not isinstance(recorded_at, (int, float)):
        newest = _metric_times(recording)[-1:]
        recorded_at = newest[0] if newest else clock()
    return (
        dataclasses.replace(
            recording,
            source=str(about.get("source") or recording.source),
            documents={**recording.documents, **documents},
            unread={plural: _why_unread(about, plural, why) for plural, why in recording.unread.items()},
        ),
        float(recorded_at),
    )


def save(recording: Recording, folder: Path, now: float) -> None:
    """Write a recording into a new folder."""
    saving.save(recording, folder, now)


def describe(path: Path, progress: Callable[[str], None] = lambda _: None) -> SnapshotInfo:
    """What a recorded cluster holds; InputError when it is none."""
    read = DumpReader(path).read(progress=progress)
    about = _about(read)
    # What does not fit into columns is malformed too; without nodes and pods there are no columns.
    recording = build_snapshot(read).recording if all(map(read.has, REQUIRED)) else read
    moments = _metric_times(recording)
    saved_at = about.get("savedAt")
    recorded = float(saved_at) if isinstance(saved_at, (int, float)) else math.nan
    age = recorded - moments[-1] if moments and not math.isnan(recorded) else None
    return SnapshotInfo(
        source=str(path),
        inputs=saving.digest(recording),
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
                because=_why_unread(about, plural, why),
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


def _about(recording: Recording) -> dict[str, Any]:
    """Who recorded it, from where and when; empty for a dump made by kubectl."""
    try:
        about = msgspec.json.decode(recording.documents.get(ABOUT, b"{}"), type=dict[str, Any])
        if not 0 <= about.get("savedAt", 0) <= times.LATEST:
            raise ValueError("savedAt is no time")
        return about
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"not what snapshot save writes: {error}", where=f"{recording.source}/{ABOUT}"
        ) from error


def _why_unread(about: dict[str, Any], plural: str, otherwise: str) -> str:
    reasons = about.get("unread")
    return str(reasons.get(plural, otherwise)) if isinstance(reasons, dict) else otherwise


def _metric_times(recording: Recording) -> list[float]:
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
