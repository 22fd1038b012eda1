from __future__ import annotations

import pytest

from rebalancer.errors import InputError
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import measured_resources, parse_policy, required_resources, to_yaml
from rebalancer.policy.schema import RebalancePolicy
from tests.rows import rows

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
PROMETHEUS = """\
load:
  sources: [{prometheus: {address: "http://prometheus.monitoring:9090"}}]
  signals: {disk: {query: used}, queue: {query: depth, capacity: "50"}}
"""


def read(body: str) -> RebalancePolicy:
    return parse_policy(HEAD + body, "policy.yaml").policy


def refusal(body: str) -> str:
    with pytest.raises(InputError) as caught:
        read(body)
    return str(caught.value)


def test_what_is_measured_is_what_rules_and_signals_name() -> None:
    policy = read(PROMETHEUS + "hotNodes: {any: [{utilization: {pods: 90, disk: 80, networkReceive: 70}}]}\n")

    assert measured_resources(policy) == ("cpu", "memory", "disk", "networkReceive", "queue")
    assert required_resources(policy) == ("cpu", "memory", "disk", "networkReceive")


def test_a_policy_with_prometheus_is_printed_and_read_back() -> None:
    policy = read(PROMETHEUS + "hotNodes: {any: [{deviation: {disk: 20}, floor: {disk: 50}}]}\n")

    assert parse_policy(to_yaml(policy), "printed").policy == policy


def test_a_query_is_a_text_or_says_its_unit() -> None:
    address = 'load: {sources: [{prometheus: {address: "http://p", queries: '
    policy = read(address + "{cpu: cores, memory: {query: used, unit: ratio}}}}]}\n")
    (source,) = policy.load.sources

    assert isinstance(source, PrometheusSource)
    queries = source.prometheus.queries
    assert queries.cpu is not None
    assert (queries.cpu.query, queries.cpu.unit) == ("cores", "amount")
    assert queries.memory is not None
    assert (queries.memory.query, queries.memory.unit) == ("used", "ratio")


def prometheus(fields: str) -> str:
    return f"load: {{sources: [{{prometheus: {{{fields}}}}}]}}\n"


@rows(
    "body, message",
    [
        (
            "hotNodes: {any: [{utilization: {dsik: 80}}]}\n",
            "policy.yaml:3:33 hotNodes.any[0].utilization.dsik: dsik is unknown; known: cpu, memory, pods",
        ),
        (
            PROMETHEUS + "hotNodes: {any: [{utilization: {dsik: 80}}]}\n",
            "did you mean disk?",
        ),
        (
            "hotNodes: {any: [{deviation: {networkReceive: 20}}]}\n",
            "nothing measures networkReceive: load.sources has no prometheus source",
        ),
        ("load: {signals: {disk: {query: used}}}\n", "signals are read from Prometheus"),
        (PROMETHEUS.replace("disk", "cpu"), "cpu is a resource already"),
        (PROMETHEUS.replace("disk", "Disk!"), "load.signals"),
        (prometheus('address: "http://me:secret@prometheus"'), "load.sources[0].prometheus.address"),
        (prometheus('address: "http://p?x=1"'), "load.sources[0].prometheus.address"),
        (prometheus('address: "file:///etc/passwd"'), "load.sources[0].prometheus.address"),
        (prometheus('address: "http://p", nodeLabel: "a b"'), "nodeLabel"),
        (prometheus('address: "http://p", network: {device: \'eth0"} or x{\'}'), "network.device"),
        (
            prometheus(
                'address: "http://p", bearerTokenFile: /t, basicAuth: {username: u, passwordFile: /p}'
            ),
            "at most one of bearerTokenFile and basicAuth may be given",
        ),
        (prometheus('address: "http://p", headers: {Authorization: "Bearer secret"}'), "bearerTokenFile"),
        (prometheus('address: "http://p", headers: {X-Api-Key: secret}'), "X-Api-Key may not be set here"),
        (prometheus('address: "http://p", headers: {X-A: "secret\\r\\nHost: b"}'), "the value of X-A is not"),
        (prometheus('address: "http://p", headers: {"X A": secret}'), "'X A' is not the name of a header"),
        (prometheus('address: "http://p", labels: {"a-b": x}'), "labels"),
        (
            "load: {sources: [{prometheus: {address: 'http://p', headers: {X-Scope-OrgID: secret}}}, "
            "{prometheus: {address: 'http://p'}}]}\n",
            "http://p is named twice with different headers",
        ),
        ("load: {statistic: median}\n", "load.statistic"),
        ("load: {statistic: p0}\n", "load.statistic"),
        ("load: {window: 5m, statistic: {cpu: median}}\n", "load.statistic: 'median' is not a statistic"),
        ("load: {window: 5m, statistic: {pods: p95}}\n", "pods are counted"),
        ("load: {window: 5m, statistic: {memroy: p95}}\n", "load.statistic.memroy"),
        ("load: {window: 5m, statistic: {}}\n", "names no resource"),
        ("load: {statistic: {cpu: p66}}\n", "set load.window"),
        ("load: {statistic: predictedPeak}\n", "set load.window"),
        ("load: {window: 30h}\n", "load.window"),
    ],
)
def test_what_is_wrong_with_a_source_is_said_with_its_place(body: str, message: str) -> None:
    said = refusal(body)

    assert message in said
    assert "\n" not in said
    assert "secret" not in said.replace("me:secret@prometheus", "")


LOGINS = ("bearerTokenFile: {}", "basicAuth: {{username: u, passwordFile: {}}}")


@pytest.mark.parametrize("login", LOGINS)
def test_credentials_go_over_plain_http_to_loopback_alone(login: str) -> None:
    given = login.format("/etc/prometheus/token")

    for address in (
        "http://p",
        "http://p.monitoring:9090",
        "http://127.0.0.1.example.com",
        "http://[fe80::1]:9090",
    ):
        assert "write https://" in refusal(prometheus(f'address: "{address}", {given}'))
    for address in (
        "https://p.monitoring:9090",
        "http://127.0.0.1:9090",
        "http://localhost",
        "http://[::1]:9090",
    ):
        assert read(prometheus(f'address: "{address}", {given}'))
    assert read(prometheus('address: "http://p.monitoring:9090"'))
