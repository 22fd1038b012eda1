"""The program against an embedded cluster whose load a real Prometheus tells, scraped from an exporter."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer.errors import ExitCode
from rebalancer.load.prometheus.queries import PrometheusQuery
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import (
    CONFIGURATION_NAME,
    CONFIGURATION_NAMESPACE,
    WATCHER_NAMESPACE,
    WATCHER_PORT,
    WATCHER_SERVICE,
    hot_cluster,
)
from tests.integration.prometheus.servers import Prometheus, answering, running
from tests.ports import free_port
from tests.waiting import eventually, present

GIB = 1 << 30
POLICY = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
scheduler: {{version: "1.35", configMap: {{namespace: NAMESPACE, name: NAME}}}}
load:
  sources:
    - prometheus:
        address: {address}
        queries: {{cpu: cores, memory: used_bytes}}
        pods: false
{sources}
{load}
hotNodes: {{forRuns: 1, any: [{rule}]}}
evictable: {{minAge: 10m}}
limits: {{perRun: 8, perNode: 4, perNamespace: 8, perWorkload: 100%}}
""".replace("NAMESPACE", CONFIGURATION_NAMESPACE).replace("NAME", CONFIGURATION_NAME)
METRICS_SERVER = "    - metricsServer: {}"
CPU_RULE = "{utilization: {cpu: 80}, coolTo: {cpu: 65}}"


@dataclass
class Exporter:
    """What each node uses, as the sandbox says, at http://HOST/NODE."""

    sandbox: Sandbox
    hidden: set[str] = field(default_factory=set)
    disk: dict[str, float] = field(default_factory=dict)

    def __call__(self, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        node = path.strip("/")
        if node in self.hidden:
            return 404, b""
        cores = self.sandbox.node_utilisation()[node] / 100 * 4
        text = f"cores {cores}\nused_bytes {3 * GIB}\ndisk_percent {self.disk.get(node, 20.0)}\n"
        return 200, text.encode()


@dataclass
class Cluster:
    sandbox: Sandbox
    exporter: Exporter
    prometheus: Prometheus
    folder: Path

    def start(self, command: str, *options: str, **policy: str) -> Result:
        written = self.folder / "policy.yaml"
        given = {"address": self.prometheus.address, "sources": "", "load": "", "rule": CPU_RULE, **policy}
        written.write_text(POLICY.format(**given))
        kubeconfig = self.sandbox.write_kubeconfig(self.folder / "kubeconfig")
        arguments = [command, "--policy", str(written), "--kubeconfig", str(kubeconfig), *options]
        return CliRunner().invoke(main, arguments)

    def answer(self, command: str, *options: str, **policy: str) -> Any:
        result = self.start(command, "-o", "json", *options, **policy)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def evicted(self) -> list[str]:
        return [
            pod["metadata"]["name"] for pod in self.sandbox.pods() if "deletionTimestamp" in pod["metadata"]
        ]

    def wait_for(self, query: str, count: int) -> None:
        from rebalancer.load.prometheus.responses import decode_answer
        from tests.integration.prometheus.clusters import a_cluster, a_reader

        def scraped() -> bool:
            ask = a_reader(self.prometheus.address, a_cluster(), now=present()).ask
            return len(decode_answer(ask(PrometheusQuery(query)))) >= count

        eventually(scraped, awaited=f"prometheus scrapes {count} of {query}")


@contextlib.contextmanager
def a_live_cluster(folder: Path, hidden: set[str], disk: dict[str, float]) -> Iterator[Cluster]:
    sandbox = Sandbox(hot_cluster(present()), ready_after=0.2, terminates_after=0.2)
    sandbox.serve(WATCHER_NAMESPACE, WATCHER_SERVICE, WATCHER_PORT, "watcher", sandbox.watcher())
    exporter = Exporter(sandbox, hidden, disk)
    names = sorted(sandbox.node_utilisation())
    with sandbox, answering(exporter) as host:
        targets = "\n".join(
            f"      - {{targets: ['{host}'], labels: {{instance: '{name}', __metrics_path__: '/{name}'}}}}"
            for name in names
        )
        scrape = f"scrape_configs:\n  - job_name: nodes\n    static_configs:\n{targets}\n"
        with running(folder / "prometheus", None, scrape) as prometheus:
            cluster = Cluster(sandbox, exporter, prometheus, folder)
            cluster.wait_for("cores", len(names) - len(hidden))
            yield cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_live_cluster(tmp_path_factory.mktemp("live"), {"node-6"}, {"node-1": 90.0}) as found:
        yield found


def test_the_first_fresh_figure_wins_and_the_listing_says_which_it_is(cluster: Cluster) -> None:
    source = f"prometheus {cluster.prometheus.address.removeprefix('http://')}"
    nodes: dict[str, Any] = {}
    listing: dict[str, Any] = {}

    def all_scraped() -> bool:
        listing.update(cluster.answer("nodes", sources=METRICS_SERVER))
        nodes.update({node["name"]: node for node in listing["nodes"]})
        found = {node["figures"]["cpu"]["source"] for name, node in nodes.items() if name != "node-6"}
        return found == {source}

    eventually(all_scraped, awaited="a scrape of every node that came in time")
    assert nodes["node-6"]["figures"]["cpu"]["source"] == "metrics-server"
    assert all(-5 <= node["figures"]["cpu"]["ageSeconds"] < 60 for node in nodes.values())
    loads = cluster.sandbox.node_utilisation()
    assert {name: node["load"]["cpu"] for name, node in nodes.items()} == pytest.approx(loads, abs=0.1)
    assert f"{source}: has no figure for cpu, memory on node node-6" in listing["warnings"]


def test_the_table_names_source_and_age_of_every_node(cluster: Cluster) -> None:
    shown = cluster.start("nodes", "-o", "wide", sources=METRICS_SERVER).stdout

    assert "cpu, memory from prometheus 127.0.0.1:" in shown
    assert "cpu, memory from metrics-server, " in shown


def test_a_plan_from_prometheus_cools_the_hot_nodes(cluster: Cluster) -> None:
    plan = cluster.answer("plan", sources=METRICS_SERVER)

    assert plan["hotCount"] == 2
    assert plan["moves"]
    assert {move["from"] for move in plan["moves"]} <= {"node-1", "node-2"}


def test_a_signal_makes_a_node_hot_and_a_plan_moves_its_pods(cluster: Cluster) -> None:
    policy = {
        "sources": METRICS_SERVER,
        "load": "  minCoverage: 50%\n  signals: {disk: {query: disk_percent}}",
        "rule": "{utilization: {disk: 70}, coolTo: {disk: 60}}",
    }
    plan = cluster.answer("plan", **policy)
    (hot,) = [node for node in plan["nodes"] if node["hot"]]

    assert (hot["name"], hot["load"]["disk"]) == ("node-1", 90.0)
    assert hot["because"] == ["disk 90.0 %: hot above 70 %, cool at 60 %"]
    assert plan["moves"]
    assert all(move["gain"]["disk"] >= 5 for move in plan["moves"])
    assert all("node-6" not in [landing["node"] for landing in move["landings"]] for move in plan["moves"])


def test_a_deviation_can_be_of_a_signal(cluster: Cluster) -> None:
    policy = {
        "load": "  minCoverage: 50%\n  signals: {disk: {query: disk_percent, capacity: '100'}}",
        "rule": "{deviation: {disk: 30}, coolTo: {disk: 20}}",
    }
    plan = cluster.answer("plan", **policy)

    assert [node["name"] for node in plan["nodes"] if node["hot"]] == ["node-1"]


def test_below_the_coverage_a_run_refuses_and_the_nodes_are_shown(cluster: Cluster) -> None:
    refused = cluster.start("run", "--yes", load="  minCoverage: 100%")

    assert refused.exit_code == ExitCode.STOPPED
    assert "only 5 of 6 nodes have a fresh load figure (83%), load.minCoverage is 100%" in refused.stderr
    assert cluster.evicted() == []
    listing = cluster.answer("nodes", load="  minCoverage: 100%")
    assert len(listing["nodes"]) == 6
    assert any("a run would refuse to act" in warning for warning in listing["warnings"])


def test_a_snapshot_holds_what_prometheus_answered(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    policy = {"sources": METRICS_SERVER, "load": "  signals: {disk: {query: disk_percent}}"}
    saved = _saved(cluster, folder, policy)
    assert saved.exit_code == 0, saved.output

    written = str(cluster.folder / "policy.yaml")
    offline = CliRunner().invoke(main, ["nodes", "--policy", written, "--from", str(folder), "-o", "json"])
    assert offline.exit_code == 0, offline.output
    nodes = {node["name"]: node for node in json.loads(offline.stdout)["nodes"]}
    assert nodes["node-1"]["load"]["disk"] == 90.0
    assert nodes["node-1"]["figures"]["cpu"]["source"].startswith("prometheus ")
    arguments = ["simulate", "--policy", written, "--from", str(folder), "-o", "json"]
    simulated = CliRunner().invoke(main, arguments)
    assert simulated.exit_code == 0, simulated.output
    assert json.loads(simulated.stdout)["runs"]


def _saved(cluster: Cluster, folder: Path, policy: dict[str, str]) -> Result:
    cluster.answer("nodes", **policy)  # writes the policy
    written, kubeconfig = cluster.folder / "policy.yaml", cluster.folder / "kubeconfig"
    arguments = ["snapshot", "save", str(folder), "--policy", str(written), "--kubeconfig", str(kubeconfig)]
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_with_every_source_down_it_is_said_what_was_tried_and_nothing_is_evicted(
    cluster: Cluster, command: str
) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    watcher = f'    - loadWatcher: {{address: "{dead}"}}'
    yes = ("--yes",) if command == "run" else ()
    result = cluster.start(command, *yes, address=dead, sources=watcher)

    assert result.exit_code == ExitCode.UNREACHABLE
    assert result.stdout == ""
    (line,) = [text for text in result.stderr.splitlines() if text.startswith("error: ")]
    assert "no load source answered: " in line
    assert f"{dead}/api/v1/query: no answer: NewConnectionError" in line
    assert "(3 attempts)" in line
    assert "load-watcher: " in line
    assert cluster.evicted() == []
