"""Planning and running against the API of an older minor: what it does not serve is read in what it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalancer_demo import Surface
from rebalancer_demo.hot_cluster import POLICY
from tests.integration.hot_cluster import hot_sandbox, uids
from tests.integration.running.hot_clusters import LANDED, HotCluster, Waits, results

ALL_THE_SAME = POLICY.replace("scheduler:", "scheduler:\n  allowUnverifiedVersion: true", 1)


@pytest.fixture
def old_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HotCluster]:
    with hot_sandbox(ready_after=0.0, surface=Surface(20)) as sandbox:
        waits = Waits(sandbox)
        waits.are_those_of_runs(monkeypatch)
        yield HotCluster(sandbox, tmp_path, waits, ALL_THE_SAME, uids(sandbox))


def test_a_run_on_kubernetes_1_20_cools_the_hot_nodes(old_cluster: HotCluster) -> None:
    result, outcomes = old_cluster.run()

    assert (result.exit_code, outcomes["stopped"]) == (0, ""), result.stderr
    assert set(results(outcomes)) <= LANDED
    assert max(old_cluster.sandbox.node_utilisation().values()) < 80


def test_budgets_of_policy_v1beta1_are_respected(old_cluster: HotCluster) -> None:
    before, _ = planned(old_cluster)
    sandbox = old_cluster.sandbox
    protected = set()
    for budget in sandbox.store.all("poddisruptionbudgets"):
        metadata = budget["metadata"]
        protected.add(metadata["name"])  # as its app
        sandbox.store.mutate("poddisruptionbudgets", metadata["namespace"], metadata["name"], allows_nothing)
    sandbox.settle()
    after, reasons = planned(old_cluster)

    assert protected & before
    assert not protected & after
    assert "Budget" in reasons


def planned(cluster: HotCluster) -> tuple[set[str], set[str]]:
    """The apps that a plan moves, and the reasons why other pods stay."""
    result = cluster.start("plan", "-o", "json")
    assert result.exit_code == 0, result.stderr
    plan = json.loads(result.stdout)
    moved = {move["pod"]["controllerName"].partition("-")[0] for move in plan["moves"]}
    return moved, {pod["reason"] for pod in plan["kept"]}


def allows_nothing(budget: dict[str, Any]) -> None:
    budget["spec"]["minAvailable"] = "100%"
    budget["metadata"]["generation"] += 1
