"""Failed pods are removed by a run as a user starts it, beside the moves off hot nodes."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster

__all__ = ["cluster"]


def fail(cluster: HotCluster, name: str = "web") -> str:
    """Let a pod of a Deployment fail, as an eviction by the kubelet does; its name."""
    store = cluster.sandbox.store
    with store.lock:
        pod: dict[str, Any] = next(
            item
            for item in cluster.sandbox.pods()
            if item["metadata"]["name"].startswith(name) and item["spec"].get("nodeName")
        )
        pod["status"] = {"phase": "Failed", "reason": "Evicted"}
        store.update("pods", pod)
    cluster.sandbox.settle()
    return str(pod["metadata"]["name"])


def test_a_run_removes_failed_pods_and_waits_for_nothing(cluster: HotCluster) -> None:
    name = fail(cluster)
    cluster.policy += "strategies: {failed: {reasons: [Evicted]}}\n"
    result, outcomes = cluster.run()

    removed = {item["cleanup"]["pod"]["name"]: item["result"] for item in outcomes["cleanups"]}
    assert (result.exit_code, outcomes["stopped"]) == (0, ""), result.stderr
    assert removed == {name: "Removed"}
    assert {item["result"] for item in outcomes["outcomes"]} <= LANDED
    assert name not in {pod["metadata"]["name"] for pod in cluster.sandbox.pods()}


def test_without_the_strategy_they_stay(cluster: HotCluster) -> None:
    name = fail(cluster)
    cluster.run()

    assert name in {pod["metadata"]["name"] for pod in cluster.sandbox.pods()}


def test_a_dry_run_and_the_journal_say_whose_wish_it_is(cluster: HotCluster) -> None:
    name = fail(cluster)
    cluster.policy += "strategies: {failed: true}\n"
    shown = json.loads(cluster.start("run", "--dry-run", "-o", "json").stdout)
    cluster.run()

    cleanups = {item["cleanup"]["pod"]["name"]: item for item in shown["cleanups"]}
    journal = (cluster.folder / "journal.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in journal if name in line]
    assert (cleanups[name]["result"], cleanups[name]["cleanup"]["strategy"]) == ("WouldEvict", "failed")
    assert [(line["event"], line["strategy"]) for line in lines] == [
        *(("removing", "failed"), ("removed", "failed"))
    ]
