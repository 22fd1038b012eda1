from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rebalancer.observe.warnings import insecure_connections
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.scheduling.registry import default_configuration, load_configuration


def an_api(host: str, *, verifies: bool = True) -> Any:
    return SimpleNamespace(host=host, client=SimpleNamespace(verifies_certificates=verifies))


def reading(**prometheus: Any) -> RebalancePolicy:
    return RebalancePolicy.model_validate({"load": {"sources": [{"prometheus": prometheus}]}})


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        (an_api("https://api:6443"), ()),
        (an_api("http://127.0.0.1:6443"), ()),
        (an_api("https://api:6443", verifies=False), ("certificate of the API server https://api:6443",)),
        (an_api("http://api:6443"), ("credentials over plain http",)),
    ],
)
def test_an_unprotected_way_to_the_api_server_is_one_warning(api: Any, expected: tuple[str, ...]) -> None:
    found = insecure_connections(RebalancePolicy(), default_configuration(), api)

    assert len(found) == len(expected)
    assert all(part in line for part, line in zip(expected, found, strict=True))


def test_prometheus_without_protection_is_named_with_its_setting() -> None:
    login = {"username": "u", "passwordFile": "f"}
    plain = insecure_connections(
        reading(address="http://prom", basicAuth=login), default_configuration(), None
    )
    unverified = insecure_connections(
        reading(address="https://prom", insecureSkipVerify=True), default_configuration(), None
    )

    assert "Prometheus http://prom gets credentials over plain http" in plain[0]
    assert "not verified (insecureSkipVerify)" in unverified[0]
    assert not insecure_connections(reading(address="http://prom"), default_configuration(), None)


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
    (line,) = insecure_connections(RebalancePolicy(), load_configuration(text, "t"), None)

    assert "metricProvider http://prom:9090 gets its token over plain http" in line
    assert "abc" not in line
