from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer.policy.policy_file import default_policy
from rebalancer.reporting.tables.text import Style
from rebalancer_lab.timeline.space import read_space
from rebalancer_lab.timeline.tuning import tune
from rebalancer_lab.timeline.tuning_command import tuning_table
from rebalancer_lab.timeline.workers import Workers
from tests.lab.timeline.test_tuning import BLOCKS, SEARCH, SPACE, Inline

SHIPPED = Path(__file__).parents[3] / "policies" / "tuning" / "space.yaml"


def tuned(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tune", *arguments])


def test_the_table_says_the_verdict_the_front_and_what_is_changed() -> None:
    space = read_space(SPACE, "space.yaml", default_policy())
    text = tuning_table(tune(space, BLOCKS, SEARCH, Workers(Inline)), Style()).plain

    assert text.startswith("Tuning: better than today's on 3 days held out: ")
    assert "6 blocks to tune on, 3 held out; seed 3" in text
    assert "FRONT" in text
    assert "JUDGED" in text
    assert "hotNodes.any[0].utilization.cpu: 80 → " in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--space", "{tmp}/none.yaml", "{tmp}"), "none.yaml"),
        (("--space", str(SHIPPED), "{tmp}"), "holds no timeline"),
        (("--space", str(SHIPPED), "--write", str(SHIPPED), "{tmp}"), "already exists"),
        (("--space", str(SHIPPED), "--write", "{tmp}/no/chosen.yaml", "{tmp}"), "no such folder"),
        (("--space", str(SHIPPED), "--max-cost", "-1", "{tmp}"), "max-cost"),
        (("--space", str(SHIPPED), "--max-cost", "nan", "{tmp}"), "nan is not a number"),
    ],
)
def test_what_cannot_be_used_is_one_line_before_anything_is_replayed(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = tuned(*(item.replace("{tmp}", str(tmp_path)) for item in arguments))

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
