"""Gathers everything a plan is a function of, from a live cluster or a recorded one."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rebalancer.cli.configurations import configuration_text
from rebalancer.cli.options import PipelineOptions
from rebalancer.cluster import records, times
from rebalancer.cluster.connection import RawApi, connect
from rebalancer.cluster.dump import DumpReader
from rebalancer.cluster.kinds import NODE_METRICS, POD_METRICS
from rebalancer.cluster.listing import Recording
from rebalancer.cluster.live import LiveReader
from rebalancer.cluster.nodes import FloatArray
from rebalancer.cluster.saving import digest
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError, RebalancerError, UnreachableError
from rebalancer.load.embedded import watcher_of_metrics
from rebalancer.load.figures import (
    NodeFigures,
    node_figures_of_metrics,
    node_figures_of_requests,
    node_figures_of_watcher,
    pod_figures_of_metrics,
)
from rebalancer.load.report import LoadReport, build_report
from rebalancer.load.view import SchedulerView
from rebalancer.load.watcher import WatcherMetrics, decode_watcher
from rebalancer.load.watcher_client import fetch_watcher, service_of
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.system_workloads import system_workloads
from rebalancer.policy import (
    LoadedPolicy,
    LoadWatcherSource,
    MetricsServerSource,
    RecordedSource,
    default_policy,
    load_policy,
)
from rebalancer.profiles import default_configuration, load_configuration
from rebalancer.profiles.load_arguments import MetricProvider
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.requests import pod_requests
from rebalancer.state import RunState
from rebalancer.state.run_state import decode as decode_state
from rebalancer.state.run_state import encode as encode_state

VERIFIED_VERSION = "1.35"
_CONFIGURATION, _WATCHER, _STATE = "scheduler-config.yaml", "watcher.json", "state.json"


@dataclass(frozen=True, slots=True)
class Gathered:
    """The inputs of a plan, and what they were gathered with."""

    inputs: PlanningInputs
    loaded: LoadedPolicy
    version: str  # of the scheduler: major.minor; empty when not known


def load_policy_of(options: PipelineOptions) -> LoadedPolicy:
    """The policy an option names, else the default one."""
    return load_policy(options.policy_path) if options.policy_path else default_policy()


def open_api(options: PipelineOptions) -> RawApi | None:
    """The connection to a live cluster; None when a recorded one is read."""
    if options.source is not None:
        return None
    return RawApi(connect(options.kubeconfig, options.context), time.sleep)


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
    watchers, missing = _watchers(loaded, configuration, snapshot, api, now)
    load = _load_report(loaded, snapshot, watchers, missing, now, live=api is not None)
    recorded_state = state or _recorded_state(recording)
    version = _version(loaded, api)
    inputs = PlanningInputs(
        snapshot=snapshot,
        load=load,
        view=SchedulerView(watchers, missing),
        configuration=configuration,
        policy=loaded.policy,
        state=recorded_state,
        now=now,
        digest=_digest(snapshot, loaded, configuration, watchers, recorded_state, now),
        own_pod=_own_pod(),
        system_workloads=_system(snapshot, loaded, configuration),
        warnings=_warnings(snapshot, configuration, load, missing, version),
    )
    return Gathered(inputs, loaded, version)


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
    if not moments:
        known = np.concatenate([snapshot.pods.created, snapshot.pods.started, snapshot.nodes.ready_since])
        moments = known[~np.isnan(known)].tolist()
    return max(moments, default=0.0)


def _configuration(
    options: PipelineOptions, loaded: LoadedPolicy, recording: Recording, api: RawApi | None
) -> SchedulerConfiguration:
    """An option's file, else the policy's own, else what was recorded, else the defaults."""
    neutral = (*loaded.policy.scheduler.assume_neutral, *options.assume_neutral)
    written = configuration_text(loaded, options.scheduler_config, api)
    if written is not None:
        return load_configuration(written.text, written.source, assume_neutral=neutral)
    recorded = recording.documents.get(_CONFIGURATION)
    if recorded is None:
        return default_configuration()
    where = f"{recording.source}/{_CONFIGURATION}"
    try:
        text = recorded.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error.reason}", where=where) from error
    return load_configuration(text, where, assume_neutral=neutral)


def _watcher_addresses(configuration: SchedulerConfiguration) -> dict[str, MetricProvider | None]:
    """The addresses the profiles' plugins read; "" is the load-watcher built into them, with its provider."""
    found: dict[str, MetricProvider | None] = {}
    for profile in configuration.profiles:
        for arguments in profile.arguments.values():
            address = getattr(arguments, "watcher_address", None)
            if address is not None:
                found.setdefault(address, getattr(arguments, "metric_provider", None))
    return found


def _watchers(
    loaded: LoadedPolicy,
    configuration: SchedulerConfiguration,
    snapshot: Snapshot,
    api: RawApi | None,
    now: float,
) -> tuple[dict[str, WatcherMetrics], dict[str, str]]:
    """What load-watcher answers at every address that plugins and policy name; and why it does not."""
    wanted = _watcher_addresses(configuration)
    for source in loaded.policy.load.sources:
        if isinstance(source, LoadWatcherSource):
            wanted.setdefault(source.load_watcher.address, None)
    found: dict[str, WatcherMetrics] = {}
    missing: dict[str, str] = {}
    inside = "KUBERNETES_SERVICE_HOST" in os.environ
    for address, provider in wanted.items():
        try:
            if not address:
                found[address] = _embedded(snapshot, provider, now)
            elif api is None:
                found[address] = _recorded_watcher(snapshot.recording)
            else:
                found[address] = decode_watcher(fetch_watcher(api, address, inside=inside))
        except RebalancerError as error:
            missing[address] = str(error)
    return found, missing


def _embedded(snapshot: Snapshot, provider: MetricProvider | None, now: float) -> WatcherMetrics:
    kind = provider.type if provider else ""
    if kind not in ("", "KubernetesMetricsServer"):
        raise InputError(f"the load-watcher built into the plugin reads {kind}, which is not read yet")
    if not snapshot.has(NODE_METRICS):
        raise InputError("the load-watcher built into the plugin reads metrics-server, which was not read")
    items = [
        item for item in snapshot.recording.records(NODE_METRICS) if isinstance(item, records.NodeMetrics)
    ]
    return watcher_of_metrics(items, snapshot.nodes, now)


def _recorded_watcher(recording: Recording) -> WatcherMetrics:
    where = f"{recording.source}/{_WATCHER}"
    content = recording.documents.get(_WATCHER)
    if content is None:
        raise InputError("not recorded", where=where, hint="record what GET /watcher of load-watcher answers")
    try:
        return decode_watcher(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not what load-watcher answers: {error}", where=where) from error


def _requests(snapshot: Snapshot) -> FloatArray:
    """(pods, 2) what each pod requests: thousandths of a core, bytes."""
    rows = [
        (found.get("cpu", 0), found.get("memory", 0))
        for found in (pod_requests(pod).present for pod in snapshot.pods.classes)
    ]
    table = np.array(rows, np.float64).reshape(len(rows), 2)
    return np.asarray(table[snapshot.pods.pod_class], np.float64)


def _load_report(
    loaded: LoadedPolicy,
    snapshot: Snapshot,
    watchers: Mapping[str, WatcherMetrics],
    missing: Mapping[str, str],
    now: float,
    *,
    live: bool,
) -> LoadReport:
    """Join the policy's sources. Raises when none of them told anything."""
    settings = loaded.policy.load
    requests = _requests(snapshot)
    figures: list[NodeFigures] = []
    failures: list[str] = []
    for source in settings.sources:
        if isinstance(source, LoadWatcherSource):
            address = source.load_watcher.address
            if address in watchers:
                figures.append(node_figures_of_watcher(watchers[address], snapshot.nodes))
            else:
                failures.append(f"load-watcher: {missing.get(address, 'not read')}")
        elif isinstance(source, (MetricsServerSource, RecordedSource)):
            if snapshot.has(NODE_METRICS):
                items = snapshot.recording.records(NODE_METRICS)
                metrics = [item for item in items if isinstance(item, records.NodeMetrics)]
                figures.append(node_figures_of_metrics(metrics, snapshot.nodes))
            else:
                why = snapshot.recording.unread.get(NODE_METRICS.plural, "not read")
                failures.append(f"metrics-server: {NODE_METRICS.plural} {why}")
        else:
            figures.append(node_figures_of_requests(_requested(snapshot, requests), now))
    if not figures:
        _no_source(snapshot, failures, live=live)
    pod_items = [
        item for item in snapshot.recording.records(POD_METRICS) if isinstance(item, records.PodMetrics)
    ]
    pod_figures = pod_figures_of_metrics(pod_items, snapshot.pods) if snapshot.has(POD_METRICS) else None
    return build_report(
        snapshot.nodes,
        snapshot.pods,
        figures,
        pod_figures,
        requests,
        now=now,
        max_age_seconds=settings.max_age,
    )


def _no_source(snapshot: Snapshot, failures: list[str], *, live: bool) -> None:
    tried = "; ".join(failures)
    if live:
        raise UnreachableError(
            f"no load source answered: {tried}", where=snapshot.source, hint="see load.sources of the policy"
        )
    raise InputError(
        f"no load figures: {tried}",
        where=snapshot.source,
        hint="add nodemetrics.json: kubectl get --raw /apis/metrics.k8s.io/v1beta1/nodes",
    )


def _requested(snapshot: Snapshot, requests: FloatArray) -> FloatArray:
    """(nodes, 2) the sum of the requests of the pods on each node."""
    total = np.zeros((len(snapshot.nodes), 2))
    bound = snapshot.pods.node >= 0
    np.add.at(total, snapshot.pods.node[bound], requests[bound])
    return total


def _recorded_state(recording: Recording) -> RunState | None:
    content = recording.documents.get(_STATE)
    return decode_state(content, f"{recording.source}/{_STATE}") if content is not None else None


def _version(loaded: LoadedPolicy, api: RawApi | None) -> str:
    stated = loaded.policy.scheduler.version
    if stated:
        return ".".join(stated.removeprefix("v").split(".")[:2])
    return api.server_version() if api is not None else ""


def _digest(
    snapshot: Snapshot,
    loaded: LoadedPolicy,
    configuration: SchedulerConfiguration,
    watchers: Mapping[str, WatcherMetrics],
    state: RunState | None,
    now: float,
) -> str:
    total = hashlib.sha256(digest(snapshot.recording).encode())
    total.update(loaded.digest.encode())
    total.update(configuration.text.encode())
    total.update(repr(sorted(watchers.items())).encode())
    total.update(encode_state(state) if state else b"")
    total.update(repr(now).encode())
    return f"sha256:{total.hexdigest()}"


def _own_pod() -> str:
    """This program's own pod, as the CronJob tells it."""
    namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
    return f"{namespace}/{name}" if namespace and name else ""


def _system(
    snapshot: Snapshot, loaded: LoadedPolicy, configuration: SchedulerConfiguration
) -> frozenset[str]:
    addresses = [*_watcher_addresses(configuration)]
    addresses += [
        source.load_watcher.address
        for source in loaded.policy.load.sources
        if isinstance(source, LoadWatcherSource)
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
    if not version:
        found.append(f"the scheduler's version is not known; the rules of {VERIFIED_VERSION} are used")
    elif version != VERIFIED_VERSION:
        found.append(f"scheduler {version}: only the rules of {VERIFIED_VERSION} were verified")
    found += [
        f"extender {extender.url_prefix} is not modelled: all pods of its scheduler are protected"
        for extender in configuration.extenders
    ]
    found += [f"not read: {plural} ({why})" for plural, why in sorted(snapshot.recording.unread.items())]
    found += snapshot.recording.warnings
    found += [f"could not be read: {item}" for item in snapshot.malformed]
    found += [f"load-watcher {address or '(built in)'}: {why}" for address, why in sorted(missing.items())]
    found += load.warnings
    return tuple(found)
