from __future__ import annotations

from pathlib import Path

import pytest

from rebalancer.cluster.kinds import BY_PLURAL
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path / "recorded", nodes=("hot", "hot", "hot", "cool"), also_read=tuple(BY_PLURAL))


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
