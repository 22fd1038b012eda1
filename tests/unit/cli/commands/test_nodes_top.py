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


@pytest.mark.parametrize(("form", "lines"), [("name", 1), ("csv", 2)])
def test_top_bounds_the_rows_of_every_list(
    rebalancer_program: Program, dump: Path, form: str, lines: int
) -> None:
    result = rebalancer_program("nodes", "--from", str(dump), "--sort", "heat", "--top", "1", "-o", form)

    assert (result.exit_code, result.stderr) == (0, "")
    shown = result.stdout.splitlines()
    assert len(shown) == lines
    assert "hot" in shown[-1]
