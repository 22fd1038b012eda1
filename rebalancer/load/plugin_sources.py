"""Reads what the scheduler's load-aware plugins see: each at its own source, with its own arguments.

Source: scheduler-plugins v0.34.7 pkg/trimaran/collector.go:110 (also the load-watcher built into plugins).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np

from rebalancer.addresses import checked_address
from rebalancer.cluster.kinds import NODE_METRICS
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.reader import NodeNameIndex
from rebalancer.load.prometheus.responses import Series, decode_answer, failure_words
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    DEVIATION,
    MEMORY_TYPE,
    Metric,
    SchedulerView,
    WatcherMetrics,
    watcher_of_metrics,
)
from rebalancer.profiles.types import MetricProvider, PluginQuery, SchedulerConfiguration

_WINDOW_SECONDS = 900.0
_MAX_ADDRESS_LENGTH = 2000
# What load-watcher asks Prometheus for, of all nodes; its answers are ratios, keyed by `instance` verbatim.
_METRICS = ((CPU_TYPE, "instance:node_cpu:ratio"), (MEMORY_TYPE, "instance:node_memory_utilisation:ratio"))
_FUNCTIONS = ((AVERAGE, "avg_over_time"), (DEVIATION, "stddev_over_time"))
_BUILT_IN_QUERIES = tuple(
    (kind, operator, f"{function}({metric}[15m])")
    for operator, function in _FUNCTIONS
    for kind, metric in _METRICS
)


def watcher_addresses(configuration: SchedulerConfiguration) -> dict[str, MetricProvider | None]:
    """The addresses the profiles' plugins read; "" is the load-watcher built into them, with its provider."""
    addresses: dict[str, MetricProvider | None] = {}
    for profile in configuration.profiles:
        for arguments in profile.arguments.values():
            address = getattr(arguments, "watcher_address", None)
            if address is not None:
                addresses.setdefault(address, getattr(arguments, "metric_provider", None))
    return addresses


def plugin_requests(
    configuration: SchedulerConfiguration, queries: Iterable[PluginQuery]
) -> Iterator[tuple[Connection, PrometheusQuery]]:
    """What the plugins of a configuration ask Prometheus; an address that is none is left out."""
    for address, provider in watcher_addresses(configuration).items():
        if not address and provider is not None and provider.type == "Prometheus":
            with suppress(InputError):
                connection = _connection_of(provider)
                yield from ((connection, PrometheusQuery(query)) for _, _, query in _BUILT_IN_QUERIES)
    for plugin_query in queries:
        with suppress(InputError):
            yield Connection(url_of(plugin_query.address)), PrometheusQuery(plugin_query.query)


def read_view(
    snapshot: Snapshot,
    figures: RawFigures,
    addresses: Mapping[str, MetricProvider | None],
    plugin_queries: Iterable[PluginQuery],
    now: float,
) -> SchedulerView:
    """What load-watchers at these addresses say, and Prometheus; without an answer one is missing, with why.

    The address "" is the load-watcher that is built into plugins, with its provider.
    """
    watchers: dict[str, WatcherMetrics] = {}
    missing: dict[str, str] = {}
    for address, provider in addresses.items():
        try:
            watchers[address] = (
                figures.watcher(address, snapshot.source)
                if address
                else _built_in(snapshot, figures, provider or MetricProvider(), now)
            )
        except RebalancerError as error:
            missing[address] = str(error)
    queries: dict[tuple[str, str], Mapping[str, float]] = {}
    index = NodeNameIndex(snapshot.nodes)
    for plugin_query in plugin_queries:
        try:
            series = _series(snapshot, figures, url_of(plugin_query.address), plugin_query.query)
        except RebalancerError as error:
            missing[plugin_query.address] = str(error)
        else:
            queries[plugin_query.address, plugin_query.query] = by_node_name(
                series, plugin_query.node_label, index
            )
    return SchedulerView(watchers, missing, queries)


def _built_in(
    snapshot: Snapshot, figures: RawFigures, provider: MetricProvider, now: float
) -> WatcherMetrics:
    """The figures of the load-watcher inside the plugin."""
    if provider.type == "Prometheus":
        return _of_prometheus(snapshot, figures, provider, now)
    if provider.type not in ("", "KubernetesMetricsServer"):
        raise InputError(
            f"the load-watcher built into the plugin reads {provider.type}, which rebalancer does not support"
        )
    if not snapshot.has(NODE_METRICS):
        raise InputError("the load-watcher built into the plugin reads metrics-server, which was not read")
    return watcher_of_metrics(snapshot.recording.records(NODE_METRICS), snapshot.nodes, now)


def _connection_of(provider: MetricProvider) -> Connection:
    return Connection(
        address=url_of(provider.address or "http://prometheus-k8s:9090"),
        token=provider.token,
        insecure_skip_verify=provider.insecure_skip_verify is not False,
    )


def _of_prometheus(
    snapshot: Snapshot, figures: RawFigures, provider: MetricProvider, now: float
) -> WatcherMetrics:
    """As load-watcher reads Prometheus; a fetch with any error is discarded whole."""
    address = _connection_of(provider).address
    metrics_by_node: dict[str, list[Metric]] = {}
    for kind, operator, query in _BUILT_IN_QUERIES:
        for one_series in _series(snapshot, figures, address, query):
            name = one_series.labels.get("instance", "")
            if name and len(one_series.values) and np.isfinite(one_series.values[-1]):
                value = 100 * float(one_series.values[-1])
                metrics_by_node.setdefault(name, []).append(Metric(kind, operator, value))
    nodes = {name: tuple(metrics) for name, metrics in sorted(metrics_by_node.items())}
    return WatcherMetrics(nodes, now, now - _WINDOW_SECONDS, now, "Prometheus")


def _series(snapshot: Snapshot, figures: RawFigures, address: str, query: str) -> tuple[Series, ...]:
    try:
        return decode_answer(figures.prometheus.asking(address, snapshot.source)(PrometheusQuery(query)))
    except (ValueError, RecursionError) as error:
        raise InputError(failure_words(error), where=address) from error


def by_node_name(series: Iterable[Series], label: str, index: NodeNameIndex) -> dict[str, float]:
    """The value by node, whose name or address is in a label; a node with several samples is absent."""
    value_by_row: dict[int, float] = {}
    twice: set[int] = set()
    for one_series in series:
        row = index.row(one_series.labels.get(label, ""))
        if row in value_by_row:
            twice.add(row)
        elif row is not None and len(one_series.values) and np.isfinite(one_series.values[-1]):
            value_by_row[row] = float(one_series.values[-1])
    return {index.names[row]: value for row, value in sorted(value_by_row.items()) if row not in twice}


def url_of(address: str) -> str:
    """An address as plugins write it, which may lack its scheme; InputError when it is none."""
    url = address if address.startswith(("http://", "https://")) else f"http://{address}"
    if len(url) > _MAX_ADDRESS_LENGTH or not url.isprintable() or " " in url or "@" in url:
        shown = "an address with a user name" if "@" in url else f"{address[:60]!a}"
        raise InputError(f"{shown} is not the address of a Prometheus server")
    try:
        return checked_address(url).rstrip("/")
    except ValueError as error:
        raise InputError(str(error), where=url) from error
