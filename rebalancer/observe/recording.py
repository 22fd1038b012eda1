"""What ``snapshot`` does: records a cluster with the documents a plan needs, and describes a recording."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rebalancer.cluster import records, times
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.streams import read_bytes
from rebalancer.cluster.dumps.writer import check_folder, digest, save
from rebalancer.cluster.kinds import BY_PLURAL, KINDS, METRICS, REQUIRED
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.plugin_sources import PluginSources, read_view, watcher_addresses
from rebalancer.load.prometheus.reader import PrometheusAccess, PrometheusReader, connection_of, live_access
from rebalancer.load.prometheus.responses import DOCUMENT
from rebalancer.load.scheduler_view import decode_watcher
from rebalancer.load.services import runs_in_a_cluster
from rebalancer.load.windows import MetricWindow
from rebalancer.observe.configuration import (
    ConfigurationText,
    configuration_text,
    load_with_plugins,
    scored_resources,
)
from rebalancer.observe.plan_options import PlanOptions, RecordingOptions
from rebalancer.observe.read import open_api, policy_of
from rebalancer.observe.state_location import known_state
from rebalancer.policy.load_sources import LoadWatcherSource, PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, measured_resources, pressure_resources
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.reporting.tables.snapshot import (
    ABSENCE_MEANS,
    KindCount,
    RecordedDocument,
    SnapshotInfo,
    UnreadKind,
)
from rebalancer.scheduling.registry import plugin_queries
from rebalancer.state.run_state import decode as decode_state
from rebalancer.state.run_state import encode as encode_state

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


# The documents that a plan needs beside the cluster: configuration, load-watcher's answer, state.


CONFIGURATION, WATCHER, STATE = "scheduler-config.yaml", "watcher.json", "state.json"
_MAX_DOCUMENT_BYTES = 64 << 20


def documents_from_files(options: RecordingOptions) -> dict[str, bytes]:
    """The documents that options give as files; InputError when one cannot be used."""
    documents: dict[str, bytes] = {}
    if options.watcher is not None:
        documents[WATCHER] = _checked(options.watcher, decode_watcher, "a load-watcher response")
    if options.state_path is not None:
        documents[STATE] = read_bytes(options.state_path, _MAX_DOCUMENT_BYTES)
        decode_state(documents[STATE], str(options.state_path))
    return documents


def state_document(options: RecordingOptions, api: RawApi | None) -> dict[str, bytes]:
    """The state of earlier runs where it is not given as a file; nothing when there is none."""
    if api is None or options.state_path is not None:
        return {}
    state = known_state(None, options.state_config_map, api)
    return {} if state is None else {STATE: encode_state(state)}


def _checked(path: Path, decode: Callable[[bytes], object], what: str) -> bytes:
    content = read_bytes(path, _MAX_DOCUMENT_BYTES)
    try:
        decode(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not {what}: {error}", where=str(path)) from error
    return content


def policy_documents(
    loaded: LoadedPolicy, options: RecordingOptions, api: RawApi | None, warn: Callable[[str], None]
) -> dict[str, bytes]:
    """The scheduler's configuration and load-watcher's answer, read from where the policy names them.

    A load-watcher that does not answer is a warning: without its document its figures are unknown.
    """
    documents: dict[str, bytes] = {}
    configuration = configuration_text(loaded, options.scheduler_config, api)
    if configuration is not None:
        documents[CONFIGURATION] = configuration.text.encode()
    if api is None or options.watcher is not None:
        return documents
    addresses = _watcher_addresses(loaded, configuration, warn)
    if len(addresses) > 1:
        warn(f"several load-watchers are named; only {addresses[0]} is recorded")
    for address in addresses[:1]:
        from rebalancer.load.services import fetch_watcher  # noqa: PLC0415 - imports urllib3

        try:
            documents[WATCHER] = fetch_watcher(api, address, inside=runs_in_a_cluster())
        except RebalancerError as error:
            warn(f"load-watcher is not recorded: {error}")
    return documents


def recorded_configuration(
    loaded: LoadedPolicy, documents: dict[str, bytes]
) -> SchedulerConfiguration | None:
    """The recorded configuration; None where there is none that can be used."""
    try:
        text = documents[CONFIGURATION].decode()
        return load_with_plugins(loaded, ConfigurationText(text, CONFIGURATION))
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
            warn(f"the scheduler's configuration is recorded, but cannot be used: {error}")
            return found
        found += [
            str(getattr(arguments, "watcher_address", ""))
            for profile in parsed.profiles
            for arguments in profile.arguments.values()
        ]
    return [address for address in dict.fromkeys(found) if address]


# Records what Prometheus answers beside a cluster, so that the same figures can be read offline.


def prometheus_document(
    recording: Recording,
    loaded: LoadedPolicy,
    configuration: SchedulerConfiguration | None,
    api: RawApi,
    clock: Callable[[], float],
    warn: Callable[[str], None],
) -> dict[str, bytes]:
    """The answers to every question that a plan with this policy and configuration asks."""
    now, inside = clock(), runs_in_a_cluster()
    access = live_access(api, now, now, inside=inside)
    snapshot = build_snapshot(recording)
    scored = scored_resources(loaded.policy, configuration) if configuration is not None else ()
    for warning in _read_sources(snapshot, loaded, scored, access, now):
        warn(warning)
    if configuration is not None and _asks_prometheus(configuration):
        queries = plugin_queries(configuration)
        read_view(PluginSources(snapshot, configuration, (), queries, api, access, inside, now))
    book = access.book
    return {DOCUMENT: book.encode()} if book.answers or book.failures else {}


def _asks_prometheus(configuration: SchedulerConfiguration) -> bool:
    providers = watcher_addresses(configuration).values()
    built_in = any(provider is not None and provider.type == "Prometheus" for provider in providers)
    return built_in or bool(plugin_queries(configuration))


def _read_sources(
    snapshot: Snapshot, loaded: LoadedPolicy, scored: tuple[str, ...], access: PrometheusAccess, now: float
) -> list[str]:
    """Ask what the policy's sources ask; a warning for each question without an answer."""
    settings = loaded.policy.load
    warnings: list[str] = []
    for source in settings.sources:
        if not isinstance(source, PrometheusSource):
            continue
        try:
            reader = PrometheusReader(
                settings=source.prometheus,
                ask=access.asking(connection_of(source.prometheus)),
                nodes=snapshot.nodes,
                pods=snapshot.pods,
                now=now,
                window=MetricWindow.of_policy(settings.window, settings.statistic),
                resources=measured_resources(loaded.policy, scored),
                signals=settings.signals,
                pressure=pressure_resources(loaded.policy),
                asked_at=now,
            )
            warnings += reader.node_figures().warnings
            reader.pod_figures()
        except RebalancerError as error:
            warnings.append(f"prometheus is not recorded: {error}")
    return warnings


# What a recorded cluster holds, what it lacks, and what the lack means for a plan.


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


# Reads a cluster in order to record it: a live one with its documents, or a dump that kubectl printed.


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


__all__ = ["describe_recording", "record_cluster"]


def record_cluster(
    options: RecordingOptions, progress: Callable[[str], None], warn: Callable[[str], None]
) -> SnapshotInfo:
    """Record a cluster into a new folder, and describe what the folder holds.

    Raises InputError when a file that was given cannot be used or the folder holds something.
    """
    check_folder(options.folder)  # before the cluster is read, which takes time
    source = PlanOptions(
        policy_path=options.policy_path,
        source=options.source,
        kubeconfig=options.kubeconfig,
        context=options.context,
        request_seconds=options.request_seconds,
    )
    loaded = policy_of(source)
    documents = documents_from_files(options)
    api = open_api(source)
    documents |= state_document(options, api)
    documents |= policy_documents(loaded, options, api, warn)
    if api is not None:
        recording = record_live(api, time.time, documents, progress, loaded, warn)
        now = time.time()
    else:
        assert options.source is not None
        recording, now = convert(options.source, documents, time.time, progress, options.max_dump_bytes)
    save(recording, options.folder, now)
    return describe_recording(options.folder, max_bytes=options.max_dump_bytes)
