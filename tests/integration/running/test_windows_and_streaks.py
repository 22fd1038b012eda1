"""Spikes are no hot nodes: windows over earlier runs, and nodes that must be hot in several runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from rebalancer.cli.program import main
from rebalancer.state.run_state import RunState, after_reading, decode, encode
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import POLICY
from tests.integration.hot_cluster import hot_sandbox
from tests.waiting import present

WINDOW = POLICY.replace("load:\n", "load:\n  window: 15m\n")
TWICE = POLICY.replace("forRuns: 1", "forRuns: 2\n  runInterval: 1h").replace(
    "waveTimeout: 20s",
    "waveTimeout: 1h",  # of the real clock, by which these runs wait
)


class Cluster:
    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.state = folder / "state.json"

    def start(self, policy: str, command: str, *options: str) -> Result:
        written = self.folder / "policy.yaml"
        written.write_text(policy)
        kubeconfig = self.sandbox.write_kubeconfig(self.folder / "kubeconfig")
        arguments = ["--policy", str(written), "--kubeconfig", str(kubeconfig), "--state", str(self.state)]
        return CliRunner().invoke(main, [command, *arguments, "-o", "json", *options])

    def run(self, policy: str) -> Any:
        result = self.start(policy, "run", "--yes", "--journal", str(self.folder / "journal.jsonl"))
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def nodes(self, policy: str, now: float) -> dict[str, Any]:
        result = self.start(policy, "nodes", f"--now={now:.3f}")
        assert result.exit_code == 0, result.stderr
        return {node["name"]: node for node in json.loads(result.stdout)["nodes"]}

    def pass_time(self, seconds: float) -> None:
        """Let what the last run found be so much older."""
        state = decode(self.state.read_bytes(), "state")
        earlier = replace(state, hot_counted_at=state.hot_counted_at - seconds)
        self.state.write_bytes(encode(earlier))

    def remember(self, cpu_percent: float) -> float:
        """Three earlier runs, five minutes apart, that found every node at this load.

        Returns the present, at which the cluster's clock stands still from then on.
        """
        state: RunState | None = None
        now = present()
        self.sandbox.store.clock = lambda: now
        names = self.sandbox.node_utilisation()
        loads = {resource: dict.fromkeys(names, cpu_percent) for resource in ("cpu", "memory")}
        for minutes in (14, 10, 5):
            state = after_reading(state, loads, now - 60 * minutes, 900.0)
        assert state is not None
        self.state.write_bytes(encode(state))
        return now


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    sandbox = hot_sandbox(lag_seconds=0.0, ready_after=0.0)
    with sandbox:
        yield Cluster(sandbox, tmp_path)


def test_a_node_that_was_cool_in_the_runs_before_is_not_hot_for_a_moment(cluster: Cluster) -> None:
    now = cluster.remember(20.0)
    hot_now = [name for name, load in cluster.sandbox.node_utilisation().items() if load > 80]
    nodes = cluster.nodes(WINDOW, now)

    assert len(hot_now) == 2
    assert not any(node["hot"] for node in nodes.values())
    figure = nodes[hot_now[0]]["figures"]["cpu"]
    assert figure["windowSeconds"] == pytest.approx(14 * 60, abs=1)
    assert figure["deviation"] > 10
    assert [name for name, node in cluster.nodes(POLICY, now).items() if node["hot"]] == hot_now


def test_a_node_that_was_hot_in_the_runs_before_is_hot(cluster: Cluster) -> None:
    now = cluster.remember(95.0)

    assert sum(node["hot"] for node in cluster.nodes(WINDOW, now).values()) >= 2


def test_a_run_keeps_its_loads_for_the_next_ones(cluster: Cluster) -> None:
    cluster.run(WINDOW.replace("cpu: 80", "cpu: 99"))
    cluster.run(WINDOW.replace("cpu: 80", "cpu: 99"))
    state = decode(cluster.state.read_bytes(), "state")

    assert len(state.samples.taken) == 2
    at = state.samples.nodes.index("node-1")
    assert [sample.percent["cpu"][at] for sample in state.samples.taken] == pytest.approx(
        [cluster.sandbox.node_utilisation()["node-1"]] * 2, abs=0.2
    )


def test_a_node_must_be_hot_in_as_many_runs_as_the_policy_wants(cluster: Cluster) -> None:
    first = cluster.run(TWICE)
    cluster.pass_time(3600)
    second = cluster.run(TWICE)

    assert first["outcomes"] == []
    assert second["outcomes"]


def test_two_runs_a_moment_apart_make_no_streak(cluster: Cluster) -> None:
    assert [cluster.run(TWICE)["outcomes"] for _ in range(3)] == [[], [], []]
