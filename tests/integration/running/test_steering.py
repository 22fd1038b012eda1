"""A run that steers: nodes have a soft taint while a wave lasts, and never longer."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from rebalancer.errors import ExitCode, SafetyError
from rebalancer.execution.own_taints import OwnTaints
from rebalancer.planning.plan import Plan
from rebalancer.planning.taints import TAINT_KEY
from rebalancer.run import run as run_module
from rebalancer.run import taints as taints_module
from rebalancer_demo import Fault
from rebalancer_demo.objects import Object
from tests.conftest import some_of
from tests.integration.running.hot_clusters import HotCluster, cluster, results
from tests.unit.execution.fake_api import FakeTime
from tests.waiting import present

__all__ = ["cluster"]


def objects(cluster: HotCluster, resource: str) -> list[Object]:
    return [record.object for record in cluster.sandbox.store.records(resource)[0]]


def tainted(cluster: HotCluster) -> set[str]:
    """The nodes with our taint."""
    return {
        node["metadata"]["name"]
        for node in objects(cluster, "nodes")
        if any(taint["key"] == TAINT_KEY for taint in node["spec"].get("taints") or ())
    }


def steering(cluster: HotCluster) -> HotCluster:
    """No node may be filled above 45 %, and the scheduler prefers node-4 and node-3, which would be."""
    cluster.policy = cluster.policy.replace("execution: {", "execution: {steer: softTaint, ").replace(
        "minGain: 5", "minGain: 5, maxAfter: {cpu: 45, memory: 95}"
    )
    assert "softTaint" in cluster.policy
    assert "maxAfter" in cluster.policy
    return cluster


def journal(cluster: HotCluster) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (cluster.folder / "journal.jsonl").read_text().splitlines()]


def while_evicting(cluster: HotCluster) -> list[set[str]]:
    """The tainted nodes at each request to evict, which is filled while a run lasts."""
    pick, found = cluster.sandbox.faults.pick, list[set[str]]()

    def picked(method: str, path: str) -> Any:
        if method == "POST" and path.split("?", maxsplit=1)[0].endswith("/eviction"):
            found.append(tainted(cluster))
        return pick(method, path)

    cluster.sandbox.faults.pick = picked  # type: ignore[method-assign, assignment]
    return found


def test_the_nodes_of_a_wave_have_the_taint_at_each_of_its_evictions_and_none_afterwards(
    cluster: HotCluster,
) -> None:
    seen = while_evicting(steering(cluster))
    _, outcomes = cluster.run()
    lines = journal(cluster)
    set_in = {line["wave"]: line["nodes"] for line in lines if line["event"] == "steering"}
    avoided: dict[int, set[str]] = {}
    for item in outcomes["outcomes"]:
        avoided.setdefault(item["move"]["wave"], set()).update(item["move"]["avoids"])

    assert set(results(outcomes)) == {"Landed"}
    assert len(seen) == cluster.evicted() > 0
    assert seen == [avoided[item["move"]["wave"]] for item in outcomes["outcomes"]]
    assert {wave: set(nodes) for wave, nodes in set_in.items()} == avoided
    assert all(nodes in seen for nodes in ({"node-4"}, {"node-3", "node-4"}, {"node-3"}))
    assert {item["node"] for item in outcomes["outcomes"]}.isdisjoint({"node-3", "node-4"})
    assert tainted(cluster) == set()


def test_the_taints_of_a_wave_are_gone_before_the_next_one_is_looked_at(cluster: HotCluster) -> None:
    """So a run that pauses between waves, or ends there, has none."""
    steering(cluster).run()
    events = [line["event"] for line in journal(cluster)]
    said = [event for event in events if event in ("steering", "steered")]

    assert len(said) > 2
    assert said == ["steering", "steered"] * (len(said) // 2)


def test_each_node_says_once_a_run_that_it_has_the_taint_and_why(cluster: HotCluster) -> None:
    steering(cluster).run()
    events = [item for item in objects(cluster, "events") if item["reason"] == "Steered"]
    notes = {item["involvedObject"]["name"]: item["message"] for item in events}

    assert len(events) == len(notes)
    assert set(notes) == {"node-3", "node-4"}
    assert notes["node-4"].endswith(" it would be at 48.0 % cpu, planning.maxAfter 45.0 %")


@pytest.mark.parametrize(
    ("fault", "exit_code"),
    [
        (Fault("status", code=403, times=0), ExitCode.RIGHTS_MISSING),
        (Fault("status", code=422, times=0), ExitCode.REJECTED),
        (Fault("status", code=404, times=0), ExitCode.REJECTED),
    ],
    ids=lambda value: str(getattr(value, "code", "")),
)
def test_where_a_node_of_a_later_wave_cannot_get_the_taint_what_was_done_before_is_said(
    cluster: HotCluster, fault: Fault, exit_code: ExitCode
) -> None:
    cluster.sandbox.faults.add(dataclasses.replace(fault, path="/api/v1/nodes/node-3", method="PATCH"))
    result, outcomes = steering(cluster).run()

    assert result.exit_code == exit_code, result.stderr
    assert results(outcomes)[0] == "Landed"
    assert set(results(outcomes)[1:]) == {"Skipped"}
    assert cluster.evicted() == 1
    assert tainted(cluster) == set()


def test_a_signal_while_a_node_of_a_later_wave_gets_the_taint_leaves_none_behind(cluster: HotCluster) -> None:
    pick, asked = cluster.sandbox.faults.pick, list[str]()

    def picked(method: str, path: str) -> Any:
        if path == "/api/v1/nodes/node-3" and not asked:
            asked.append(path)  # the run waits for this answer
            os.kill(os.getpid(), signal.SIGTERM)
        return pick(method, path)

    cluster.sandbox.faults.pick = picked  # type: ignore[method-assign, assignment]
    result, outcomes = steering(cluster).run()

    assert asked
    assert (result.exit_code, outcomes["stop"]) == (ExitCode.INTERRUPTED, "Interrupted"), result.stderr
    assert results(outcomes)[0] == "Landed"
    assert set(results(outcomes)[1:]) <= {"Skipped"}
    assert tainted(cluster) == set()


def test_a_wave_is_over_before_its_taints_are(cluster: HotCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late in its run it begins, and however long it takes to set them."""
    began, begin = present(), OwnTaints.begin
    clock = FakeTime(began)
    ends, limits = list[float](), list[float]()

    def slowly(taints: OwnTaints, *given: Any) -> None:
        ends.append(taints.until - began)
        clock.sleep(60.0)
        begin(taints, *given)

    def one_wave(plan: Plan, context: Any) -> None:
        clock.sleep(2000.0)
        with context.tainted(1, plan.moves):
            limits.append(context.clock.steers_for() + context.execution.wave_timeout)
        assert context.clock.steers_for() is None
        raise SafetyError("that is all")

    now = SimpleNamespace(time=clock.clock, monotonic=clock.clock)
    monkeypatch.setattr(run_module, "time", now)
    monkeypatch.setattr(taints_module, "time", now)
    monkeypatch.setattr(OwnTaints, "begin", slowly)
    monkeypatch.setattr(run_module, "carry_out", one_wave)
    result = steering(cluster).start("run", "--yes")

    assert "that is all" in result.stderr
    assert limits == [2000 + 900 + 20]
    assert [round(end) for end in ends] == pytest.approx(limits, abs=1)
    assert tainted(cluster) == set()


def test_without_the_setting_no_node_is_touched(cluster: HotCluster) -> None:
    seen = while_evicting(cluster)
    cluster.run()

    assert set().union(*seen) == set()
    assert all(line["event"] not in ("steering", "steered") for line in journal(cluster))


def test_a_dry_run_touches_no_node_and_plans_as_the_run_does(cluster: HotCluster) -> None:
    dry = steering(cluster).start("run", "--dry-run", "-o", "json")
    assert tainted(cluster) == set()
    _, outcomes = cluster.run()

    def pods(found: dict[str, Any]) -> list[str]:
        return [item["move"]["pod"]["name"] for item in found["outcomes"]]

    assert pods(json.loads(dry.stdout)) == pods(outcomes) != []


def test_what_a_killed_run_left_behind_is_taken_away_whatever_the_policy_says(cluster: HotCluster) -> None:
    def leave(item: Object) -> None:
        taint = {"key": TAINT_KEY, "value": "old.run.1", "effect": "PreferNoSchedule"}
        item["spec"].setdefault("taints", []).append(taint)

    name = objects(cluster, "nodes")[0]["metadata"]["name"]
    cluster.sandbox.store.mutate("nodes", "", name, leave)
    cluster.run()

    assert tainted(cluster) == set()


@pytest.mark.parametrize("node", ["", "node-4"], ids=["any node", "one node"])
def test_nothing_is_evicted_where_the_right_to_patch_nodes_lacks(cluster: HotCluster, node: str) -> None:
    path = f"/api/v1/nodes/{node}"
    cluster.sandbox.faults.add(Fault("status", path=path, method="PATCH", code=403, times=0))
    result, _ = steering(cluster).run()

    assert cluster.evicted() == 0
    assert result.exit_code != 0
    assert "k8s/components/steer" in result.stderr
    assert tainted(cluster) == set()


FAILURES = (
    *(Fault("status", code=code) for code in (409, 422, 429, 500, 504)),
    Fault("reset-before"),
    Fault("reset-after"),
)


@pytest.mark.many_cases
@pytest.mark.parametrize("fault", some_of(FAILURES), ids=lambda fault: f"{fault.effect} {fault.code}")
def test_one_change_of_a_node_that_fails_ends_no_run(cluster: HotCluster, fault: Fault) -> None:
    cluster.sandbox.faults.add(dataclasses.replace(fault, path="/api/v1/nodes/node-4", method="PATCH"))
    seen = while_evicting(steering(cluster))
    result, _ = cluster.run()

    assert result.exit_code == ExitCode.DONE, result.stderr
    assert not cluster.sandbox.faults.pick("PATCH", "/api/v1/nodes/node-4"), "it has happened"
    assert {"node-4"} in seen
    assert tainted(cluster) == set()


def test_where_the_disk_of_the_journal_is_full_the_taints_go_and_what_was_done_is_said(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable = os.fsync

    def full_after_an_eviction(file: int) -> None:
        if cluster.evicted():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        durable(file)

    monkeypatch.setattr(os, "fsync", full_after_an_eviction)
    result, outcomes = steering(cluster).run("--state-config-map=rebalancer/state")

    assert tainted(cluster) == set()
    assert result.exit_code == ExitCode.STOPPED, result.stderr
    assert outcomes["stop"] == "Journal"
    assert results(outcomes)[0] == "Landed"
    assert set(results(outcomes)[1:]) == {"Skipped"}
    assert cluster.evicted() == 1
