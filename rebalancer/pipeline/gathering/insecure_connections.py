"""Says which connections are not protected: certificates that nobody checks, credentials sent unencrypted.

Each of them was chosen in some file, often years ago and by somebody else. Whoever reads a plan should know
that its figures, or the plan itself, may be forged by anybody on the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def insecure_connections(
    policy: RebalancePolicy, configuration: SchedulerConfiguration, api: RawApi | None
) -> tuple[str, ...]:
    """One warning that lists every connection without protection; none when all are protected."""
    found = [*_to_the_cluster(api), *_of_the_policy(policy), *_of_the_plugins(configuration)]
    return (f"connections without protection: {'; '.join(dict.fromkeys(found))}",) if found else ()


def _to_the_cluster(api: RawApi | None) -> Iterator[str]:
    if api is None:
        return
    if _sent_in_the_clear(api.host):
        yield (
            f"the API server {api.host} gets credentials over plain http "
            "(write https:// as server in the kubeconfig)"
        )
    elif not api.client.verifies_certificates and urlsplit(api.host).scheme == "https":
        yield (
            f"the certificate of the API server {api.host} is not verified "
            "(insecure-skip-tls-verify in the kubeconfig)"
        )


def _of_the_policy(policy: RebalancePolicy) -> Iterator[str]:
    for source in policy.load.sources:
        if not isinstance(source, PrometheusSource):
            continue
        settings = source.prometheus
        logs_in = settings.bearer_token_file is not None or settings.basic_auth is not None
        if logs_in and _sent_in_the_clear(settings.address):
            yield f"Prometheus {settings.address} gets credentials over plain http (write https://)"
        if settings.insecure_skip_verify and urlsplit(settings.address).scheme == "https":
            yield f"the certificate of Prometheus {settings.address} is not verified (insecureSkipVerify)"


def _of_the_plugins(configuration: SchedulerConfiguration) -> Iterator[str]:
    """Trimaran's own load-watcher skips verification unless configured otherwise; so do we."""
    for profile in configuration.profiles:
        for arguments in profile.arguments.values():
            provider = getattr(arguments, "metric_provider", None)
            if provider is None or provider.type != "Prometheus" or not provider.address:
                continue
            if getattr(arguments, "watcher_address", ""):
                continue
            address = provider.address if "://" in provider.address else f"http://{provider.address}"
            if provider.token and _sent_in_the_clear(address):
                yield f"metricProvider {address} gets its token over plain http (write https://)"
            if address.startswith("https://") and provider.insecure_skip_verify is not False:
                yield (
                    f"the certificate of metricProvider {address} is not verified "
                    "(insecureSkipVerify, which is true unless set to false)"
                )


def _sent_in_the_clear(address: str) -> bool:
    """Whether what is sent there can be read on the network; loopback never leaves the machine."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and parts.hostname not in _LOOPBACK
    except ValueError:
        return False
