"""A run that empties nodes: they are closed while it lasts and for a time afterwards, and never longer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rebalancer.cluster import times
from rebalancer.cluster.live import open_api
from rebalancer.execution.journal import Journal
from rebalancer.planning.taints import EMPTIED, TAINT_KEY
from rebalancer.policy.schema import Execution
from rebalancer.run.taints import RunTaints
from rebalancer_demo import Fault
from rebalancer_demo.objects import Object
from tests.builders import a_node, a_snapshot
from tests.integration.running.hot_clusters import HotCluster, cluster, results
from tests.unit.reporting.builders import a_move, a_plan
from tests.waiting import present

__all__ = ["cluster"]

CLOSED_FOR = 3600


@pytest.fixture(name="idle")
def _idle(cluster: HotCluster) -> HotCluster:
    """No node is hot, and the pods of node-4 may leave it."""
    cluster.policy = cluster.policy.replace("cpu: 80, memory: 85", "cpu: 99, memory: 99")
    cluster.policy += (
        f"strategies: {{consolidation: {{taintFor: {CLOSED_FOR}s, minNodeAge: 0s, maxNodes: 1}}}}\n"
    )

    def loosen(item: Object) -> None:
        item["spec"] = {**item["spec"], "minAvailable": 1}

    cluster.sandbox.store.mutate("poddisruptionbudgets", "shop", "search", loosen)
    cluster.sandbox.settle()
    return cluster


def closed(cluster: HotCluster) -> dict[str, str]:
    """By node that is closed: the value of its taint."""
    return {
        node["metadata"]["name"]: taint["value"]
        for node in cluster.sandbox.store.all("nodes")
        for taint in node["spec"].get("taints") or ()
        if taint["key"] == EMPTIED.key
    }


def pods_on(cluster: HotCluster, node: str) -> list[str]:
    pods = [pod["metadata"] for pod in cluster.sandbox.store.pods_on(node)]
    return [pod["name"] for pod in pods if pod["ownerReferences"][0]["kind"] != "DaemonSet"]


def journal(cluster: HotCluster) -> dict[str, Any]:
    lines = (cluster.folder / "journal.jsonl").read_text().splitlines()
    return {line["event"]: line for line in map(json.loads, lines)}


def leave(value: str) -> Callable[[Object], None]:
    """A run that was killed left the taint with this value."""

    def change(item: Object) -> None:
        taint = {"key": EMPTIED.key, "value": value, "effect": EMPTIED.effect}
        item["spec"].setdefault("taints", []).append(taint)

    return change


def test_a_node_is_emptied_and_stays_closed_for_a_time(idle: HotCluster) -> None:
    _, outcomes = idle.run()
    lines = journal(idle)
    (emptied,) = {item["move"]["from"] for item in outcomes["outcomes"]}

    assert set(results(outcomes)) <= {"Landed", "LandedElsewhere"}
    assert pods_on(idle, emptied) == []
    assert emptied in lines["closing"]["nodes"]
    assert lines["closed"]["staying"] == lines["closing"]["nodes"] == sorted(closed(idle))
    ends = {int(value.split(".")[2]) - CLOSED_FOR for value in closed(idle).values()}
    began, ended = (times.parse(lines[name]["time"]) for name in ("run-started", "closed"))
    assert all(int(began) <= moment <= ended + 1 for moment in ends)
    assert pods_on(idle, "node-5") == pods_on(idle, "node-6") == []  # what was empty is so still


def test_the_next_run_takes_away_what_outlived_its_time_and_leaves_the_rest(idle: HotCluster) -> None:
    idle.sandbox.store.mutate("nodes", "", "node-1", leave("lease.run.1"))
    idle.sandbox.store.mutate("nodes", "", "node-2", leave("lease.run.99999999999"))
    idle.policy = idle.policy.replace(f"taintFor: {CLOSED_FOR}s, ", "")
    idle.run()

    assert closed(idle) == {"node-2": "lease.run.99999999999"}


def test_a_run_that_empties_nothing_opens_its_nodes_at_its_end(idle: HotCluster) -> None:
    idle.sandbox.faults.add(Fault("status", path="/eviction", method="POST", code=429, times=0))
    _, outcomes = idle.run()

    assert outcomes["outcomes"]
    assert {item["move"]["from"] for item in outcomes["outcomes"]}.isdisjoint(closed(idle))
    assert closed(idle) == {}, "nor are those closed any more that were empty before"
    assert idle.evicted() == 0


def test_nothing_is_evicted_where_the_right_to_close_nodes_lacks(idle: HotCluster) -> None:
    idle.sandbox.faults.add(Fault("status", path="/api/v1/nodes/", method="PATCH", code=403, times=0))
    result, _ = idle.run()

    assert idle.evicted() == 0
    assert result.exit_code != 0
    assert "k8s/components/steer" in result.stderr
    assert closed(idle) == {}


def test_the_soft_taint_goes_with_its_wave_from_a_node_that_is_closed_too(idle: HotCluster) -> None:
    api = open_api(idle.sandbox.write_kubeconfig(idle.folder / "kubeconfig"))
    plan = a_plan(moves=(a_move(avoids={"node-1": "would be hot"}),), closed=("node-1",), closed_seconds=60.0)

    def keys() -> set[str]:
        node = next(item for item in idle.sandbox.store.all("nodes") if item["metadata"]["name"] == "node-1")
        return {taint["key"] for taint in node["spec"].get("taints") or ()}

    with Journal.to_file(idle.folder / "journal.jsonl", "run", present) as lines:
        taints = RunTaints(
            api=api,
            lease=("rebalancer", "rebalancer"),
            run="run",
            began=0.0,
            execution=Execution(steer="softTaint"),
            journal=lines,
        )
        before = keys()
        with taints.of_plan(plan, a_snapshot(nodes=[a_node("node-1")]), present(), {"node-1"}):
            assert keys() == {*before, EMPTIED.key}
            with taints.of_wave_with(1, plan.moves):
                assert keys() == {*before, EMPTIED.key, TAINT_KEY}
                during = taints.of_wave
            assert keys() == {*before, EMPTIED.key}

    assert (during, taints.of_wave) == (("node-1",), None)

    assert keys() == {*before, EMPTIED.key}, "it was emptied"
    assert taints.left_behind == frozenset()
