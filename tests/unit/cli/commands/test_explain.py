from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path)


def test_a_pod_is_explained_in_a_table_of_eighty_columns(rebalancer_program: Program, dump: Path) -> None:
    result = rebalancer_program("explain", "pod/default/web-0", "--from", str(dump))

    assert (result.exit_code, result.stderr) == (0, "")
    for heading in ("STAYING COSTS", "EXPECTED LANDING", "SCHEDULER'S SCORES"):
        assert heading in result.stdout
    assert "weighted scores:" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_node_is_explained_in_a_table_with_its_pods(rebalancer_program: Program, dump: Path) -> None:
    result = rebalancer_program("explain", "node/hot", "--from", str(dump))

    assert result.stdout.startswith("node hot: hot\n")
    assert "default/web-0" in result.stdout
    assert "SingleReplica" not in result.stdout


@pytest.mark.parametrize(
    ("subject", "kind"), [("pod/default/web-0", "PodExplanation"), ("node/cool", "NodeExplanation")]
)
def test_explanations_in_json_carry_kind_version_and_digest(
    rebalancer_program: Program, dump: Path, subject: str, kind: str
) -> None:
    printed = json.loads(rebalancer_program("explain", subject, "--from", str(dump), "-o", "json").stdout)

    assert (printed["kind"], printed["apiVersion"]) == (kind, "rebalancer/v1alpha1")
    assert printed["inputs"].startswith("sha256:")


def test_a_near_miss_is_one_line_with_a_suggestion(rebalancer_program: Program, dump: Path) -> None:
    result = rebalancer_program("explain", "pod/default/wbe-0", "--from", str(dump))

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "did you mean pod/default/web-0" in result.stderr
