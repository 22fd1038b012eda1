"""Records what Prometheus answers beside a cluster, so that the same figures can be read offline."""

from __future__ import annotations

import os
from collections.abc import Callable

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.recordings.listing import Recording
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import RebalancerError
from rebalancer.load.figures.metric_windows import Window
from rebalancer.load.prometheus.access import PrometheusAccess, connection_of, live_access
from rebalancer.load.prometheus.answers import DOCUMENT
from rebalancer.load.prometheus.source import PrometheusReader
from rebalancer.load.scheduler_view import ViewInputs, read_view, watcher_addresses
from rebalancer.policy import LoadedPolicy, PrometheusSource, measured_resources
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.plugins.queries import plugin_queries


def prometheus_document(
    recording: Recording,
    loaded: LoadedPolicy,
    configuration: SchedulerConfiguration | None,
    api: RawApi,
    clock: Callable[[], float],
    warn: Callable[[str], None],
) -> dict[str, bytes]:
    """The answers to every question that a plan with this policy and configuration asks."""
    now, inside = clock(), "KUBERNETES_SERVICE_HOST" in os.environ
    access = live_access(api, now, now, inside=inside)
    snapshot = build_snapshot(recording)
    for warning in _read_sources(snapshot, loaded, access, now):
        warn(warning)
    if configuration is not None and _asks_prometheus(configuration):
        queries = plugin_queries(configuration)
        read_view(ViewInputs(snapshot, configuration, (), queries, api, access, inside, now))
    book = access.book
    return {DOCUMENT: book.encode()} if book.answers or book.failures else {}


def _asks_prometheus(configuration: SchedulerConfiguration) -> bool:
    providers = watcher_addresses(configuration).values()
    built_in = any(provider is not None and provider.type == "Prometheus" for provider in providers)
    return built_in or bool(plugin_queries(configuration))


def _read_sources(
    snapshot: Snapshot, loaded: LoadedPolicy, access: PrometheusAccess, now: float
) -> list[str]:
    """Ask what the policy's sources ask, and say what was not answered."""
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
                window=Window(settings.window, settings.statistic),
                resources=measured_resources(loaded.policy),
                signals=settings.signals,
                asked_at=now,
            )
            warnings += reader.node_figures().warnings
            reader.pod_figures()
        except RebalancerError as error:
            warnings.append(f"prometheus is not recorded: {error}")
    return warnings
