"""Warns of unprotected connections, in the kubeconfig, the policy and the scheduler's configuration.

Whoever reads such a connection on the network, or answers in place of the server, can steal credentials or
forge the figures that a plan is made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from rebalancer.addresses import is_read_on_the_way
from rebalancer.planning.inputs import About, PlanWarning, SchedulerFacts
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration


def insecure_connections(
    policy: RebalancePolicy, schedulers: Iterable[SchedulerFacts], server: str
) -> Iterator[PlanWarning]:
    """One warning that lists every connection without protection; none when all are protected.

    ``server`` is what ``unprotected_server`` returned: what the connection to the API server lacks.
    """
    unprotected: list[str] = []
    if server:
        unprotected.append(server)
    unprotected += _unprotected_prometheus(policy)
    for scheduler in schedulers:
        unprotected += _unprotected_providers(scheduler.configuration)
    if unprotected:
        listed = "; ".join(dict.fromkeys(unprotected))
        yield PlanWarning(About.SAFETY, f"connections without protection: {listed}")


def unprotected_server(host: str, *, verifies_certificates: bool) -> str:
    """What the connection to an API server lacks; empty when it is protected."""
    if is_read_on_the_way(host):
        return (
            f"the API server {host} gets credentials over plain http "
            "(write https:// as server in the kubeconfig)"
        )
    if not verifies_certificates and urlsplit(host).scheme == "https":
        return (
            f"the certificate of the API server {host} is not verified "
            "(insecure-skip-tls-verify in the kubeconfig)"
        )
    return ""


def _unprotected_prometheus(policy: RebalancePolicy) -> Iterator[str]:
    """What the connections to the policy's Prometheus servers lack."""
    for source in policy.load.sources:
        if not isinstance(source, PrometheusSource) or source.prometheus.address is None:
            continue
        settings = source.prometheus
        if settings.insecure_skip_verify and urlsplit(source.prometheus.address).scheme == "https":
            yield f"the certificate of Prometheus {settings.address} is not verified (insecureSkipVerify)"


def _unprotected_providers(configuration: SchedulerConfiguration) -> Iterator[str]:
    """What the connections to the metricProviders of Trimaran's plugins lack.

    The load-watcher inside Trimaran verifies no certificate unless insecureSkipVerify is false. Neither
    does rebalancer, which reads the same Prometheus.
    """
    for profile in configuration.profiles:
        for arguments in profile.arguments.values():
            provider = getattr(arguments, "metric_provider", None)
            if provider is None or provider.type != "Prometheus" or not provider.address:
                continue
            if getattr(arguments, "watcher_address", ""):
                continue
            address = provider.address
            if "://" not in address:
                address = f"http://{address}"
            if provider.token and is_read_on_the_way(address):
                yield f"metricProvider {address} gets its token over plain http (write https://)"
            if address.startswith("https://") and provider.insecure_skip_verify is not False:
                yield (
                    f"the certificate of metricProvider {address} is not verified "
                    "(insecureSkipVerify, which is true unless set to false)"
                )
