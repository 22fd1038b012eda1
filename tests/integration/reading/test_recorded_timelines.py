"""A live cluster, recorded moment by moment over HTTP, and by the service beside its runs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from click.testing import CliRunner

from rebalancer.cli.program import main
from rebalancer.errors import ExitCode
from rebalancer.observe.timeline import Timeline
from rebalancer.state.run_state import decode
from tests.integration.serving.replicas import a_hot_cluster
from tests.waiting import eventually


def recorded_moments(folder: Path) -> int:
    return len(Timeline.open(folder).moments()) if folder.exists() and any(folder.iterdir()) else 0


def test_a_recorded_moment_has_the_plan_of_the_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "days"
    with a_hot_cluster(tmp_path) as cluster:
        given = ("--policy", str(cluster.policy), "--kubeconfig", str(cluster.kubeconfig))
        result = CliRunner().invoke(
            main, ["timeline", "record", str(folder), "--every", "1s", "--for", "2s", *given]
        )
        assert result.exit_code == 0, result.output
    first = Timeline.open(folder).moments()[0]
    command = ["plan", "--from", str(folder), "--at", str(first), "--policy", str(tmp_path / "policy.yaml")]
    planned = CliRunner().invoke(main, command)

    assert recorded_moments(folder) >= 1
    assert planned.exit_code == 0, planned.output
    assert "evict 4 pods" in planned.stdout or "4 pods restart" in planned.stdout


def test_that_a_moment_is_not_after_those_recorded_is_said(tmp_path: Path) -> None:
    """The clock was set back: nothing would be recorded until it is where it was."""
    folder = tmp_path / "days"
    folder.mkdir()
    (folder / "20990101T000000.000Z.full.zst").touch()
    with a_hot_cluster(tmp_path) as cluster:
        given = ("--policy", str(cluster.policy), "--kubeconfig", str(cluster.kubeconfig))
        arguments = ["timeline", "record", str(folder), "--every", "1s", "--for", "1s", *given]
        result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 0, result.output
    said = f"{folder} holds one of 2099-01-01T00:00:00Z, which is not before it: is the clock right?"
    assert f"is not recorded: {said}" in result.stderr


def test_where_no_moment_could_be_recorded_the_command_fails_as_the_last_one_did(tmp_path: Path) -> None:
    with a_hot_cluster(tmp_path) as cluster:
        given = ("--policy", str(cluster.policy), "--kubeconfig", str(cluster.kubeconfig))
    arguments = ["timeline", "record", str(tmp_path / "days"), "--every", "1s", "--for", "1s", *given]
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == ExitCode.UNREACHABLE, result.output
    assert "warning: this moment is not recorded: http://127.0.0.1:" in result.stderr


def test_a_folder_is_made_only_where_there_is_a_cluster_to_record(tmp_path: Path) -> None:
    arguments = ["timeline", "record", str(tmp_path / "days"), "--kubeconfig", str(tmp_path / "none")]
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == ExitCode.BAD_INPUT, result.output
    assert not (tmp_path / "days").exists()


def test_a_replay_of_what_the_service_did_has_its_evictions_and_landings(tmp_path: Path) -> None:
    folder = tmp_path / "days"
    with a_hot_cluster(tmp_path) as cluster:
        replica = cluster.start("--act", f"--record={folder}")
        eventually(lambda: cluster.hottest() < 80, awaited="the nodes cooled")
        replica.waits_for("0 hot nodes of 6, 0 moves planned", times=2)
        eventually(lambda: recorded_moments(folder) >= 3, awaited="moments are recorded")
        replica.ends_after(signal.SIGTERM)
    state = decode(Timeline.open(folder).contents(Timeline.open(folder).moments()[-1])["state.json"], "")
    made = {(f"{move.namespace}/{move.name}", move.from_node, move.to_node) for move in state.moves}
    given = ("--policy", str(tmp_path / "policy.yaml"), "-o", "json")
    result = CliRunner().invoke(main, ["timeline", "replay", str(folder), *given])

    assert result.exit_code == 0, result.output
    runs = {run["policy"]: run for run in json.loads(result.stdout)["runs"]}
    assert "as recorded" in runs
    (policy,) = runs.keys() - {"nothing done", "descheduler", "as recorded"}
    of_policy, of_service = (
        [move for moment in runs[name]["moments"] for move in moment["moves"]]
        for name in (policy, "as recorded")
    )
    assert {(move["pod"], move["fromNode"], move["node"]) for move in of_service} == made
    # Of several landings that are possible the replay draws one, as the scheduler drew one.
    assert {(move["pod"], move["fromNode"]) for move in of_policy} == {move[:2] for move in made}
    assert runs["as recorded"]["evictions"] == len(made) > 0
