from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.observe.plan_options import RunOptions
from rebalancer.reporting.html.embedded import read_plan
from rebalancer.state.results import Result
from tests.unit.cli.conftest import ACTS, FakePipeline, Program
from tests.unit.reporting.builders import an_outcome, some_outcomes


def test_a_run_shows_its_plan_and_what_came_of_it(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    result = rebalancer_program(*ACTS, "--journal", str(tmp_path / "journal"))

    assert result.exit_code == 0
    assert result.stdout.startswith("Plan: 1 of 2 hot nodes no longer hot")
    assert "Outcome: 1 Landed" in result.stdout
    assert "info: wave 1: evicting 1 pod" in result.stderr


def test_events_that_the_journal_writes_to_stderr_are_not_logged_there_again(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    assert rebalancer_program(*ACTS).stderr.splitlines() == [
        "info: evicts 2 pods of namespace shop on production"
    ]
    assert "wave 1: evicting 1 pod" in rebalancer_program("-v", *ACTS).stderr


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_run_leaves_with_the_code_of_its_outcomes(
    rebalancer_program: Program, pipeline: FakePipeline, output: str
) -> None:
    pipeline.outcomes = some_outcomes(an_outcome(Result.UNEXPECTED), stopped="unexpected", exit_code=3)

    assert rebalancer_program(*ACTS, "-o", output).exit_code == 3


def test_a_run_in_json_is_its_outcomes_and_nothing_else(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    found = json.loads(rebalancer_program(*ACTS, "-o", "json").stdout)

    assert found["kind"] == "Outcomes"
    assert [outcome["result"] for outcome in found["outcomes"]] == ["Landed"]


def test_run_options_reach_the_pipeline_as_values(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    arguments = (
        "--dry-run --journal j.sqlite --max-duration 1h30m --lease ops/one --state-config-map ops/state "
        f"--metrics-textfile {tmp_path}/m.prom"
    )
    rebalancer_program(*ACTS, *arguments.split())

    assert [options.state_config_map for options in pipeline.asked] == ["ops/state"]
    assert pipeline.run_asked == [
        RunOptions(
            dry_run=True,
            journal=Path("j.sqlite"),
            max_duration_seconds=5400.0,
            lease="ops/one",
            metrics_textfile=tmp_path / "m.prom",
        )
    ]


def test_the_lease_has_a_default(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    rebalancer_program(*ACTS)

    assert pipeline.run_asked == [RunOptions(lease="rebalancer/rebalancer")]


def test_a_name_alone_is_in_the_namespace_of_this_pod(
    rebalancer_program: Program, pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    rebalancer_program(*ACTS, "--state-config-map", "state")

    assert pipeline.run_asked == [RunOptions(lease="ops/rebalancer")]
    assert [options.state_config_map for options in pipeline.asked] == ["ops/state"]


@pytest.mark.parametrize("command", ["run", "plan", "nodes", "explain pod/shop/web"])
def test_two_places_for_the_state_are_refused(
    rebalancer_program: Program, pipeline: FakePipeline, command: str
) -> None:
    result = rebalancer_program(*command.split(), "--state", "s.json", "--state-config-map", "ops/state")

    assert result.exit_code == 2
    assert "give one of them" in result.stderr
    assert pipeline.asked == []


def test_a_recorded_cluster_is_never_run_against(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    result = rebalancer_program(*ACTS, "--from", "dump")

    assert "--from PATH" not in rebalancer_program(*ACTS, "--help").stdout
    assert result.exit_code == 2
    assert "a recorded cluster cannot be changed" in result.stderr
    assert pipeline.asked == []


def test_json_logs_tell_a_run_as_one_object_an_event(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    journal = ("--journal", str(tmp_path / "journal"))
    result = rebalancer_program("--log-format", "json", *ACTS, "-o", "json", *journal)
    lines = [json.loads(line) for line in result.stderr.splitlines()]

    assert [line["level"] for line in lines] == ["info"] * 3
    assert lines[0]["message"] == "evicts 2 pods of namespace shop on production"
    assert lines[1]["message"].startswith("wave 1: evicting 1 pod")
    assert lines[1]["time"].endswith("Z")


def test_a_dry_run_says_so_first_and_never_that_it_evicted(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    asked = an_outcome(Result.WOULD_EVICT, because="dry run: the API server would evict it")
    pipeline.outcomes = replace(some_outcomes(asked), dry_run=True)
    result = rebalancer_program(*ACTS, "--dry-run")

    assert result.stdout.startswith("DRY RUN: nothing is changed")
    assert "would evict 1 pod; the API server agrees" in result.stdout
    assert "Skipped" not in result.stdout
    assert "Evicted" not in result.output
    assert "evicting" not in result.output


@pytest.mark.parametrize("result", [Result.SKIPPED, Result.REFUSED])
def test_a_dry_run_without_an_answer_that_agrees_does_not_say_that_one_did(
    rebalancer_program: Program, pipeline: FakePipeline, result: Result
) -> None:
    pipeline.outcomes = replace(some_outcomes(an_outcome(result)), dry_run=True)
    shown = rebalancer_program(*ACTS, "--dry-run").stdout

    assert f"Outcome: dry run: would evict 0 pods; 1 {result.value}\n" in shown


def test_a_journal_is_shown_with_its_evictions_of_unknown_outcome(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [
        {"event": "evicting", "uid": "u1", "pod": "shop/a\u009b31m", "run": "r"},
        {"event": "evicted", "uid": "u1", "pod": "shop/a", "run": "r"},
        {"event": "evicting", "uid": "u2", "pod": "shop/b", "run": "r"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    shown = rebalancer_program("journal", "show", str(path)).stdout
    found = json.loads(rebalancer_program("journal", "in-flight", str(path), "-o", "json").stdout)

    assert [line.split()[0] for line in shown.splitlines()[2:]] == ["evicting", "evicted", "evicting"]
    assert "\u009b" not in shown
    assert [line["pod"] for line in found["lines"]] == ["shop/b"]
    assert rebalancer_program("journal", "show", str(tmp_path / "none")).exit_code == 2


def test_a_long_journal_says_what_its_table_leaves_out_and_is_whole_as_json(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(json.dumps({"event": "evicted", "uid": f"u{n}"}) + "\n" for n in range(50)))

    shown = rebalancer_program("journal", "show", str(path)).stdout.splitlines()
    whole = json.loads(rebalancer_program("journal", "show", str(path), "-o", "json").stdout)

    assert (shown[0], len(shown)) == ("… 10 more lines before these (--all)", 44)
    assert len(whole["lines"]) == 50
    assert len(rebalancer_program("journal", "show", str(path), "--all").stdout.splitlines()) == 52
    assert rebalancer_program("journal", "in-flight", str(path)).stdout == "no eviction is in flight\n"


def test_a_run_acts_now_and_only_a_dry_run_at_another_time(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program(*ACTS, "--now", "2026-11-20T12:00:00Z")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "a run acts now, not at the time of --now" in result.stderr
    assert rebalancer_program(*ACTS, "--dry-run", "--now", "2026-11-20T12:00:00Z").exit_code == 0


def test_a_run_can_be_written_as_a_report_with_its_outcomes(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program(*ACTS, "-o", "html")

    assert result.exit_code == pipeline.outcomes.exit_code
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert "What happened: 1 Landed" in result.stdout
    assert read_plan(result.stdout.encode(), "report.html") == pipeline.plan


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--journal", "FILE", "--metrics-textfile", "FILE"), "--journal and --metrics-textfile"),
        (("--journal", "FILE", "--metrics-textfile", "LINK"), "--journal and --metrics-textfile"),
        (("--journal", "FILE", "--state", "FILE"), "--state and --journal"),
        (("--policy", "FILE", "--journal", "FILE"), "--policy and --journal"),
        (("--policy", "FILE", "--state", "LINK", "--journal", "j"), "--policy and --state"),
        (
            ("--kubeconfig", "FILE", "--metrics-textfile", "FILE", "--journal", "j"),
            "--kubeconfig and --metrics-t",
        ),
        (("--scheduler-config", "FILE", "--journal", "FILE"), "--scheduler-config and --journal"),
    ],
)
def test_no_file_is_written_that_another_option_names(
    rebalancer_program: Program,
    pipeline: FakePipeline,
    tmp_path: Path,
    arguments: tuple[str, ...],
    named: str,
) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    paths = {"FILE": str(tmp_path / "file"), "LINK": str(tmp_path / "link"), "j": str(tmp_path / "j")}
    acts = ("run", "--yes") if "--policy" in arguments else ACTS
    result = rebalancer_program(*acts, *(paths.get(argument, argument) for argument in arguments))

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{named}" in result.stderr
    assert "name the same file" in result.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_a_plan_that_its_reader_does_not_want_to_see_is_not_carried_out(
    rebalancer_program: Program, pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_arguments: object) -> None:
        raise BrokenPipeError("the output was closed")

    monkeypatch.setattr("rebalancer.cli.commands.run.show", closed)
    result = rebalancer_program(*ACTS)

    assert (result.exit_code, pipeline.carried_out) == (130, 0)
    assert "the output was closed before the plan was shown: nothing was evicted" in result.stderr


POLICY = "{apiVersion: rebalancer/v1alpha1, kind: RebalancePolicy, metadata: {name: NAME}}"


def test_a_page_shows_the_policy_of_the_run_and_not_what_became_of_its_file(
    rebalancer_program: Program, pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("NAME", "of-the-run"))
    run = pipeline.run

    def meanwhile(*arguments: Any) -> Any:
        policy.write_text("broken: [")
        return run(*arguments)

    monkeypatch.setattr("rebalancer.run.run.run", meanwhile)
    result = rebalancer_program("run", "--yes", "-o", "html", "--policy", str(policy))

    assert result.exit_code == 0, result.stderr
    assert "of-the-run" in result.stdout


def test_a_page_of_a_policy_that_can_be_read_once_is_refused_before_anything_is_evicted(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = rebalancer_program("run", "--yes", "-o", "html", "--policy", str(tmp_path / "pipe"))

    assert (result.exit_code, pipeline.carried_out) == (2, 0)
    assert "-o html reads the policy twice (give a file to --policy)" in result.stderr


def test_a_service_destroys_none_of_its_files_either(rebalancer_program: Program, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    result = rebalancer_program("serve", "--state", path, "--journal", path)

    assert result.exit_code == 2
    assert "--state and --journal name the same file" in result.stderr
