"""Records what Prometheus answers beside a cluster, so that the same figures can be read offline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import RebalancerError
from rebalancer.load.plugin_sources import PluginSources, read_view, watcher_addresses
from rebalancer.load.prometheus.reader import PrometheusAccess, PrometheusReader, connection_of, live_access
from rebalancer.load.prometheus.responses import DOCUMENT
from rebalancer.load.service_addresses import runs_in_a_cluster
from rebalancer.load.windows import MetricWindow
from rebalancer.pipeline.scheduler.score_rules import scored_resources
from rebalancer.policy import LoadedPolicy, PrometheusSource, measured_resources, pressure_resources
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling import plugin_queries

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


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
