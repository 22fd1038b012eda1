"""Records a cluster with what plans need of it, and describes what a recording holds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from rebalancer import files
from rebalancer.cluster import times
from rebalancer.cluster.dumps.listing import CONFIGURATIONS, Recording
from rebalancer.cluster.dumps.streams import read_bytes
from rebalancer.cluster.dumps.writer import ABOUT, check_folder, digest, save
from rebalancer.cluster.kinds import BY_PLURAL, KINDS, REQUIRED
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from rebalancer.load.raw_figures import WATCHER
from rebalancer.load.scheduler_view import decode_watcher
from rebalancer.observe.configuration import configuration_texts
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import known_state, observe
from rebalancer.observe.recorded import (
    CONFIGURATION,
    STATE,
    about_recording,
    documents_of,
    metric_times,
    unread_of,
)
from rebalancer.observe.timeline import Timeline, is_timeline, read_recording
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.reporting.tables.snapshot import (
    ABSENCE_MEANS,
    KindCount,
    RecordedDocument,
    SnapshotInfo,
    UnreadKind,
)
from rebalancer.state.run_state import decode as decode_state

_UNKNOWN = "whatever depends on it is unknown"
_MAX_DOCUMENT_BYTES = 64 << 20


def record_cluster(
    options: PlanOptions, folder: Path, watcher: Path | None, warn: Callable[[str], None]
) -> SnapshotInfo:
    """Record a cluster, or a dump that kubectl printed, into a new folder, and describe what that holds.

    ``watcher`` is a file with load-watcher's response, recorded instead of what it answers. Raises InputError
    when a file that was given cannot be used or the folder holds something.
    """
    check_folder(folder)  # first: reading the cluster takes time
    loaded = policy_of(options)
    given = _given_documents(options, watcher)
    api = open_api(options)
    if api is None:
        recording, recorded_at = _recorded_again(options, loaded, given)
    else:
        state = known_state(options, api) if options.state_path is None else None
        observation = observe(
            options,
            (loaded,),
            api,
            watcher=given.get(WATCHER),
            unusable=lambda error: warn(
                # A cluster is worth recording whatever its scheduler's configuration.
                f"the scheduler's configuration is recorded, but cannot be used: {error}"
            ),
        )
        failures = observation.figures.prometheus.failures
        asked = [
            f"prometheus is not recorded: {why}"
            for of_address in failures.values()
            for why in of_address.values()
        ]
        watchers = [f"load-watcher is not recorded: {why}" for why in observation.figures.missing.values()]
        for text in dict.fromkeys((*watchers, *asked)):
            warn(text)
        documents = documents_of(observation, state) | given
        recording = replace(observation.snapshot.recording, documents=documents)
        recorded_at = time.time()
    save(recording, folder, recorded_at)
    return describe_recording(folder, max_bytes=options.max_dump_bytes)


def _given_documents(options: PlanOptions, watcher: Path | None) -> dict[str, bytes]:
    """The documents that options give as files; InputError when one cannot be used."""
    documents: dict[str, bytes] = {}
    if watcher is not None:
        documents[WATCHER] = read_bytes(watcher, _MAX_DOCUMENT_BYTES)
        try:
            decode_watcher(documents[WATCHER])
        except (ValueError, RecursionError) as error:
            raise InputError(f"not a load-watcher response: {error}", where=str(watcher)) from error
    if options.state_path is not None:
        documents[STATE] = read_bytes(options.state_path, _MAX_DOCUMENT_BYTES)
        decode_state(documents[STATE], str(options.state_path))
    return documents


def _recorded_again(
    options: PlanOptions, loaded: LoadedPolicy, documents: dict[str, bytes]
) -> tuple[Recording, float]:
    """A dump with the documents that are given now; and when it was recorded, which stays as it was."""
    assert options.source is not None
    texts = configuration_texts(loaded, options.scheduler_config).values()
    given = [written for written in texts if written is not None]
    for name, written in zip(CONFIGURATIONS, given, strict=False):
        documents = {**documents, name: written.text.encode()}
    recording = read_recording(options.source, options.at, options.max_dump_bytes, options.progress)
    about = about_recording(recording)
    recorded_at = about.get("savedAt")
    if not isinstance(recorded_at, (int, float)):
        recorded_at = next(iter(metric_times(recording)[-1:]), time.time())
    return (
        replace(
            recording,
            source=str(about.get("source") or recording.source),
            documents={**recording.documents, **documents},
            unread=unread_of(recording),
        ),
        float(recorded_at),
    )


_DEFAULTS = (
    f"no {CONFIGURATION}: the scheduler's defaults are assumed, and pods that name another scheduler stay"
)


def describe_recording(
    path: Path,
    progress: Callable[[str], None] = lambda _: None,
    max_bytes: int | None = None,
    at: float | None = None,
) -> SnapshotInfo:
    """What a recorded cluster holds; InputError when there is none."""
    read = read_recording(path, at, max_bytes, progress)
    timeline = Timeline.open(path).moments() if is_timeline(path) else ()
    about = about_recording(read)
    # What does not fit into columns is malformed too; without nodes and pods there are no columns.
    recording = build_snapshot(read).recording if all(map(read.has, REQUIRED)) else read
    moments = metric_times(recording)
    saved_at = about.get("savedAt")
    recorded = float(saved_at) if isinstance(saved_at, (int, float)) else math.nan
    age = recorded - moments[-1] if moments and not math.isnan(recorded) else None
    return SnapshotInfo(
        source=files.named(path),
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
            UnreadKind(plural=plural, because=why, means=ABSENCE_MEANS.get(plural, _UNKNOWN))
            for plural, why in unread_of(recording).items()
            if plural in BY_PLURAL
        ),
        malformed=tuple(
            str(malformed) for listing in recording.listings.values() for malformed in listing.malformed
        ),
        documents=tuple(
            RecordedDocument(name=name, size_bytes=len(content))
            for name, content in sorted(recording.documents.items())
            if name != ABOUT
        ),
        warnings=recording.warnings
        if recording.documents.get(CONFIGURATION)
        else (*recording.warnings, _DEFAULTS),
        moments=max(len(timeline), 1),
        first_moment=times.render(timeline[0]) if timeline else "",
        last_moment=times.render(timeline[-1]) if timeline else "",
        recorded_from=str(about.get("source") or ""),
        recorded_at="" if math.isnan(recorded) else times.render(recorded),
        newest_metric=times.render(moments[-1]) if moments else "",
        oldest_metric=times.render(moments[0]) if moments else "",
        metrics_age_seconds=age,
    )
