"""Joins what was read into the inputs of a plan, with a digest that identifies them."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rebalancer.cluster import records, times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest as recording_digest
from rebalancer.cluster.kinds import NODE_METRICS, POD_METRICS
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError
from rebalancer.load.plugin_sources import PluginSources, read_view, watcher_addresses
from rebalancer.load.prometheus.reader import PrometheusAccess, live_access, recorded_access
from rebalancer.load.prometheus.responses import DOCUMENT as PROMETHEUS
from rebalancer.load.prometheus.responses import RecordedResponses, decode_book
from rebalancer.load.services import runs_in_a_cluster, service_of
from rebalancer.load.sources import LoadInputs, read_load
from rebalancer.load.usage import RESOURCES
from rebalancer.observe.configuration import (
    ConfigurationText,
    configuration_text,
    load_with_plugins,
    scored_resources,
)
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.scheduler_facts import (
    feature_gates,
    gate_warnings,
    recent_start,
    scheduler_cores,
    scheduler_version,
)
from rebalancer.observe.warnings import input_warnings, insecure_connections, unmatched_names
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.workloads.system_pods import system_workloads
from rebalancer.policy.load_sources import LoadWatcherSource, PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, default_policy, load_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration, plugin_queries
from rebalancer.scheduling.resources import pod_requests, requested_amounts
from rebalancer.scheduling.versions.release import REFERENCE
from rebalancer.scheduling.versions.verified import differing_rules, is_verified
from rebalancer.state.run_state import RunState
from rebalancer.state.run_state import decode as decode_state
from rebalancer.state.run_state import encode as encode_state
from rebalancer.telemetry import span

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.live.watching import LiveCluster


# Reads the cluster itself: through the API server, or from what was recorded of it.
#
# What reads a live cluster is imported where it is needed, because a recorded one is read without a
# network.


def open_api(options: PlanOptions) -> RawApi | None:
    """The connection to a live cluster; None when a recorded one is read."""
    if options.source is not None:
        return None
    from rebalancer.cluster.live import open_api as connect  # noqa: PLC0415 - not for a recorded cluster

    return connect(options.kubeconfig, options.context, options.request_seconds)


def open_cluster(api: RawApi) -> LiveCluster:
    """A live cluster that is read again and again, whose changes alone are read."""
    from rebalancer.cluster.live.watching import LiveCluster  # noqa: PLC0415 - imports kubernetes

    return LiveCluster.open(api)


def read_snapshot(
    options: PlanOptions,
    api: RawApi | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None = None,
) -> Snapshot:
    """Every kind of the cluster, as columns; InputError when it has no node."""
    snapshot = build_snapshot(_read(options, api, clock, cluster))
    if not len(snapshot.nodes):
        broken = [str(item) for item in snapshot.malformed if item.kind == "Node"]
        raise InputError(
            f"no node could be read: {broken[0]}" if broken else "holds no nodes",
            where=snapshot.source,
            hint="is this the cluster you meant?",
        )
    return snapshot


def _read(
    options: PlanOptions,
    api: RawApi | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None,
) -> Recording:
    if cluster is not None:
        assert api is not None
        return cluster.current(api.retries.run, options.progress)
    if api is None:
        assert options.source is not None
        return DumpReader(options.source, options.max_dump_bytes).read(progress=options.progress)
    from rebalancer.cluster.live.reader import LiveReader  # noqa: PLC0415 - imports kubernetes

    return LiveReader(api, clock).read(progress=options.progress)


# What a recording holds beside the cluster: the clock, the state of earlier runs, Prometheus' answers.


_CONFIGURATION, _STATE = "scheduler-config.yaml", "state.json"


def recorded_moment(snapshot: Snapshot) -> float:
    """When a cluster was recorded: the newest of its metrics, else the newest time of its nodes and pods."""
    recording = snapshot.recording
    moments: list[float] = []
    for kind in (NODE_METRICS, POD_METRICS):
        for item in recording.records(kind):
            if isinstance(item, (records.NodeMetrics, records.PodMetrics)):
                try:
                    moments.append(times.parse(item.timestamp))
                except ValueError:
                    continue
    if PROMETHEUS in recording.documents:
        moments.append(recorded_answers(recording).time)
    if not moments:
        known = np.concatenate([snapshot.pods.created, snapshot.pods.started, snapshot.nodes.ready_since])
        moments = known[~np.isnan(known)].tolist()
    return max(moments, default=0.0)


def recorded_answers(recording: Recording) -> RecordedResponses:
    """What Prometheus answered when the cluster was recorded; an empty book when it was not asked."""
    content = recording.documents.get(PROMETHEUS)
    return (
        decode_book(content, f"{recording.source}/{PROMETHEUS}")
        if content is not None
        else RecordedResponses()
    )


def recorded_state(recording: Recording) -> RunState | None:
    """The state of earlier runs that was recorded with the cluster."""
    content = recording.documents.get(_STATE)
    return decode_state(content, f"{recording.source}/{_STATE}") if content is not None else None


def recorded_configuration(recording: Recording) -> ConfigurationText | None:
    """The scheduler's configuration that was recorded with the cluster."""
    content = recording.documents.get(_CONFIGURATION)
    if content is None:
        return None
    where = f"{recording.source}/{_CONFIGURATION}"
    try:
        return ConfigurationText(content.decode(), where)
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error.reason}", where=where) from error


# The services that plans rely on: the workloads behind them are never evicted.


def policy_watchers(policy: RebalancePolicy) -> list[str]:
    """The addresses of the load-watchers that the policy's own sources read."""
    return [
        source.load_watcher.address for source in policy.load.sources if isinstance(source, LoadWatcherSource)
    ]


def relied_on_workloads(
    snapshot: Snapshot, policy: RebalancePolicy, configuration: SchedulerConfiguration
) -> frozenset[str]:
    """The workloads, as namespace/Kind/name, that measure load or schedule the pods."""
    addresses = [*watcher_addresses(configuration), *policy_watchers(policy)]
    addresses += [query.address for query in plugin_queries(configuration)]
    addresses += [
        source.prometheus.address for source in policy.load.sources if isinstance(source, PrometheusSource)
    ]
    services = {
        (service.namespace, service.name) for service in map(service_of, addresses) if service is not None
    }
    place = policy.scheduler.config_map
    return system_workloads(snapshot, services, {place.namespace} if place else set())


@dataclass(frozen=True, slots=True)
class Gathered:
    """The inputs of a plan, and what the next run should know about the load of this one."""

    inputs: PlanningInputs
    current_load: Mapping[str, Mapping[str, float]]  # percent by resource and node, where no history is kept


def policy_of(options: PlanOptions) -> LoadedPolicy:
    """The policy an option names, else the default one."""
    return load_policy(options.policy_path) if options.policy_path else default_policy()


def gather(
    options: PlanOptions,
    loaded: LoadedPolicy,
    api: RawApi | None,
    state: RunState | None,
    clock: Callable[[], float] = time.time,
    cluster: LiveCluster | None = None,
    snapshot: Snapshot | None = None,
) -> Gathered:
    """Read everything and join it. Raises the errors of its parts; each is one line.

    ``state`` is what earlier runs left; without it the one recorded with the cluster counts. Whoever reads
    a live cluster again and again keeps a ``cluster``, whose changes alone are read. ``snapshot`` is
    the cluster itself, where it was read for another policy already.
    """
    with span("gather") as gathering:
        gathered = _gathered(options, loaded, api, state, clock, cluster, snapshot)
        version, found = gathered.inputs.scheduler_version, gathered.inputs.snapshot
        gathering.add(nodes=len(found.nodes), pods=len(found.pods), scheduler_version=version)
        gathering.add(verified=is_verified(version), unverified_rules=len(differing_rules(version)))
    return gathered


def _gathered(
    options: PlanOptions,
    loaded: LoadedPolicy,
    api: RawApi | None,
    state: RunState | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None,
    snapshot: Snapshot | None,
) -> Gathered:
    configuration = _configuration(options, loaded, api)  # first: a mistake in it is found in no time
    snapshot = snapshot or read_snapshot(options, api, clock, cluster)
    recording = snapshot.recording
    policy = loaded.policy
    now = options.now if options.now is not None else (recorded_moment(snapshot) if api is None else clock())
    configuration = configuration or _recorded_configuration(options, loaded, recording)
    state = state or recorded_state(recording)
    prometheus = _prometheus(recording, api, now, clock)
    view = read_view(
        PluginSources(
            snapshot=snapshot,
            configuration=configuration,
            also=policy_watchers(policy),
            queries=plugin_queries(configuration),
            api=api,
            prometheus=prometheus,
            inside=runs_in_a_cluster(),
            now=now,
        )
    )
    reading = read_load(
        LoadInputs(
            snapshot=snapshot,
            policy=policy,
            requests=requests_by_pod(snapshot),
            watchers=view.watchers,
            missing=view.missing,
            prometheus=prometheus,
            samples=state.samples if state else None,
            now=now,
            live=api is not None,
            scored=scored_resources(policy, configuration),
        )
    )
    version = scheduler_version(loaded, snapshot, configuration, api)
    inputs = PlanningInputs(
        snapshot=snapshot,
        load=reading.report,
        view=view,
        configuration=configuration,
        policy=policy,
        state=state,
        now=now,
        digest=_digest(
            recording_digest(recording).encode(),
            loaded.digest.encode(),
            configuration.text.encode(),
            repr(sorted(view.watchers.items())).encode(),
            prometheus.book.encode_answers(),
            encode_state(state) if state else b"",
            # Every version other than the one of reference may follow different rules.
            ("" if version == REFERENCE else version).encode(),
            repr(now).encode(),
        ),
        own_pod=_own_pod(),
        scheduler_version=version,
        scheduler_cores=scheduler_cores(policy.scheduler, snapshot),
        scheduler_start=recent_start(policy.scheduler, configuration, snapshot, api, now),
        feature_gates=feature_gates(loaded, snapshot, configuration),
        system_workloads=relied_on_workloads(snapshot, policy, configuration),
        warnings=(
            *unmatched_names(policy, snapshot, configuration, options.assume_neutral),
            *gate_warnings(loaded, snapshot, configuration),
            *insecure_connections(policy, configuration, api),
            *input_warnings(snapshot, configuration, reading.report, view.missing, version),
        ),
    )
    return Gathered(inputs, reading.present)


def _configuration(
    options: PlanOptions, loaded: LoadedPolicy, api: RawApi | None
) -> SchedulerConfiguration | None:
    """The one of an option's file, else the policy's own; None where neither names one."""
    written = configuration_text(loaded, options.scheduler_config, api)
    return load_with_plugins(loaded, written, options.assume_neutral) if written else None


def _recorded_configuration(
    options: PlanOptions, loaded: LoadedPolicy, recording: Recording
) -> SchedulerConfiguration:
    """What was recorded with the cluster, else the defaults."""
    written = recorded_configuration(recording)
    if written is None:
        return default_configuration()
    return load_with_plugins(loaded, written, options.assume_neutral)


def _prometheus(
    recording: Recording, api: RawApi | None, now: float, clock: Callable[[], float]
) -> PrometheusAccess:
    answers = recorded_answers(recording)
    if api is None:
        return recorded_access(answers, recording.source)
    return live_access(api, now, clock(), inside=runs_in_a_cluster())


def requests_by_pod(snapshot: Snapshot) -> FloatArray:
    """(pods, 2) what each pod requests: thousandths of a core, bytes."""
    rows = [requested_amounts(pod_requests(pod).present, RESOURCES) for pod in snapshot.pods.classes]
    table = np.array(rows, np.float64).reshape(len(rows), len(RESOURCES))
    return np.asarray(table[snapshot.pods.pod_class], np.float64)


def _digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return f"sha256:{total.hexdigest()}"


def _own_pod() -> str:
    """The pod this program runs in, whose names the CronJob passes in the environment."""
    namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
    return f"{namespace}/{name}" if namespace and name else ""
