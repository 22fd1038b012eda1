"""What the scheduler's plugins see of a real Prometheus, inside a cluster and from outside."""

from __future__ import annotations

import contextlib
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from rebalancer.load.plugin_sources import plugin_requests, read_view, watcher_addresses
from rebalancer.load.prometheus.client import LivePrometheus
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.responses import RecordedResponses, decode_answer
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import Metric, SchedulerView
from rebalancer.scheduling.registry import load_configuration, plugin_queries
from tests.integration.prometheus.clusters import NAMES, NOW, a_cluster
from tests.integration.prometheus.servers import Prometheus, Samples, moments, running
from tests.integration.reading.servers import a_sandbox, api_of
from tests.ports import free_port
from tests.waiting import HANG_SECONDS

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: s
  plugins: {{score: {{enabled: [{{name: {plugin}}}]}}}}
  pluginConfig:
  - name: {plugin}
    args: {arguments}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    samples = Samples()
    for name, ratio in zip(NAMES, (0.9, 0.5, 0.1), strict=True):
        wave = [(moment, ratio + (0.05 if number % 2 else -0.05)) for number, moment in enumerate(past())]
        samples.add("instance:node_cpu:ratio", {"instance": name}, wave)
        samples.steady("instance:node_memory_utilisation:ratio", {"instance": name}, ratio / 2, NOW, 1800)
    # Two nodes are known by address and port, as load-watcher does not know them.
    samples.steady("instance:node_cpu:ratio", {"instance": "10.0.0.1:9100"}, 1.0, NOW, 1800)
    for number, name in enumerate(NAMES):
        of = {"instance": f"10.0.0.{number + 1}:9100"}
        samples.steady("node_uname_info", {**of, "nodename": name}, 1.0, NOW, 1800)
        received = {**of, "device": "eth0"}
        samples.steady("node_network_receive_bytes_total", received, 100.0 * (number + 1), NOW, 1800)
    with running(tmp_path_factory.mktemp("prometheus"), samples) as found:
        yield found


def past() -> list[float]:
    return moments(NOW, 1800)


def seen(plugin: str, arguments: Mapping[str, Any], now: float = NOW) -> SchedulerView:
    text = CONFIGURATION.format(plugin=plugin, arguments=json.dumps(arguments))
    configuration = load_configuration(text, "test")
    queries, responses = plugin_queries(configuration), RecordedResponses(now)
    for connection, query in plugin_requests(configuration, queries):
        server = LivePrometheus(connection, None, now)
        responses.keep(connection.address, query, lambda server=server, query=query: server(query))  # type: ignore[misc]
    figures = RawFigures(prometheus=responses)
    return read_view(a_cluster(), figures, watcher_addresses(configuration), queries, now)


def test_the_load_watcher_in_a_plugin_reads_averages_and_deviations_of_instances(server: Prometheus) -> None:
    provider = {"type": "Prometheus", "address": server.address}
    view = seen("LoadVariationRiskBalancing", {"metricProvider": provider})

    found = view.watchers[""]
    assert view.missing == {}
    assert set(found.nodes) == {*NAMES, "10.0.0.1:9100"}  # verbatim: no figure of a node by that name
    by_kind = {(metric.type, metric.operator): metric.value for metric in found.nodes["n0"]}
    assert by_kind["CPU", "AVG"] == pytest.approx(90, abs=0.5)
    assert by_kind["CPU", "STD"] == pytest.approx(5, abs=0.1)
    assert by_kind["Memory", "AVG"] == pytest.approx(45)
    assert by_kind["Memory", "STD"] == pytest.approx(0, abs=1e-9)
    assert all(isinstance(metric, Metric) for metric in found.nodes["n1"])
    assert found.window_end - found.window_start == 900


def test_the_load_watcher_in_a_plugin_whose_prometheus_is_down_sees_nothing() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    view = seen("TargetLoadPacking", {"metricProvider": {"type": "Prometheus", "address": address}})

    assert view.watchers == {}
    assert "no answer: NewConnectionError" in view.missing[""]


def test_network_traffic_sees_its_own_query_by_the_name_of_the_node(server: Prometheus) -> None:
    arguments = {"ip": server.address, "deviceName": "eth0", "timeRange": 1}
    view = seen("NetworkTraffic", arguments)
    ((address, query),) = view.queries

    assert address == server.address
    assert query.startswith("sum_over_time(node_network_receive_bytes_total")
    first = view.queries[address, query]["n0"]
    assert first in (200.0, 300.0)  # two or three samples of 100 in a minute
    assert view.queries[address, query] == {"n0": first, "n1": 2 * first, "n2": 3 * first}


def test_from_outside_prometheus_is_asked_through_the_service_proxy(server: Prometheus) -> None:
    asked: list[Mapping[str, str] | None] = []

    def forward(query: Mapping[str, str] | None = None) -> Any:
        asked.append(query)
        text = urllib.parse.urlencode(query or {})
        with urllib.request.urlopen(
            f"{server.address}/api/v1/query?{text}", timeout=HANG_SECONDS
        ) as response:
            return json.loads(response.read())

    with contextlib.ExitStack() as stack:
        sandbox = a_sandbox()
        sandbox.serve("monitoring", "prometheus", 9090, "api/v1/query", forward)
        stack.enter_context(sandbox)
        api = stack.enter_context(api_of(sandbox.url))
        ask = LivePrometheus(Connection("http://prometheus.monitoring:9090"), api, NOW)
        series = decode_answer(
            ask(PrometheusQuery('{__name__="instance:node_cpu:ratio", instance="n2"} * 1'))
        )

    assert [item.labels["instance"] for item in series] == ["n2"]
    assert asked == [
        {"query": '{__name__="instance:node_cpu:ratio", instance="n2"} * 1', "time": f"{NOW:.3f}"}
    ]
