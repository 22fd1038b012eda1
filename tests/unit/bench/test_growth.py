"""How planning grows, on clusters too small to time: that exponents are those of the figures."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import growth


@pytest.mark.parametrize("power", [0.0, 1.0, 1.7])
def test_the_exponent_is_the_power_by_which_time_grows(power: float) -> None:
    amounts = [25, 50, 100, 200]

    assert growth.exponent(amounts, [0.3 * amount**power for amount in amounts]) == pytest.approx(power)


def test_there_is_no_exponent_of_one_size() -> None:
    assert math.isnan(growth.exponent([50, 50], [1.0, 1.1]))


def test_every_plan_is_listed_and_both_exponents_are_printed(tmp_path: Path) -> None:
    arguments = ["--moves", "1,2", "--sizes", "4/30,8/60", "--repeat", "1", "--clusters", str(tmp_path)]
    shown = CliRunner().invoke(growth.main, arguments, catch_exceptions=False).output.splitlines()

    plans = [line.split() for line in shown[2:-2] if not line.startswith("generating")]
    assert [nodes for nodes, *_ in plans] == ["8", "8", "4"]
    assert shown[-2].startswith("per move: exponent ")
    assert shown[-1].startswith("per node: exponent ")
