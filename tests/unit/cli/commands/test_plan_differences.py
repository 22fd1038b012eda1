from __future__ import annotations

import json
from pathlib import Path

import pytest

from rebalancer.cluster.kinds import BY_PLURAL
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path / "recorded", nodes=("hot", "hot", "hot", "cool"), also_read=tuple(BY_PLURAL))


def test_the_plans_of_two_policies_are_compared_with_what_was_changed(
    rebalancer_program: Program, dump: Path
) -> None:
    strict, loose = dump.parent / "strict.yaml", dump.parent / "loose.yaml"
    strict.write_text(HEAD + "evictable: {minAge: 9000h}\n")
    loose.write_text(HEAD + "limits: {perWorkload: 100%}\n")

    arguments = ("plan", "--from", str(dump), "--policy", str(strict), "--diff", str(loose))
    result = rebalancer_program(*arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "evictable.minAge: 9000h → 15m" in result.stdout
    assert "moves             0 → 1" in result.stdout
    assert f"default ({strict}) → default ({loose})" in " ".join(result.stdout.split())
    assert "before: stays (TooYoung)" in result.stdout
    answer = json.loads(rebalancer_program(*arguments, "-o", "json").stdout)
    assert answer["kind"] == "PlanDifference"
    assert [item["setting"] for item in answer["settings"]] == ["evictable.minAge", "limits.perWorkload"]


@pytest.mark.parametrize("more", [("-o", "csv"), ("-o", "name"), ("-n", "shop"), ("--sort", "gain")])
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


def test_a_plan_is_compared_with_one_that_was_written_to_a_file(
    rebalancer_program: Program, dump: Path
) -> None:
    strict = dump.parent / "strict.yaml"
    strict.write_text(HEAD + "evictable: {minAge: 9000h}\n")
    written = dump.parent / "strict.json"
    source = ("--from", str(dump))
    written.write_text(rebalancer_program("plan", *source, "--policy", str(strict), "-o", "json").stdout)

    result = rebalancer_program("plan", *source, "--diff", str(written), "-o", "json")

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["moves"] == [1, 0]


def test_a_plan_that_was_made_is_not_compared_with_a_policy(rebalancer_program: Program, dump: Path) -> None:
    policy, written = dump.parent / "policy.yaml", dump.parent / "plan.json"
    policy.write_text(HEAD)
    written.write_text(rebalancer_program("plan", "--from", str(dump), "-o", "json").stdout)

    result = rebalancer_program("plan", "--from", str(written), "--diff", str(policy))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "is compared with another plan" in result.stderr
