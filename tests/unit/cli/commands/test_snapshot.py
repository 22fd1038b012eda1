from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.policy.policy_file import parse_policy
from rebalancer.state.run_state import RunState, encode
from tests.unit.cli.conftest import Program
from tests.unit.cli.recorded_documents import CONFIGURATION, POLICY, WATCHER, a_list, a_metric, a_node


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Nodes, pods and node metrics as kubectl prints them; nothing else."""
    folder = tmp_path / "dump"
    folder.mkdir()
    pod = {"metadata": {"name": "web-1", "namespace": "shop"}, "spec": {"nodeName": "node-1"}}
    broken = {"metadata": {"name": "web-2", "namespace": "shop", "labels": 5}, "spec": {"nodeName": "node-1"}}
    (folder / "nodes.json").write_bytes(a_list("Node", "v1", a_node("node-1"), a_node("node-2")))
    (folder / "pods.json.gz").write_bytes(gzip.compress(a_list("Pod", "v1", pod, broken)))
    metrics = (a_metric("node-1", "2026-11-20T12:00:00Z"), a_metric("node-2", "2026-11-20T11:59:30Z"))
    (folder / "nodemetrics.json").write_bytes(a_list("NodeMetrics", "metrics.k8s.io/v1beta1", *metrics))
    return folder


def info_of(rebalancer_program: Program, path: Path) -> dict[str, Any]:
    result = rebalancer_program("snapshot", "info", str(path), "-o", "json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_info_counts_what_is_there_and_names_what_is_malformed(
    rebalancer_program: Program, dump: Path
) -> None:
    info = info_of(rebalancer_program, dump)

    counts = {kind["plural"]: (kind["count"], kind["malformed"]) for kind in info["kinds"]}
    assert counts == {"nodes": (2, 0), "pods": (1, 1), "nodemetrics": (2, 0)}
    assert info["malformed"][0].startswith("Pod shop/web-2: ")
    assert {kind["resourceVersion"] for kind in info["kinds"]} == {"7"}


def test_info_says_what_each_absent_kind_means(rebalancer_program: Program, dump: Path) -> None:
    text = rebalancer_program("snapshot", "info", str(dump)).stdout
    unread = {kind["plural"]: kind["means"] for kind in info_of(rebalancer_program, dump)["unread"]}

    assert unread["poddisruptionbudgets"] == "every pod may have a budget: all are protected"
    assert "poddisruptionbudgets (not in the dump): every pod may have a budget" in " ".join(text.split())


def test_info_says_that_a_dump_lacks_the_scheduler_s_configuration(
    rebalancer_program: Program, dump: Path
) -> None:
    said = "no scheduler-config.yaml: the scheduler's defaults are assumed, and pods that name another"
    assert said in " ".join(info_of(rebalancer_program, dump)["warnings"])
    (dump / "scheduler-config.yaml").write_text("")
    assert said in " ".join(info_of(rebalancer_program, dump)["warnings"]), "an empty one means none"


def test_info_shows_the_age_of_the_metrics(rebalancer_program: Program, dump: Path) -> None:
    info = info_of(rebalancer_program, dump)

    assert (info["oldestMetric"], info["newestMetric"]) == ("2026-11-20T11:59:30Z", "2026-11-20T12:00:00Z")
    assert info["metricsAgeSeconds"] is None


def test_info_of_what_is_no_dump_is_bad_input(rebalancer_program: Program, tmp_path: Path) -> None:
    result = rebalancer_program("snapshot", "info", str(tmp_path))

    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path}: no Kubernetes objects here")


def test_a_dump_recorded_again_holds_the_same_cluster(
    rebalancer_program: Program, dump: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    result = rebalancer_program("snapshot", "save", str(saved), "--from", str(dump), "-o", "json")

    assert result.exit_code == 0, result.stderr
    written, before = json.loads(result.stdout), info_of(rebalancer_program, dump)
    assert written["kinds"] == before["kinds"]
    assert [kind["plural"] for kind in written["unread"]] == [kind["plural"] for kind in before["unread"]]
    assert written["recordedAt"] == "2026-11-20T12:00:00Z"
    assert written["recordedFrom"] == str(dump)


def test_a_recording_recorded_again_keeps_where_and_when_it_was_made(
    rebalancer_program: Program, dump: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    rebalancer_program("snapshot", "save", str(first), "--from", str(dump))
    about = json.loads((first / "recording.json").read_text())
    (first / "recording.json").write_text(
        json.dumps(about | {"unread": {"services": "forbidden"}, "savedAt": 1e9})
    )
    rebalancer_program("snapshot", "save", str(second), "--from", str(first))
    info = info_of(rebalancer_program, second)

    assert (info["recordedFrom"], info["recordedAt"]) == (str(dump), "2001-09-09T01:46:40Z")
    assert [kind["because"] for kind in info["unread"] if kind["plural"] == "services"] == ["forbidden"]


def test_files_given_are_recorded_beside_the_cluster(
    rebalancer_program: Program, dump: Path, tmp_path: Path
) -> None:
    saved, watcher, configuration, state = (
        tmp_path / name for name in ("saved", "w.json", "c.yaml", "s.json")
    )
    watcher.write_text(json.dumps(WATCHER))
    configuration.write_text(CONFIGURATION)
    state.write_bytes(encode(RunState()))
    result = rebalancer_program(
        *("snapshot", "save", str(saved), "--from", str(dump), "--watcher", str(watcher)),
        *("--scheduler-config", str(configuration), "--state", str(state)),
    )

    assert result.exit_code == 0, result.stderr
    documents = DumpReader(saved).read().documents
    assert documents["watcher.json"] == watcher.read_bytes()
    assert documents["scheduler-config.yaml"] == configuration.read_bytes()
    assert documents["state.json"] == state.read_bytes()


def test_the_configuration_a_policy_holds_is_recorded(
    rebalancer_program: Program, dump: Path, tmp_path: Path
) -> None:
    policy, saved = tmp_path / "policy.yaml", tmp_path / "saved"
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    policy.write_text(POLICY + "scheduler: {file: scheduler.yaml}\n")
    parse_policy(policy.read_text(), "policy")
    rebalancer_program("snapshot", "save", str(saved), "--from", str(dump), "--policy", str(policy))

    assert (saved / "scheduler-config.yaml").read_text() == CONFIGURATION


@pytest.mark.parametrize("option", ["--watcher", "--state"])
def test_a_file_that_is_not_what_it_should_be_is_refused_before_anything_is_read(
    rebalancer_program: Program, dump: Path, tmp_path: Path, option: str
) -> None:
    odd, saved = tmp_path / "odd.json", tmp_path / "saved"
    odd.write_text('{"neither": 1')
    result = rebalancer_program("snapshot", "save", str(saved), "--from", str(dump), option, str(odd))

    assert result.exit_code == 2
    assert str(odd) in result.stderr
    assert not saved.exists()


def test_a_folder_in_use_is_never_written_to(rebalancer_program: Program, dump: Path) -> None:
    before = sorted(entry.name for entry in dump.iterdir())
    result = rebalancer_program("snapshot", "save", str(dump), "--from", str(dump))

    assert result.exit_code == 2
    assert "the folder is not empty" in result.stderr
    assert sorted(entry.name for entry in dump.iterdir()) == before


def test_a_recording_whose_own_notes_are_damaged_says_so(rebalancer_program: Program, dump: Path) -> None:
    (dump / "recording.json").write_text("[1")
    result = rebalancer_program("snapshot", "info", str(dump))

    assert result.exit_code == 2
    assert "not what snapshot save writes" in result.stderr
