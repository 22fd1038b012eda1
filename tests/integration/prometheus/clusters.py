"""Small clusters and readers for tests against Prometheus."""

from __future__ import annotations

from typing import Any

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.prometheus.client import LivePrometheus
from rebalancer.load.prometheus.queries import Connection
from rebalancer.load.prometheus.reader import PrometheusReader
from rebalancer.load.windows import PRESENT, MetricWindow
from rebalancer.policy.load_sources import Prometheus as Settings
from rebalancer.policy.load_sources import Signal
from rebalancer.retries import Retries
from tests.builders import a_node, a_pod, a_snapshot
from tests.integration.prometheus.servers import Samples
from tests.waiting import present

GIB = 1 << 30
# Samples are of the recent past: a Prometheus forgets what is older than its retention.
NOW = float(int(present() / 60) * 60 - 600)
NAMES = ("n0", "n1", "n2")


def a_cluster(*names: str) -> Snapshot:
    """Nodes of four cores and 8 GiB at 10.0.0.1, 10.0.0.2, … with a pod on the first."""
    nodes = []
    for number, name in enumerate(names or NAMES, start=1):
        node: dict[str, Any] = a_node(name)
        address = f"10.0.{number // 250}.{number % 250}"
        node["status"]["addresses"] = [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ]
        nodes.append(node)
    first = (names or NAMES)[0]
    pods = [a_pod("web-0", node=first, cpu="1", memory="1Gi"), a_pod("web-1", node=first, cpu="1")]
    return a_snapshot(nodes=nodes, pods=pods)


def node_exporter(
    samples: Samples, instance: str, *, cores: float, memory: float = 2 * GIB, end: float = NOW, **labels: str
) -> None:
    """What node_exporter tells of a node that uses so many cores and bytes."""
    of = {"instance": instance, "job": "node-exporter", **labels}
    samples.counter("node_cpu_seconds_total", {**of, "cpu": "0", "mode": "user"}, cores, end, 1800)
    samples.counter("node_cpu_seconds_total", {**of, "cpu": "0", "mode": "idle"}, 4 - cores, end, 1800)
    samples.steady("node_memory_MemTotal_bytes", of, 8 * GIB, end, 1800)
    samples.steady("node_memory_MemAvailable_bytes", of, 8 * GIB - memory, end, 1800)


def a_reader(
    address: str,
    snapshot: Snapshot,
    *,
    window: MetricWindow = PRESENT,
    resources: tuple[str, ...] = ("cpu", "memory"),
    signals: dict[str, Signal] | None = None,
    now: float = NOW,
    asked_at: float | None = None,
    **settings: Any,
) -> PrometheusReader:
    found = Settings(address=address, **settings)
    connection = Connection(
        found.address or address, bearer_token_file=found.bearer_token_file, timeout_seconds=found.timeout
    )
    ask = LivePrometheus(connection, None, now, retries=Retries(pause=lambda _: None))
    when = present() if asked_at is None else asked_at
    return PrometheusReader(
        settings=found,
        ask=ask,
        nodes=snapshot.nodes,
        pods=snapshot.pods,
        now=now,
        window=window,
        resources=resources,
        signals=signals or {},
        asked_at=when,
    )
