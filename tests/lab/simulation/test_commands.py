from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path)


def _policy(folder: Path, name: str, runs: int) -> str:
    path = folder / f"{name}.policy"
    path.write_text(
        "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
        f"metadata: {{name: {name}}}\nhotNodes: {{forRuns: {runs}}}\n"
    )
    return str(path)


def test_a_simulation_in_json_has_runs_and_cycles_in_the_documented_shape(
    rebalancer_program: Program, dump: Path
) -> None:
    policies = [_policy(dump.parent, "quick", 1), _policy(dump.parent, "slow", 3)]
    given = [word for path in policies for word in ("--policy", path)]
    result = rebalancer_program(
        "simulate", "--from", str(dump), *given, "--cycles", "3", "--noise", "5%", "--lag", "5m", "-o", "json"
    )

    assert (result.exit_code, result.stderr) == (0, "")
    printed = json.loads(result.stdout)
    assert (printed["kind"], printed["noise"], printed["lagSeconds"]) == ("Simulation", 0.05, 300)
    assert [run["policy"] for run in printed["runs"]] == ["quick", "slow"]
    assert [len(run["cycles"]) for run in printed["runs"]] == [3, 3]
    assert set(printed["runs"][0]["cycles"][0]) >= {
        "cycle", "hot", "peak", "deviation", "evictions", "pending", "moves",
    }  # fmt: skip


def test_two_policies_of_one_name_are_distinguished_by_their_files(
    rebalancer_program: Program, dump: Path
) -> None:
    path = _policy(dump.parent, "same", 1)
    result = rebalancer_program(
        "simulate", "--from", str(dump), "--policy", path, "--policy", path, "--cycles", "1", "-o", "json"
    )

    assert [run["policy"] for run in json.loads(result.stdout)["runs"]] == [f"same ({path})"] * 2


@pytest.mark.parametrize(
    "wrong", [("--noise", "half"), ("--cycles", "0"), ("--interval", "0s"), ("--lag", "x")]
)
def test_an_option_that_makes_no_sense_is_refused(
    rebalancer_program: Program, dump: Path, wrong: tuple[str, str]
) -> None:
    result = rebalancer_program("simulate", "--from", str(dump), *wrong)

    assert result.exit_code == 2
    assert wrong[0] in result.stderr
