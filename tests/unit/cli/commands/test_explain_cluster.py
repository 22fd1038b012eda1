from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from rebalancer.cluster.kinds import BY_PLURAL
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path / "recorded", nodes=("hot", "hot", "hot", "cool"), also_read=tuple(BY_PLURAL))


def test_why_nothing_moves_fits_a_screen(
    rebalancer_program: Program, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dump.parent)
    result = rebalancer_program("explain", "--from", dump.name)

    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if str(dump) not in line) <= 80
    assert len(lines) <= 26


def test_what_explain_suggests_runs_as_printed_for_the_same_cluster_and_policy(
    rebalancer_program: Program, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dump.parent)
    folder = Path("a rather long name of a policy's folder that needs quoting --and all")
    folder.mkdir()
    (folder / "mine.yaml").write_text(HEAD + "limits: {perRun: 0}\n")
    Path("OTHER_POLICY.yaml").write_text(HEAD)
    options = ("--from", dump.name, "--policy", str(folder / "mine.yaml"))

    shown = rebalancer_program("explain", *options).stdout
    commands = shown.split("NEXT\n")[1].replace("\\\n", "").splitlines()

    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "rebalancer"
        result = rebalancer_program(*words)
        assert (result.exit_code, result.stderr) == (0, ""), command
        assert words[-4:] == [*options]


def test_why_nothing_moves_in_json_is_an_explanation_of_the_cluster(
    rebalancer_program: Program, dump: Path
) -> None:
    result = rebalancer_program("explain", "--from", str(dump), "-o", "json")

    assert json.loads(result.stdout)["kind"] == "ClusterExplanation"


def test_a_namespace_without_a_name_is_refused(rebalancer_program: Program) -> None:
    result = rebalancer_program("explain", "-n", "shop", "--from", "/nowhere")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "-n is the namespace of a name" in result.stderr


HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
