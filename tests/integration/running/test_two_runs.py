"""Two runs five minutes apart, with figures averaged over fifteen: the second sees mostly the time before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import POLICY, WATCHER_ADDRESS
from tests.integration.hot_cluster import hot_sandbox
from tests.waiting import present

WINDOW = 900.0
LATER = 300.0
AVERAGES = (
    POLICY.replace("    - metricsServer: {}\n", "")
    .replace("load:\n", "load:\n  maxAge: 10m\n")
    .replace("planning: {minGain: 5}", "planning: {minGain: 5, cooldown: 0s}")
    .replace("waveTimeout: 20s", "waveTimeout: 1h")  # of the real clock, by which these runs wait
)


@dataclass
class Averages:
    """A load-watcher whose figures are exact averages over fifteen minutes, with one change of load."""

    sandbox: Sandbox | None = None
    before: dict[str, float] = field(default_factory=dict)
    changed_at: float = 0.0  # when the load became what it is now; 0: it did not change
    now: float = 0.0

    def __call__(self, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        assert self.sandbox is not None
        now = self.now or present()
        current = self.sandbox.node_utilisation()
        since = min(1.0, (now - self.changed_at) / WINDOW) if self.changed_at else 0.0
        nodes = {
            name: self.before.get(name, load) * (1 - since) + load * since for name, load in current.items()
        }
        entries = {
            name: {
                "metrics": [
                    {"type": "CPU", "operator": "AVG", "rollup": "15m", "value": load},
                    {"type": "Memory", "operator": "AVG", "rollup": "15m", "value": 30.0},
                ]
            }
            for name, load in nodes.items()
        }
        window = {"duration": "15m", "start": int(now - WINDOW), "end": int(now)}
        data = {"NodeMetricsMap": entries}
        return {"timestamp": int(now), "window": window, "source": "Prometheus", "data": data}


@dataclass
class Cluster:
    sandbox: Sandbox
    averages: Averages
    folder: Path

    def start(self, command: str, *options: str) -> Result:
        policy = self.folder / "policy.yaml"
        policy.write_text(AVERAGES)
        kubeconfig = self.sandbox.write_kubeconfig(self.folder / "kubeconfig")
        return CliRunner().invoke(
            main, [command, "--policy", str(policy), "--kubeconfig", str(kubeconfig), "-o", "json", *options]
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    averages = Averages()

    sandbox = hot_sandbox(ready_after=0.0, load_watcher=averages)
    averages.sandbox, averages.before = sandbox, sandbox.node_utilisation()
    with sandbox:
        yield Cluster(sandbox, averages, tmp_path)


def test_the_second_of_two_runs_under_a_long_average_evicts_nothing(cluster: Cluster) -> None:
    assert WATCHER_ADDRESS in AVERAGES
    state = cluster.folder / "state.json"
    journal = str(cluster.folder / "journal.jsonl")
    first = cluster.start("run", "--yes", "--state", str(state), "--journal", journal)
    assert first.exit_code == 0, first.stderr
    assert json.loads(first.stdout)["outcomes"]

    averages = cluster.averages
    averages.changed_at = present()
    averages.now = averages.changed_at + LATER
    later = ("--now", f"{averages.now:.0f}")
    seen = {node["name"]: node["load"]["cpu"] for node in _plan(cluster, *later)["nodes"]}
    # What is measured still calls nodes hot that have cooled, ...
    assert max(seen.values()) > 80 > max(cluster.sandbox.node_utilisation().values())
    # ... and a run that remembers nothing would evict from them again;
    assert _plan(cluster, *later)["moves"]
    # the one that knows what moved does not.
    assert _plan(cluster, *later, "--state", str(state))["moves"] == []


def test_where_the_moved_load_is_unknown_the_node_is_settling(cluster: Cluster) -> None:
    state = cluster.folder / "state.json"
    journal = str(cluster.folder / "journal.jsonl")
    cluster.start("run", "--yes", "--state", str(state), "--journal", journal)
    remembered = json.loads(state.read_text())
    for move in remembered["moves"]:
        move["load"] = {}
    state.write_text(json.dumps(remembered))
    averages = cluster.averages
    averages.changed_at = present()
    averages.now = averages.changed_at + LATER
    plan = _plan(cluster, "--now", f"{averages.now:.0f}", "--state", str(state))

    left = {move["from"] for move in remembered["moves"]}
    nodes = {node["name"]: node for node in plan["nodes"]}
    assert plan["moves"] == []
    assert left
    assert all(any("settling: " in text for text in nodes[name]["because"]) for name in left)


def _plan(cluster: Cluster, *options: str) -> Any:
    result = cluster.start("plan", *options)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
