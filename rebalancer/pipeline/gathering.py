"""Gathers everything a plan is a function of, from a live cluster or a recorded one."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster import records, times
from rebalancer.cluster.columns.nodes import FloatArray
from rebalancer.cluster.kinds import NODE_METRICS, POD_METRICS
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live import open_api as open_live_api
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.recordings.listing import Recording
from rebalancer.cluster.recordings.reader import DumpReader
from rebalancer.cluster.recordings.writer import digest
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError
from rebalancer.load.load_watcher.client import service_of
from rebalancer.load.prometheus.access import live_access, recorded_access
from rebalancer.load.prometheus.answers import DOCUMENT as PROMETHEUS
from rebalancer.load.prometheus.answers import AnswerBook, decode_book
from rebalancer.load.report import LoadReport
from rebalancer.load.scheduler_view import ViewInputs, read_view, watcher_addresses
from rebalancer.load.sources import LoadInputs, read_load
from rebalancer.load.view import SchedulerView
from rebalancer.pipeline.configurations import ConfigurationText, configuration_text, load_with_plugins
from rebalancer.pipeline.options import PipelineOptions
from rebalancer.pipeline.scheduler_version import scheduler_version
from rebalancer.planning.eviction.system_pods import system_workloads
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy import (
    LoadedPolicy,
    LoadWatcherSource,
    PrometheusSource,
    default_policy,
    load_policy,
)
from rebalancer.profiles import default_configuration
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.framework.versions import VERIFIED, version_warnings
from rebalancer.scheduling.plugins.queries import plugin_queries
from rebalancer.scheduling.resources.requests import pod_requests
from rebalancer.state import FileStore, RunState
from rebalancer.state.run_state import decode as decode_state
from rebalancer.state.run_state import encode as encode_state

_CONFIGURATION, _STATE = "scheduler-config.yaml", "state.json"


@dataclass(frozen=True, slots=True)
class Gathered:
    """The inputs of a plan, and what they were gathered with."""

    inputs: PlanningInputs
    loaded: LoadedPolicy
    version: str  # of the scheduler: major.minor; empty when not known
    present: Mapping[
        str, Mapping[str, float]
    ]  # load now, by resource and node, for the windows of later runs
    prometheus: AnswerBook  # what Prometheus answered


def load_policy_of(options: PipelineOptions) -> LoadedPolicy:
    """The policy an option names, else the default one."""
    return load_policy(options.policy_path) if options.policy_path else default_policy()


def remembered(options: PipelineOptions) -> RunState | None:
    """What the state file says of earlier runs; where it is still to be written, that there were none.

    None without such a file: then nothing is known of them, and one recorded with a dump counts.
    """
    if options.state_path is None:
        return None
    found = FileStore(options.state_path).load()
    return found if found is not None or options.source is not None else RunState()


def open_api(options: PipelineOptions) -> RawApi | None:
    """The connection to a live cluster; None when a recorded one is read."""
    if options.source is not None:
        return None
    return open_live_api(options.kubeconfig, options.context)


def gather(
    options: PipelineOptions,
    loaded: LoadedPolicy,
    api: RawApi | None,
    state: RunState | None,
    clock: Callable[[], float] = time.time,
) -> Gathered:
    """Read everything and join it. Raises the errors of its parts; each is one line.

    ``state`` is what earlier runs knew; one recorded with a dump is used where there is none.
    """
    recording = _read(options, api, clock)
    snapshot = build_snapshot(recording)
    _check_nodes(snapshot)
    now = options.now if options.now is not None else (_newest(snapshot) if api is None else clock())
    configuration = _configuration(options, loaded, recording, api)
    recorded_state = state or _recorded_state(recording)
    inside = "KUBERNETES_SERVICE_HOST" in os.environ
    book = recorded_book(recording)
    access = (
        recorded_access(book, recording.source)
        if api is None
        else live_access(api, now, clock(), inside=inside)
    )
    view = read_view(
        ViewInputs(
            snapshot=snapshot,
            configuration=configuration,
            also=_policy_watchers(loaded),
            queries=plugin_queries(configuration),
            api=api,
            prometheus=access,
            inside=inside,
            now=now,
        )
    )
    reading = read_load(
        LoadInputs(
            snapshot=snapshot,
            policy=loaded.policy,
            requests=_requests(snapshot),
            watchers=view.watchers,
            missing=view.missing,
            prometheus=access,
            samples=recorded_state.samples if recorded_state else None,
            now=now,
            live=api is not None,
        )
    )
    version = scheduler_version(loaded, snapshot, api)
    inputs = PlanningInputs(
        snapshot=snapshot,
        load=reading.report,
        view=view,
        configuration=configuration,
        policy=loaded.policy,
        state=recorded_state,
        now=now,
        digest=_digest(snapshot, loaded, configuration, view, access.book, recorded_state, version, now),
        own_pod=_own_pod(),
        scheduler_version=version,
        system_workloads=_system(snapshot, loaded, configuration),
        warnings=_warnings(snapshot, configuration, reading.report, view.missing, version),
    )
    return Gathered(inputs, loaded, version, reading.present, access.book)


def _read(options: PipelineOptions, api: RawApi | None, clock: Callable[[], float]) -> Recording:
    if api is None:
        assert options.source is not None
        return DumpReader(options.source).read(progress=options.progress)
    return LiveReader(api, clock).read(progress=options.progress)


def _check_nodes(snapshot: Snapshot) -> None:
    """Refuse a cluster without nodes: nothing can be said of it."""
    if not len(snapshot.nodes):
        broken = [str(item) for item in snapshot.malformed if item.kind == "Node"]
        raise InputError(
            f"no node could be read: {broken[0]}" if broken else "holds no nodes",
            where=snapshot.source,
            hint="is this the cluster you meant?",
        )


def _newest(snapshot: Snapshot) -> float:
    """The newest moment a recording speaks of: of its metrics, else of its nodes and pods."""
    moments: list[float] = []
    for kind in (NODE_METRICS, POD_METRICS):
        for item in snapshot.recording.records(kind):
            if isinstance(item, (records.NodeMetrics, records.PodMetrics)):
                try:
                    moments.append(times.parse(item.timestamp))
                except ValueError:
                    continue
    moments += [recorded_book(snapshot.recording).time] if PROMETHEUS in snapshot.recording.documents else []
    if not moments:
        known = np.concatenate([snapshot.pods.created, snapshot.pods.started, snapshot.nodes.ready_since])
        moments = known[~np.isnan(known)].tolist()
    return max(moments, default=0.0)


def _configuration(
    options: PipelineOptions, loaded: LoadedPolicy, recording: Recording, api: RawApi | None
) -> SchedulerConfiguration:
    """An option's file, else the policy's own, else what was recorded, else the defaults."""
    written = configuration_text(loaded, options.scheduler_config, api)
    if written is not None:
        return load_with_plugins(loaded, written, options.assume_neutral)
    recorded = recording.documents.get(_CONFIGURATION)
    if recorded is None:
        return default_configuration()
    where = f"{recording.source}/{_CONFIGURATION}"
    try:
        text = recorded.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error.reason}", where=where) from error
    return load_with_plugins(loaded, ConfigurationText(text, where), options.assume_neutral)


def _policy_watchers(loaded: LoadedPolicy) -> list[str]:
    """The load-watchers that the policy itself reads."""
    return [
        source.load_watcher.address
        for source in loaded.policy.load.sources
        if isinstance(source, LoadWatcherSource)
    ]


def recorded_book(recording: Recording) -> AnswerBook:
    """What Prometheus answered when a cluster was recorded."""
    content = recording.documents.get(PROMETHEUS)
    return decode_book(content, f"{recording.source}/{PROMETHEUS}") if content is not None else AnswerBook()


def _requests(snapshot: Snapshot) -> FloatArray:
    """(pods, 2) what each pod requests: thousandths of a core, bytes."""
    rows = [
        (found.get("cpu", 0), found.get("memory", 0))
        for found in (pod_requests(pod).present for pod in snapshot.pods.classes)
    ]
    table = np.array(rows, np.float64).reshape(len(rows), 2)
    return np.asarray(table[snapshot.pods.pod_class], np.float64)


def _recorded_state(recording: Recording) -> RunState | None:
    content = recording.documents.get(_STATE)
    return decode_state(content, f"{recording.source}/{_STATE}") if content is not None else None


def _digest(
    snapshot: Snapshot,
    loaded: LoadedPolicy,
    configuration: SchedulerConfiguration,
    view: SchedulerView,
    prometheus: AnswerBook,
    state: RunState | None,
    version: str,
    now: float,
) -> str:
    total = hashlib.sha256(digest(snapshot.recording).encode())
    total.update(loaded.digest.encode())
    total.update(configuration.text.encode())
    total.update(repr(sorted(view.watchers.items())).encode())
    total.update(prometheus.encode_answers())
    total.update(encode_state(state) if state else b"")
    total.update(("" if version == VERIFIED else version).encode())  # its rules are those of no version
    total.update(repr(now).encode())
    return f"sha256:{total.hexdigest()}"


def _own_pod() -> str:
    """This program's own pod, as the CronJob tells it."""
    namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
    return f"{namespace}/{name}" if namespace and name else ""


def _system(
    snapshot: Snapshot, loaded: LoadedPolicy, configuration: SchedulerConfiguration
) -> frozenset[str]:
    addresses = [*watcher_addresses(configuration), *_policy_watchers(loaded)]
    addresses += [query.address for query in plugin_queries(configuration)]
    addresses += [
        source.prometheus.address
        for source in loaded.policy.load.sources
        if isinstance(source, PrometheusSource)
    ]
    services = {
        (service.namespace, service.service.split(":")[-2 if ":" in service.service else 0])
        for service in map(service_of, addresses)
        if service is not None
    }
    place = loaded.policy.scheduler.config_map
    return system_workloads(snapshot, services, {place.namespace} if place else set())


def _warnings(
    snapshot: Snapshot,
    configuration: SchedulerConfiguration,
    load: LoadReport,
    missing: Mapping[str, str],
    version: str,
) -> tuple[str, ...]:
    found = list(configuration.warnings)
    found += version_warnings(version, configuration.api_version)
    found += [
        f"extender {extender.url_prefix} is not modelled: all pods of its scheduler are protected"
        for extender in configuration.extenders
    ]
    found += [f"not read: {plural} ({why})" for plural, why in sorted(snapshot.recording.unread.items())]
    found += snapshot.recording.warnings
    found += [f"could not be read: {item}" for item in snapshot.malformed]
    found += [
        f"seen by plugins: {address or 'built-in load-watcher'}: {why}"
        for address, why in sorted(missing.items())
    ]
    found += load.warnings
    return tuple(found)
