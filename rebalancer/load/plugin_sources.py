"""Reads what the scheduler's load-aware plugins see: each at its own source, with its own arguments.

Source: scheduler-plugins v0.34.7 pkg/trimaran/collector.go:110 (also the load-watcher built into plugins).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rebalancer.cluster import records
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.kinds import NODE_METRICS
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.reader import NodeNameIndex, PrometheusAccess
from rebalancer.load.prometheus.responses import Series, decode_answer, failure_words
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    DEVIATION,
    MEMORY_TYPE,
    Metric,
    SchedulerView,
    WatcherMetrics,
    decode_watcher,
    watcher_of_metrics,
)
from rebalancer.profiles.types import MetricProvider, PluginQuery, SchedulerConfiguration

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi

WATCHER = "watcher.json"  # load-watcher's answer, beside a recorded cluster
_WINDOW_SECONDS = 900.0
_MAX_ADDRESS_LENGTH = 2000
# What load-watcher asks Prometheus for, of all nodes; its answers are ratios, keyed by `instance` verbatim.
_METRICS = ((CPU_TYPE, "instance:node_cpu:ratio"), (MEMORY_TYPE, "instance:node_memory_utilisation:ratio"))
_FUNCTIONS = ((AVERAGE, "avg_over_time"), (DEVIATION, "stddev_over_time"))


@dataclass(frozen=True, slots=True, eq=False)
class PluginSources:
    """What the plugins' figures are read from."""

    snapshot: Snapshot
    configuration: SchedulerConfiguration
    also: Iterable[str]  # addresses of load-watchers that the policy itself reads
    queries: Iterable[PluginQuery]  # of plugins that ask Prometheus
    api: RawApi | None  # None: a recorded cluster
    prometheus: PrometheusAccess
    inside: bool
    now: float


def watcher_addresses(configuration: SchedulerConfiguration) -> dict[str, MetricProvider | None]:
    """The addresses the profiles' plugins read; "" is the load-watcher built into them, with its provider."""
    found: dict[str, MetricProvider | None] = {}
    for profile in configuration.profiles:
        for arguments in profile.arguments.values():
            address = getattr(arguments, "watcher_address", None)
            if address is not None:
                found.setdefault(address, getattr(arguments, "metric_provider", None))
    return found


def read_view(inputs: PluginSources) -> SchedulerView:
    """Every source that a plugin or the policy names; one that does not answer is missing, with why."""
    wanted = watcher_addresses(inputs.configuration)
    for address in inputs.also:
        wanted.setdefault(address, None)
    watchers: dict[str, WatcherMetrics] = {}
    missing: dict[str, str] = {}
    for address, provider in wanted.items():
        try:
            watchers[address] = _watcher(inputs, address, provider)
        except RebalancerError as error:
            missing[address] = str(error)
    queries: dict[tuple[str, str], Mapping[str, float]] = {}
    index = NodeNameIndex(inputs.snapshot.nodes)
    for item in dict.fromkeys(inputs.queries):
        try:
            series = _ask(inputs.prometheus, Connection(url_of(item.address)), item.query)
        except RebalancerError as error:
            missing[item.address] = str(error)
        else:
            queries[item.address, item.query] = by_node_name(series, item.node_label, index)
    return SchedulerView(watchers, missing, queries)


def _watcher(inputs: PluginSources, address: str, provider: MetricProvider | None) -> WatcherMetrics:
    if not address:
        return _built_in(inputs, provider or MetricProvider())
    if inputs.api is None:
        return _recorded_watcher(inputs.snapshot.recording)
    from rebalancer.load.services import fetch_watcher  # noqa: PLC0415 - imports urllib3

    return decode_watcher(fetch_watcher(inputs.api, address, inside=inputs.inside))


def _built_in(inputs: PluginSources, provider: MetricProvider) -> WatcherMetrics:
    """The figures of the load-watcher inside the plugin."""
    if provider.type == "Prometheus":
        return _of_prometheus(inputs, provider)
    if provider.type not in ("", "KubernetesMetricsServer"):
        raise InputError(
            f"the load-watcher built into the plugin reads {provider.type}, which rebalancer does not support"
        )
    if not inputs.snapshot.has(NODE_METRICS):
        raise InputError("the load-watcher built into the plugin reads metrics-server, which was not read")
    items = inputs.snapshot.recording.records(NODE_METRICS)
    metrics = [item for item in items if isinstance(item, records.NodeMetrics)]
    return watcher_of_metrics(metrics, inputs.snapshot.nodes, inputs.now)


def _of_prometheus(inputs: PluginSources, provider: MetricProvider) -> WatcherMetrics:
    """As load-watcher reads Prometheus; a fetch with any error is discarded whole."""
    connection = Connection(
        address=url_of(provider.address or "http://prometheus-k8s:9090"),
        token=provider.token,
        insecure_skip_verify=provider.insecure_skip_verify is not False,
    )
    found: dict[str, list[Metric]] = {}
    for operator, function in _FUNCTIONS:
        for kind, metric in _METRICS:
            for item in _ask(inputs.prometheus, connection, f"{function}({metric}[15m])"):
                name = item.labels.get("instance", "")
                if name and len(item.values) and np.isfinite(item.values[-1]):
                    value = 100 * float(item.values[-1])
                    found.setdefault(name, []).append(Metric(kind, operator, value))
    nodes = {name: tuple(metrics) for name, metrics in sorted(found.items())}
    now = inputs.now
    return WatcherMetrics(nodes, now, now - _WINDOW_SECONDS, now, "Prometheus")


def _recorded_watcher(recording: Recording) -> WatcherMetrics:
    where = f"{recording.source}/{WATCHER}"
    content = recording.documents.get(WATCHER)
    if content is None:
        raise InputError(
            "not recorded", where=where, hint="record the response to load-watcher's GET /watcher"
        )
    try:
        return decode_watcher(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not a load-watcher response: {error}", where=where) from error


def _ask(access: PrometheusAccess, connection: Connection, query: str) -> tuple[Series, ...]:
    try:
        return decode_answer(access.asking(connection)(PrometheusQuery(query)))
    except (ValueError, RecursionError) as error:
        raise InputError(failure_words(error), where=connection.address) from error


def by_node_name(series: Iterable[Series], label: str, index: NodeNameIndex) -> dict[str, float]:
    """The value by node, whose name or address is in a label; a node with several samples is absent."""
    found: dict[int, float] = {}
    twice: set[int] = set()
    for item in series:
        row = index.row(item.labels.get(label, ""))
        if row in found:
            twice.add(row)
        elif row is not None and len(item.values) and np.isfinite(item.values[-1]):
            found[row] = float(item.values[-1])
    return {index.names[row]: value for row, value in sorted(found.items()) if row not in twice}


def url_of(address: str) -> str:
    """An address as plugins write it, which may lack its scheme; InputError when it is none."""
    url = address if address.startswith(("http://", "https://")) else f"http://{address}"
    if len(url) > _MAX_ADDRESS_LENGTH or not url.isprintable() or " " in url or "@" in url:
        shown = "an address with a user name" if "@" in url else f"{address[:60]!a}"
        raise InputError(f"{shown} is not the address of a Prometheus server")
    return url.rstrip("/")
