"""`rebalancer run` as a user starts it, against an embedded cluster whose scheduler is our own model.

The sandbox can misplace, delay and drop replacements; otherwise verification could never fail.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kubernetes import config

from rebalancer.cli.program import main
from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.login import official_login
from rebalancer.execution.lease import HeldLease, RunLease
from rebalancer.state.run_state import PastMove, after_moves
from rebalancer.state.stores import FileStore
from rebalancer_demo import Misbehaviour
from rebalancer_demo.api.requests import Request, Response
from tests.conftest import some_of
from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster, results
from tests.waiting import NEVER_SECONDS, present

__all__ = ["cluster"]


def test_a_run_cools_the_hot_nodes_and_every_pod_lands_acceptably(cluster: HotCluster) -> None:
    hot_before = [name for name, load in cluster.sandbox.node_utilisation().items() if load > 80]
    result, outcomes = cluster.run("--state", str(cluster.folder / "state.json"))

    assert (result.exit_code, outcomes["stopped"]) == (0, ""), result.stderr
    assert set(results(outcomes)) <= LANDED
    assert len(hot_before) == 2
    assert max(cluster.sandbox.node_utilisation().values()) < 80


def test_the_next_run_has_nothing_to_do(cluster: HotCluster) -> None:
    state = str(cluster.folder / "state.json")
    cluster.run("--state", state)
    result, outcomes = cluster.run("--state", state)

    assert (result.exit_code, outcomes["outcomes"]) == (0, [])


def test_the_dry_run_is_the_run(cluster: HotCluster) -> None:
    planned = json.loads(cluster.start("plan", "-o", "json").stdout)
    _, outcomes = cluster.run()

    moves = [(move["pod"]["name"], move["from"]) for move in planned["moves"]]
    assert moves == [(item["move"]["pod"]["name"], item["move"]["from"]) for item in outcomes["outcomes"]]


@pytest.mark.parametrize("earlier_runs", [0, 1])
def test_a_dry_run_decides_as_the_run_right_after_it_and_says_what_a_later_one_would_move(
    cluster: HotCluster, earlier_runs: int
) -> None:
    cluster.policy = cluster.policy.replace("  forRuns: 1", "  forRuns: 2")
    assert "forRuns: 2" in cluster.policy
    planned = json.loads(cluster.start("plan", "-o", "json").stdout)
    for _ in range(earlier_runs):
        cluster.run()
    dry = cluster.start("run", "--dry-run")
    states = list(Path(os.environ["XDG_STATE_HOME"]).glob("rebalancer/*.json"))
    _, outcomes = cluster.run()

    assert (outcomes["outcomes"], cluster.evicted()) == ([], 0)
    assert "Outcome: nothing was evicted" in dry.stdout
    words = " ".join(dry.stdout.split())
    assert f"that finds them still hot would move {len(planned['moves'])} pods" in words
    assert len(states) == earlier_runs  # a dry run leaves none
    assert "hot in 2 runs at least 7m30s apart; next is run 1" in planned["runs"]


@pytest.mark.parametrize("where", ["file", "config map"])
def test_a_plan_with_the_runs_state_shows_exactly_the_moves_that_the_run_makes(
    cluster: HotCluster, where: str
) -> None:
    path = cluster.folder / "state.json"
    option = ("--state", str(path)) if where == "file" else ("--state-config-map", "rebalancer/state")
    cluster.policy = cluster.policy.replace("perWorkload: 25%", "perWorkload: 1")
    cluster.run(*option)
    cluster.policy = cluster.policy.replace("planning: {minGain: 5}", "planning: {minGain: 5, cooldown: 0s}")
    moment = f"{present():.3f}"
    planned = json.loads(cluster.start("plan", "-o", "json", "--now", moment, *option).stdout)
    shown = cluster.start("run", "--dry-run", "-o", "json", "--now", moment, *option)

    moves = [item["move"] for item in json.loads(shown.stdout)["outcomes"]]
    assert json.dumps(planned["moves"], sort_keys=True) == json.dumps(moves, sort_keys=True)


def test_a_run_without_options_remembers_too(cluster: HotCluster) -> None:
    cluster.run()
    hot = cluster.start("nodes", "-o", "json")
    assert "the state of earlier runs is in" in hot.stderr
    state = list(Path(os.environ["XDG_STATE_HOME"]).glob("rebalancer/*.json"))
    assert len(state) == 1
    assert json.loads(state[0].read_text())["moves"]


def test_a_plan_evicts_nothing(cluster: HotCluster) -> None:
    assert cluster.start("plan").exit_code == 0
    assert cluster.evicted() == 0


def test_a_dry_run_evicts_nothing(cluster: HotCluster) -> None:
    result, _ = cluster.run("--dry-run")
    assert (result.exit_code, cluster.evicted()) == (0, 0)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("misbehaviour", "ends_as"),
    some_of(
        [
            (Misbehaviour("misplace", namespace="shop", node="node-1"), "Unexpected"),
            (Misbehaviour("delay", namespace="shop", seconds=NEVER_SECONDS), "Pending"),
            (Misbehaviour("drop", namespace="shop"), "Pending"),
            (Misbehaviour("drop-replacement", namespace="shop"), "NotReplaced"),
        ]
    ),
    ids=lambda value: value.effect if isinstance(value, Misbehaviour) else None,
)
def test_the_first_outcome_the_plan_did_not_allow_stops_the_run(
    cluster: HotCluster, misbehaviour: Misbehaviour, ends_as: str
) -> None:
    cluster.sandbox.misbehave(misbehaviour)
    result, outcomes = cluster.run()

    assert result.exit_code == 3
    assert results(outcomes)[0] == ends_as
    assert set(results(outcomes)[1:]) == {"Skipped"}
    assert outcomes["stopped"]
    assert cluster.evicted() == 1


def test_a_replacement_a_little_late_is_waited_for(cluster: HotCluster) -> None:
    cluster.sandbox.misbehave(Misbehaviour("drop", namespace="shop"))

    def comes_late() -> None:
        cluster.sandbox.behave()
        assert cluster.sandbox.wait_until(lambda: not cluster.sandbox.pods("shop", phase="Pending"))

    cluster.waits.after(10.0, comes_late)
    result, outcomes = cluster.run()
    assert (result.exit_code, set(results(outcomes)) <= LANDED) == (0, True), outcomes


def _journal(cluster: HotCluster) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in (cluster.folder / "journal.jsonl").read_text().splitlines()]


def test_the_journal_names_every_eviction_before_and_after(cluster: HotCluster) -> None:
    _, outcomes = cluster.run()
    lines = _journal(cluster)
    for item in outcomes["outcomes"]:
        uid = item["move"]["pod"]["uid"]
        assert len([line for line in lines if line.get("uid") == uid]) >= 3


def test_a_paused_policy_evicts_nothing_and_says_so(cluster: HotCluster) -> None:
    cluster.policy += "safety: {pause: true}\n"
    result, outcomes = cluster.run()
    assert (result.exit_code, cluster.evicted()) == (3, 0)
    assert "pause" in outcomes["stopped"]


def test_a_policy_that_is_changed_during_a_run_ends_it_before_its_next_wave_and_the_next_plans_by_it(
    cluster: HotCluster,
) -> None:
    answer = cluster.sandbox.api.answer

    def tightened(request: Request, *more: Any) -> Response:
        if request.path.endswith("/eviction"):
            changed = cluster.policy.replace("minAge: 10m", "namespaces: {exclude: [shop]}")
            (cluster.folder / "policy.yaml").write_text(changed)
        return answer(request, *more)

    cluster.sandbox.api.answer = tightened  # type: ignore[method-assign, assignment]
    result, outcomes = cluster.run()
    assert (result.exit_code, cluster.evicted()) == (3, 1)
    assert results(outcomes)[0] in LANDED
    assert "changed while the run was at work" in outcomes["stopped"]


def test_a_run_waits_until_replacements_are_available_by_their_controllers_min_ready_seconds(
    cluster: HotCluster,
) -> None:
    for controller in cluster.sandbox.store.all("replicasets"):
        metadata = controller["metadata"]
        cluster.sandbox.store.mutate(
            "replicasets",
            metadata["namespace"],
            metadata["name"],
            lambda item: item["spec"].update(minReadySeconds=600),
        )
    result, outcomes = cluster.run()
    assert result.exit_code == 0, result.stderr
    assert set(results(outcomes)) <= LANDED
    for item in outcomes["outcomes"]:
        assert item["because"].endswith("s of the 600 s of its controller's minReadySeconds")


def test_too_many_nodes_not_ready_stop_a_run_before_it_begins(cluster: HotCluster) -> None:
    cluster.sandbox.fail_node("node-6")
    cluster.policy += "safety: {maxNotReadyNodes: 0}\n"
    result, outcomes = cluster.run()
    assert (result.exit_code, cluster.evicted()) == (3, 0), outcomes


def test_while_another_run_holds_the_lease_nothing_is_evicted(cluster: HotCluster) -> None:
    from kubernetes import client, config

    cluster.sandbox.write_kubeconfig(cluster.folder / "other")
    with config.new_client_from_config(str(cluster.folder / "other")) as api:
        spec = client.V1LeaseSpec(
            holder_identity="somebody-else",
            lease_duration_seconds=3600,
            renew_time=times.render_micro(present()),
        )
        lease = client.V1Lease(metadata=client.V1ObjectMeta(name="rebalancer"), spec=spec)
        client.CoordinationV1Api(api).create_namespaced_lease("rebalancer", lease)
    result, _ = cluster.run()
    assert (result.exit_code, cluster.evicted()) == (7, 0)
    assert "somebody-else" in result.stderr


def test_a_saved_snapshot_gives_the_plan_of_the_live_cluster(cluster: HotCluster) -> None:
    saved = cluster.folder / "saved"
    moment = str(present())
    policy = cluster.folder / "policy.yaml"
    policy.write_text(cluster.policy)
    kubeconfig = cluster.sandbox.write_kubeconfig(cluster.folder / "kubeconfig")
    runner = CliRunner()
    recorded = runner.invoke(
        main, ["snapshot", "save", str(saved), "--policy", str(policy), "--kubeconfig", str(kubeconfig)]
    )
    assert recorded.exit_code == 0, recorded.stderr
    live = json.loads(cluster.start("plan", "-o", "json", "--now", moment).stdout)
    offline = json.loads(
        runner.invoke(
            main, ["plan", "--policy", str(policy), "--from", str(saved), "--now", moment, "-o", "json"]
        ).stdout
    )
    assert offline["moves"] == live["moves"]
    assert offline["kept"] == live["kept"]


def test_a_dry_run_leaves_the_state_of_runs_as_it_was(cluster: HotCluster) -> None:
    state = cluster.folder / "state.json"
    cluster.run("--dry-run", "--state", str(state))
    assert not state.exists()


def test_moves_that_another_run_made_before_this_one_had_the_lease_are_planned_with(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cluster.folder / "state.json"
    planned = json.loads(cluster.start("plan", "-o", "json").stdout)
    pods = [move["pod"] for move in planned["moves"]]
    moves = [
        PastMove(
            namespace=pod["namespace"],
            name="other",
            uid=f"of-another-run-{index}",
            workload=pod["workload"],
            from_node="node-3",
            evicted_at=present(),
        )
        for index, pod in enumerate(pods)
    ]
    acquire = RunLease.acquire

    def after_another_run(lease: RunLease) -> HeldLease:
        FileStore(path).update(lambda state: after_moves(state, moves, present(), 3600))
        return acquire(lease)

    monkeypatch.setattr(RunLease, "acquire", after_another_run)
    result, outcomes = cluster.run("--state", str(path))

    moved = {item["move"]["pod"]["workload"] for item in outcomes["outcomes"]}
    assert pods
    assert result.exit_code == 0
    assert not moved & {pod["workload"] for pod in pods}
    kept = FileStore(path).load()
    assert kept is not None
    assert {move.uid for move in moves} <= {move.uid for move in kept.moves}


def test_a_run_that_is_refused_the_lease_leaves_no_trace(cluster: HotCluster) -> None:
    path = cluster.folder / "state.json"
    cluster.start("plan")
    with config.new_client_from_config(str(cluster.folder / "kubeconfig")) as client:
        api = RawApi(KubernetesClient(official_login(client)))
        RunLease(api, "rebalancer", "rebalancer", "another", present).acquire()
        result, _ = cluster.run("--state", str(path))
    assert (result.exit_code, cluster.evicted()) == (7, 0)
    assert not path.exists()
    assert not (cluster.folder / "journal.jsonl").exists()
