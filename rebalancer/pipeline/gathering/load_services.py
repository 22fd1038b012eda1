"""The services that plans rely on: the workloads behind them are never evicted."""

from __future__ import annotations

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.plugin_sources import watcher_addresses
from rebalancer.load.service_addresses import service_of
from rebalancer.planning.workloads.system_pods import system_workloads
from rebalancer.policy import LoadWatcherSource, PrometheusSource, RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling import plugin_queries


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
