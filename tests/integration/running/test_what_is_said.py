"""What a run says of its evictions: in which cluster, why, and where to; the same in every place."""

from __future__ import annotations

import json

from tests.integration.running.hot_clusters import HotCluster, cluster

__all__ = ["cluster"]


def test_a_run_says_of_each_eviction_its_cluster_its_reason_and_its_landing(cluster: HotCluster) -> None:
    journal = cluster.folder / "journal.jsonl"
    plan = json.loads(cluster.start("plan", "-o", "json", "--cluster-name", "north").stdout)
    result, _ = cluster.run("--cluster-name", "north")
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    events = [record.object for record in cluster.sandbox.store.records("events")[0]]
    move = plan["moves"][0]
    uid = move["pod"]["uid"]

    assert plan["source"].startswith("north, context ")
    assert plan["source"].endswith(f"({cluster.sandbox.url})")
    assert next(line["cluster"] for line in lines if line["event"] == "run-started") == plan["source"]
    (line,) = [line for line in lines if line["event"] == "evicting" and line["uid"] == uid]
    assert (line["strategy"], line["from"], line["because"]) == (
        "hotNodes",
        move["from"],
        move["because"],
    )
    assert line["landings"] == {item["node"]: item["probability"] for item in move["landings"]}
    of_move = [event for event in events if event["metadata"]["name"].startswith(f"rebalanced-{uid}")]
    assert {event["metadata"]["annotations"]["rebalancer/cluster"] for event in of_move} == {plan["source"]}
    assert {event["involvedObject"]["kind"] for event in of_move} == {"ReplicaSet", "Deployment"}
    assert {event["message"].partition(": ")[2] for event in of_move} == {line["because"]}
