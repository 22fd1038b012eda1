"""A run that steers: its hot nodes have a soft taint while it lasts, and never longer."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.errors import ExitCode, SafetyError
from rebalancer.execution.outcomes import PlanOfRun
from rebalancer.execution.own_taints import OwnTaints
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.steering import TAINT_KEY
from rebalancer.run import run as run_module
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


def steering(cluster: HotCluster, nodes: str = "hot") -> HotCluster:
    setting = f"execution: {{steer: softTaint, steerNodes: {nodes}, "
    cluster.policy = cluster.policy.replace("execution: {", setting)
    assert "softTaint" in cluster.policy
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


def test_hot_nodes_have_the_taint_at_each_eviction_and_none_at_the_end(cluster: HotCluster) -> None:
    seen = while_evicting(steering(cluster))
    _, outcomes = cluster.run()
    lines = {line["event"]: line for line in journal(cluster)}

    assert set(results(outcomes)) <= {"Landed", "LandedElsewhere"}
    assert len(seen) == cluster.evicted() > 0
    assert {frozenset(nodes) for nodes in seen} == {frozenset(lines["steering"]["nodes"])} != {frozenset()}
    assert tainted(cluster) == set()
    assert lines["steered"]["nodes"] == lines["steering"]["nodes"]
    events = [item for item in objects(cluster, "events") if item["reason"] == "Steered"]
    assert {item["involvedObject"]["name"] for item in events} == set(lines["steering"]["nodes"])


def test_nodes_that_are_only_not_cool_have_the_taint_as_long_as_hot_ones(cluster: HotCluster) -> None:
    cluster.policy = cluster.policy.replace("coolTo: {cpu: 65,", "coolTo: {cpu: 40,")
    seen = while_evicting(steering(cluster, "aboveCoolTo"))
    _, outcomes = cluster.run()
    [line] = [line for line in journal(cluster) if line["event"] == "steering"]
    events = [item for item in objects(cluster, "events") if item["reason"] == "Steered"]

    assert set(results(outcomes)) <= {"Landed", "LandedElsewhere"}
    assert {frozenset(nodes) for nodes in seen} == {frozenset(line["nodes"])}
    assert line["nodes"] == ["node-1", "node-2", "node-3"]
    assert tainted(cluster) == set()
    notes = {item["involvedObject"]["name"]: item["message"].partition(":")[0] for item in events}
    assert notes == {"node-1": "Hot", "node-2": "Hot", "node-3": "Above coolTo or of unknown load"}


def test_a_later_plan_gives_further_nodes_the_taint_and_none_has_it_at_the_end(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = list[set[str]](), list[set[str]]()

    def planned_again(plan: Plan, context: Any) -> None:
        before.append(tainted(cluster))
        later = replace(plan, tainted=(*plan.tainted, "node-4"))
        context.replanner.renew(SimpleNamespace(plan=later, inputs=context.replanner.inputs))
        after.append(tainted(cluster))
        raise SafetyError("that is all")

    monkeypatch.setattr(run_module, "carry_out", planned_again)
    result, _ = steering(cluster).run()
    lines = [line for line in journal(cluster) if line["event"] in ("steering", "steered")]
    events = [item for item in objects(cluster, "events") if item["reason"] == "Steered"]

    assert "that is all" in result.stderr
    assert before[0] > set()
    assert after[0] == before[0] | {"node-4"}
    assert tainted(cluster) == set()
    assert [set(line["nodes"]) for line in lines] == [before[0], after[0], after[0]]
    assert {item["involvedObject"]["name"] for item in events} == after[0]


@pytest.fixture
def steered_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans after the first of a run, which makes one move alone, give node-4 the taint too."""
    planned = run_module._planned

    def further(inputs: PlanningInputs, waves: int = 0) -> Any:
        found = planned(inputs, waves)
        if not inputs.steers_further:
            return replace(found, plan=replace(found.plan, moves=found.plan.moves[:1]))
        return replace(found, plan=replace(found.plan, tainted=(*found.plan.tainted, "node-4")))

    monkeypatch.setattr(run_module, "_planned", further)
    monkeypatch.setattr(PlanOfRun, "is_as_planned", False)


@pytest.mark.usefixtures("steered_further")
def test_evictions_of_a_later_plan_begin_once_its_further_nodes_have_the_taint(cluster: HotCluster) -> None:
    seen = while_evicting(steering(cluster))
    result, outcomes = cluster.run()

    assert result.exit_code == ExitCode.DONE, result.stderr
    assert set(results(outcomes)) <= {"Landed", "LandedElsewhere"}
    assert seen[0] == {"node-1", "node-2"}
    assert {frozenset(nodes) for nodes in seen[1:]} == {frozenset({"node-1", "node-2", "node-4"})}
    assert tainted(cluster) == set()


@pytest.mark.usefixtures("steered_further")
@pytest.mark.parametrize(
    ("fault", "exit_code"),
    [
        (Fault("status", code=403, times=0), ExitCode.RIGHTS_MISSING),
        (Fault("status", code=422, times=0), ExitCode.REJECTED),
        (Fault("status", code=404, times=0), ExitCode.REJECTED),
    ],
    ids=lambda value: str(getattr(value, "code", "")),
)
def test_where_a_further_node_cannot_get_the_taint_what_was_done_before_is_said(
    cluster: HotCluster, fault: Fault, exit_code: ExitCode
) -> None:
    cluster.sandbox.faults.add(dataclasses.replace(fault, path="/api/v1/nodes/node-4", method="PATCH"))
    result, outcomes = steering(cluster).run()

    assert result.exit_code == exit_code, result.stderr
    assert results(outcomes)[0] == "Landed"
    assert cluster.evicted() == 1
    assert tainted(cluster) == set()


@pytest.mark.usefixtures("steered_further")
def test_a_signal_while_a_further_node_gets_the_taint_leaves_none_behind(
    cluster: HotCluster,
) -> None:
    pick, asked = cluster.sandbox.faults.pick, list[str]()

    def picked(method: str, path: str) -> Any:
        if path == "/api/v1/nodes/node-4" and not asked:
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


def test_the_last_wave_is_over_before_taints_are_that_took_long_to_renew(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, renew, ends = present(), OwnTaints.renew, list[float]()
    last_wave_ends = list[float]()
    clock = FakeTime(began)

    def slowly(taints: OwnTaints, until: float) -> None:
        ends.append(until)
        clock.sleep(60.0)
        renew(taints, until)

    def renewed_at_once(plan: Plan, context: Any) -> None:
        clock.sleep(30.0)
        context.replanner.renew(SimpleNamespace(plan=plan, inputs=context.replanner.inputs))
        last_wave_ends.append(began + context.clock.steers_for() + context.execution.wave_timeout)
        raise SafetyError("that is all")

    monkeypatch.setattr(run_module, "time", SimpleNamespace(time=clock.clock, monotonic=clock.clock))
    monkeypatch.setattr(OwnTaints, "renew", slowly)
    monkeypatch.setattr(run_module, "carry_out", renewed_at_once)
    result = steering(cluster).start("run", "--yes")

    assert "that is all" in result.stderr
    assert [round(end - began, 3) for end in (*ends, *last_wave_ends)] == [30 + 900 + 20] * 2
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


@pytest.mark.parametrize("node", ["", "node-2"], ids=["any node", "one node"])
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
    cluster.sandbox.faults.add(dataclasses.replace(fault, path="/api/v1/nodes/node-2", method="PATCH"))
    seen = while_evicting(steering(cluster))
    result, _ = cluster.run()

    assert result.exit_code == ExitCode.DONE, result.stderr
    assert not cluster.sandbox.faults.pick("PATCH", "/api/v1/nodes/node-2"), "it has happened"
    assert {frozenset(nodes) for nodes in seen} == {frozenset({"node-1", "node-2"})}
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
