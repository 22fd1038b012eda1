from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from rebalancer.cluster.kinds import BY_PLURAL
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump
from tests.unit.questions.builders import a_manifest


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path / "recorded", nodes=("hot", "hot", "hot", "cool"), also_read=tuple(BY_PLURAL))


def test_how_many_more_pods_fit_is_shown_in_eighty_columns(rebalancer_program: Program, dump: Path) -> None:
    file = dump.parent / "more.json"
    file.write_text(json.dumps(a_manifest()))

    result = rebalancer_program("fit", str(file), "--from", str(dump))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Pod default/new: 4 more pods fit, on 2 nodes\n")
    assert "0/2 nodes are available: 2 Insufficient cpu." in result.stdout
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if str(dump) not in line) <= 80
    assert len(lines) <= 26


@pytest.mark.parametrize(
    ("replicas", "said"),
    [(3, "all 3 replicas fit; 4 more pods fit, on 2 nodes"), (5, "4 of its 5 replicas fit, on 2 nodes")],
)
def test_whether_the_replicas_of_a_workload_fit_is_what_is_said_first(
    rebalancer_program: Program, dump: Path, replicas: int, said: str
) -> None:
    manifest = a_manifest("Deployment")
    manifest["spec"]["replicas"] = replicas

    result = rebalancer_program("fit", "-", "--from", str(dump), typed=json.dumps(manifest))

    assert result.stdout.startswith(f"Deployment default/new: {said}\n")


def test_a_deployment_on_standard_input_is_answered_in_json(rebalancer_program: Program, dump: Path) -> None:
    manifest = json.dumps(a_manifest("Deployment"))

    result = rebalancer_program("fit", "-", "--from", str(dump), "-o", "json", typed=manifest)

    answer = json.loads(result.stdout)
    assert (answer["kind"], answer["pod"], answer["fits"]) == ("Fit", "Deployment default/new", 4)
    assert answer["inputs"].startswith("sha256:")


def test_a_file_without_a_pod_is_refused_before_the_cluster_is_read(rebalancer_program: Program) -> None:
    result = rebalancer_program("fit", "-", "--from", "/nowhere", typed="kind: Service\n")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "standard input:1:7 kind: 'Service' makes no pods" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_fit_of_a_pod_of_the_cluster_names_the_commands_that_answer_about_it(
    rebalancer_program: Program,
) -> None:
    result = rebalancer_program("fit", "pod/shop/web-1", "--from", "/nowhere")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: pod/shop/web-1: cannot be read: No such file or directory (fit takes a file with pods to "
        "come, or -; about pods of the cluster ask rebalancer explain pod/NAMESPACE/NAME, and why-not)\n"
    )


def test_what_a_drain_would_do_is_shown_in_eighty_columns(rebalancer_program: Program, dump: Path) -> None:
    result = rebalancer_program("what-if", "--drain", "hot", "--add-node", "cool=1", "--from", str(dump))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("What if: drain hot; add 1 like cool\n")
    assert "3 pods: 3 land" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines() if str(dump) not in line) <= 80


def test_two_scheduler_configurations_are_compared_in_json(rebalancer_program: Program, dump: Path) -> None:
    other = dump.parent / "other.yaml"
    other.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")

    result = rebalancer_program(
        "what-if", "--scheduler-config", str(other), "--from", str(dump), "-o", "json"
    )

    answer = json.loads(result.stdout)
    assert answer["kind"] == "WhatIf"
    assert answer["comparison"]["configurations"] == ["defaults", str(other)]
    assert (answer["comparison"]["compared"], answer["comparison"]["differing"]) == (1, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "what should change?"),
        (("--drain", "no\nde"), "is not the name of a node"),
        (("--scale", "deployment=3"), "names neither a pod nor a node nor a workload"),
    ],
)
def test_a_change_that_cannot_be_read_is_refused_before_the_cluster_is_read(
    rebalancer_program: Program, arguments: tuple[str, ...], words: str
) -> None:
    result = rebalancer_program("what-if", *arguments, "--from", "/nowhere")

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("subject", [(), ("node/hot",), ("pod", "web-0")])
def test_why_nothing_moves_fits_a_screen(
    rebalancer_program: Program, dump: Path, monkeypatch: pytest.MonkeyPatch, subject: tuple[str, ...]
) -> None:
    monkeypatch.chdir(dump.parent)
    result = rebalancer_program("why-not", *subject, "--from", dump.name)

    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if str(dump) not in line) <= 80
    assert len(lines) <= 26


@pytest.mark.parametrize("subject", [(), ("node/hot",), ("pod", "web-0")])
def test_what_why_not_suggests_runs_as_printed_for_the_same_cluster_and_policy(
    rebalancer_program: Program, dump: Path, monkeypatch: pytest.MonkeyPatch, subject: tuple[str, ...]
) -> None:
    monkeypatch.chdir(dump.parent)
    folder = Path("a rather long name of a policy's folder that needs quoting --and all")
    folder.mkdir()
    (folder / "mine.yaml").write_text(HEAD + "limits: {perRun: 0}\n")
    Path("OTHER_POLICY.yaml").write_text(HEAD)
    options = ("--from", dump.name, "--policy", str(folder / "mine.yaml"))

    shown = rebalancer_program("why-not", *subject, *options).stdout
    commands = shown.split("NEXT\n")[1].replace("\\\n", "").splitlines()

    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "rebalancer"
        result = rebalancer_program(*words)
        assert (result.exit_code, result.stderr) == (0, ""), command
        assert words[-4:] == [*options]


def test_why_nothing_moves_in_json_names_its_subject(rebalancer_program: Program, dump: Path) -> None:
    result = rebalancer_program("why-not", "no/hot", "--from", str(dump), "-o", "json")

    answer = json.loads(result.stdout)
    assert (answer["kind"], answer["subject"]) == ("WhyNot", "node/hot")


@pytest.mark.parametrize(("form", "lines"), [("name", 1), ("csv", 2)])
def test_top_bounds_the_rows_of_every_list(
    rebalancer_program: Program, dump: Path, form: str, lines: int
) -> None:
    result = rebalancer_program("nodes", "--from", str(dump), "--sort", "heat", "--top", "1", "-o", form)

    assert (result.exit_code, result.stderr) == (0, "")
    shown = result.stdout.splitlines()
    assert len(shown) == lines
    assert "hot" in shown[-1]


HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"


def test_the_plans_of_two_policies_are_compared_with_what_was_changed(
    rebalancer_program: Program, dump: Path
) -> None:
    strict, loose = dump.parent / "strict.yaml", dump.parent / "loose.yaml"
    strict.write_text(HEAD + "evictable: {minAge: 9000h}\n")
    loose.write_text(HEAD + "limits: {perWorkload: 100%}\n")

    arguments = ("plan", "--from", str(dump), "--policy", str(strict), "--diff", str(loose))
    result = rebalancer_program(*arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "evictable.minAge: 9000h → 10m" in result.stdout
    assert "moves             0 → 1" in result.stdout
    assert f"default ({strict}) → default ({loose})" in " ".join(result.stdout.split())
    assert "before: stays (TooYoung)" in result.stdout
    answer = json.loads(rebalancer_program(*arguments, "-o", "json").stdout)
    assert answer["kind"] == "PlanDifference"
    assert [item["setting"] for item in answer["settings"]] == ["evictable.minAge", "limits.perWorkload"]


@pytest.mark.parametrize(
    "more", [("-o", "csv"), ("-o", "name"), ("-n", "shop"), ("--sort", "gain"), ("--advise",)]
)
def test_a_difference_of_plans_lists_no_rows_and_advises_nothing(
    rebalancer_program: Program, dump: Path, more: tuple[str, ...]
) -> None:
    result = rebalancer_program("plan", "--from", str(dump), "--diff", "other.yaml", *more)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--diff" in result.stderr


def test_a_mistake_in_the_other_policy_is_found_before_the_cluster_is_read(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(HEAD + "limit: {perRun: 1}\n")

    result = rebalancer_program("plan", "--from", "/nowhere", "--diff", str(wrong))

    assert result.exit_code == 2
    assert "did you mean limits?" in result.stderr


def test_assertions_about_a_policy_decide_the_exit_code(rebalancer_program: Program, dump: Path) -> None:
    holds, fails = dump.parent / "holds.yaml", dump.parent / "fails.yaml"
    head = "apiVersion: rebalancer/v1alpha1\nkind: PolicyTest\n"
    holds.write_text(head + "hotNodes: [hot]\nmaxEvictions: 5\n")
    fails.write_text(head + "mustStay: [default/web-*]\n")
    junit = dump.parent / "junit.xml"
    source = ("--from", str(dump))

    good = rebalancer_program("policy", "test", str(holds), *source)
    bad = rebalancer_program("policy", "test", str(holds), str(fails), *source, "--junit", str(junit))

    assert (good.exit_code, bad.exit_code) == (0, 9)
    assert good.stdout.endswith("2 assertions: all hold\n")
    assert bad.stdout.endswith("3 assertions: 1 failed\n")
    assert junit.read_text().count("<testcase") == 3
    printed = json.loads(rebalancer_program("policy", "test", str(fails), *source, "-o", "json").stdout)
    assert (printed["kind"], printed["failed"]) == ("PolicyTestReports", 1)


def test_a_policy_that_suits_a_cluster_is_written_and_valid(rebalancer_program: Program, dump: Path) -> None:
    path = dump.parent / "my first.yaml"

    result = rebalancer_program("policy", "init", "--from", str(dump), str(path))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{path}: written; next: rebalancer plan --from {dump} --policy '{path}'\n"
    assert rebalancer_program("policy", "validate", str(path)).exit_code == 0
    assert rebalancer_program("policy", "init", "--from", str(dump)).stdout == path.read_text()
    plan = rebalancer_program("plan", "--from", str(dump), "--policy", str(path))
    assert plan.stdout.startswith("Plan: ")
    again = rebalancer_program("policy", "init", "--from", str(dump), str(path))
    assert (again.exit_code, "already exists" in again.stderr) == (2, True)


def test_a_cluster_without_metrics_gets_a_policy_by_requests(rebalancer_program: Program, dump: Path) -> None:
    (dump / "nodemetrics.json").unlink()

    result = rebalancer_program("policy", "init", "--from", str(dump))

    assert (result.exit_code, result.stderr) == (0, "")
    assert "- requests: {}" in result.stdout


@pytest.mark.parametrize("arguments", [("--scheduler-config", "x.yaml"), ("--from", "x", "--context", "y")])
def test_options_of_a_cluster_need_one_cluster(
    rebalancer_program: Program, arguments: tuple[str, ...]
) -> None:
    result = rebalancer_program("policy", "init", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
