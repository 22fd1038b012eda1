"""Which Service of a cluster is its Prometheus, where a policy names none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.sources import prometheus_address, with_addresses
from rebalancer.policy.policy_file import parse_policy
from tests.builders import a_node, a_snapshot
from tests.rows import rows

STACK = {"app": "kube-prometheus-stack-prometheus"}
CHART = {"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/component": "server"}
WEB: Sequence[Mapping[str, Any]] = (
    {"name": "http-web", "port": 9090},
    {"name": "reloader-web", "port": 8080},
)
POLICY = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nload: {sources: [{prometheus: {%s}}]}\n"


def a_service(name: str, labels: Mapping[str, str], *ports: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "monitoring", "labels": dict(labels)}
    return {"metadata": metadata, "spec": {"ports": [dict(port) for port in ports]}}


def cluster(*services: Mapping[str, Any]) -> Snapshot:
    return a_snapshot(nodes=[a_node("a")], pods=[], services=list(services))


@rows(
    "labels, ports, address",
    [
        (STACK, WEB, "http://it.monitoring:9090"),
        (CHART, [{"name": "http", "port": 80}], "http://it.monitoring:80"),
        (CHART, [{"port": 9099}], "http://it.monitoring:9099"),
        ({"app": "prometheus", "component": "server", "release": "x"}, WEB, "http://it.monitoring:9090"),
    ],
)
def test_it_is_found_by_the_labels_of_the_charts(
    labels: Mapping[str, str], ports: Sequence[Mapping[str, Any]], address: str
) -> None:
    others = [
        a_service("web", {"app": "web"}, {"port": 80}),
        a_service("operated", {"operated-prometheus": "true"}),
    ]
    assert prometheus_address(cluster(a_service("it", labels, *ports), *others)) == address


@rows(
    "services, says",
    [
        ([], "no Service has the labels of one"),
        ([a_service("it", {"app": "prometheus"}, *WEB)], "no Service has the labels of one"),
        ([a_service("it", STACK, {"name": "a", "port": 1}, {"name": "b", "port": 2})], "no Service"),
        (
            [a_service("one", STACK, *WEB), a_service("two", CHART, *WEB)],
            "2 were found: http://one.monitoring:9090, http://two.monitoring:9090",
        ),
    ],
)
def test_nobody_is_asked_where_none_or_several_could_be_meant(
    services: Sequence[Mapping[str, Any]], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        prometheus_address(cluster(*services))


def test_services_that_were_not_read_are_not_taken_for_none() -> None:
    with pytest.raises(UnreachableError, match="services are not known"):
        prometheus_address(a_snapshot(nodes=[a_node("a")], pods=[]))


def test_a_policy_gets_the_address_only_where_it_names_none() -> None:
    found = cluster(a_service("it", STACK, *WEB))
    loaded = with_addresses(parse_policy(POLICY % "timeout: 3s", "p"), found)
    (source,) = loaded.policy.model_dump()["load"]["sources"]
    assert (source["prometheus"]["address"], source["prometheus"]["timeout"]) == (
        "http://it.monitoring:9090",
        3.0,
    )
    named = parse_policy(POLICY % "address: http://mine:9090", "p")
    assert with_addresses(named, found) is named


def test_credentials_go_to_no_server_that_was_merely_found() -> None:
    with pytest.raises(InputError, match="needs an address"):
        parse_policy(POLICY % "bearerTokenFile: /var/token", "p")
