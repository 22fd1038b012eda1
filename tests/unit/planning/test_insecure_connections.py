from __future__ import annotations

from typing import Any

from rebalancer.planning.inputs import SchedulerFacts
from rebalancer.planning.insecure_connections import insecure_connections, unprotected_server
from rebalancer.planning.warnings import sentences
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration, load_configuration
from tests.rows import rows


def said(policy: RebalancePolicy, configuration: SchedulerConfiguration, server: str = "") -> tuple[str, ...]:
    return sentences(insecure_connections(policy, (SchedulerFacts(configuration),), server))


def reading(**prometheus: Any) -> RebalancePolicy:
    return RebalancePolicy.model_validate({"load": {"sources": [{"prometheus": prometheus}]}})


@rows(
    "host, verifies, expected",
    [
        ("https://api:6443", True, ()),
        ("http://127.0.0.1:6443", True, ()),
        ("https://api:6443", False, ("certificate of the API server https://api:6443",)),
        ("http://api:6443", True, ("credentials over plain http",)),
    ],
)
def test_an_unprotected_way_to_the_api_server_is_one_warning(
    host: str, verifies: bool, expected: tuple[str, ...]
) -> None:
    server = unprotected_server(host, verifies_certificates=verifies)
    found = said(RebalancePolicy(), default_configuration(), server)

    assert len(found) == len(expected)
    assert all(part in line for part, line in zip(expected, found, strict=True))


def test_prometheus_without_protection_is_named_with_its_setting() -> None:
    unverified = said(reading(address="https://prom", insecureSkipVerify=True), default_configuration())

    assert "not verified (insecureSkipVerify)" in unverified[0]
    assert not said(reading(address="http://prom"), default_configuration())


def test_a_plugin_that_sends_a_token_in_the_clear_is_named() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: prom:9090, token: abc}}
"""
    (line,) = said(RebalancePolicy(), load_configuration(text, "t"))

    assert "metricProvider http://prom:9090 gets its token over plain http" in line
    assert "abc" not in line
