from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rebalancer.policy.policy_file import default_policy, parse_policy
from tests.unit.cli.conftest import Program

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + "metadata: {name: mine}\n")
    return path


def test_the_starter_policy_is_valid_and_says_the_defaults(rebalancer_program: Program) -> None:
    text = rebalancer_program("policy", "init").stdout

    assert parse_policy(text, "starter").policy == default_policy().policy


def test_the_starter_policy_never_overwrites_a_file(rebalancer_program: Program, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"

    assert rebalancer_program("policy", "init", str(path)).exit_code == 0
    again = rebalancer_program("policy", "init", str(path))
    assert again.exit_code == 2
    assert "already exists" in again.stderr


def test_a_valid_policy_is_called_valid(rebalancer_program: Program, policy_file: Path) -> None:
    result = rebalancer_program("policy", "validate", str(policy_file))

    assert (result.exit_code, result.stdout) == (0, f"{policy_file}: valid, policy mine\n")


def test_every_invalid_policy_is_named_with_line_and_field(
    rebalancer_program: Program, policy_file: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(HEAD + "limits:\n  perRun: many\n")
    result = rebalancer_program("policy", "validate", str(broken), str(policy_file), str(tmp_path / "absent"))

    assert result.exit_code == 2
    assert result.stdout == f"{policy_file}: valid, policy mine\n"
    first, second = result.stderr.splitlines()
    assert first.startswith(f"error: {broken}:4:")
    assert "limits.perRun" in first
    assert second.startswith(f"error: {tmp_path / 'absent'}: ")


def test_validation_in_json_says_what_is_wrong_with_which(
    rebalancer_program: Program, policy_file: Path, tmp_path: Path
) -> None:
    result = rebalancer_program(
        "policy", "validate", str(policy_file), str(tmp_path / "absent"), "-o", "json"
    )
    rows = json.loads(result.stdout)["policies"]

    assert result.exit_code == 2
    assert [row["valid"] for row in rows] == [True, False]
    assert rows[0]["inputs"].startswith("sha256:")
    assert str(tmp_path / "absent") in rows[1]["problem"]


def test_a_setting_that_does_nothing_without_another_is_named(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + "execution: {steerLimit: 5m}\n")
    shown = rebalancer_program("policy", "validate", str(path))
    (row,) = json.loads(rebalancer_program("policy", "validate", str(path), "-o", "json").stdout)["policies"]

    said = ["execution.steerLimit does nothing without execution.steer: softTaint"]
    assert shown.exit_code == 0
    assert shown.stderr.splitlines() == [f"warning: {path}: {text}" for text in row["warnings"]]
    assert row["warnings"] == said


def test_the_scheduler_configuration_beside_a_policy_is_checked_too(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + "scheduler: {file: scheduler.yaml}\n")
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    assert rebalancer_program("policy", "validate", str(path)).exit_code == 0

    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION + "profils: []\n")
    result = rebalancer_program("policy", "validate", str(path))
    assert result.exit_code == 2
    assert "scheduler.yaml:3:1" in result.stderr


def test_show_fills_in_every_default(rebalancer_program: Program, policy_file: Path) -> None:
    shown = yaml.safe_load(rebalancer_program("policy", "show", str(policy_file)).stdout)

    assert shown["metadata"]["name"] == "mine"
    assert shown["limits"]["perRun"] == 5


def test_show_in_json_is_the_same_policy(rebalancer_program: Program, policy_file: Path) -> None:
    text = rebalancer_program("policy", "show", str(policy_file)).stdout
    encoded = rebalancer_program("policy", "show", str(policy_file), "-o", "json").stdout

    assert json.loads(encoded) == yaml.safe_load(text)


def test_a_shown_policy_is_a_policy_again(rebalancer_program: Program) -> None:
    text = rebalancer_program("policy", "show").stdout

    assert parse_policy(text, "shown").policy == default_policy().policy


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_the_schema_is_one_document(rebalancer_program: Program, output: str) -> None:
    text = rebalancer_program("policy", "schema", "-o", output).stdout

    assert yaml.safe_load(text)["properties"]["kind"]["const"] == "RebalancePolicy"


def test_a_protection_that_a_recorded_cluster_does_not_have_is_an_error_of_validate(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    hot = Path(__file__).parents[4] / "examples" / "hot-cluster"
    path.write_text(
        HEAD + "scheduler: {version: '1.35'}\nevictable: {namespaces: {exclude: [shpo], include: [shopp]}}\n"
    )
    alone = rebalancer_program("policy", "validate", str(path))
    beside = rebalancer_program("policy", "validate", str(path), "--from", str(hot))
    path.write_text(path.read_text().replace("shpo", "shop"))
    mended = rebalancer_program("policy", "validate", str(path), "--from", str(hot))

    assert alone.exit_code == 0, alone.stderr
    assert beside.exit_code == 2
    assert (
        "exclude names the namespace shpo, which the cluster does not have (did you mean shop?)"
        in beside.stderr
    )
    assert mended.exit_code == 0
    assert "include names the namespace shopp" in mended.stderr
