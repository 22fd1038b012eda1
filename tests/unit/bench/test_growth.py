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


def test_every_plan_is_listed_and_the_growth_of_each_stage_is_printed(tmp_path: Path) -> None:
    arguments = ["--moves", "1,2", "--sizes", "4/30,8/60", "--hot", "60,20", "--repeat", "1"]
    shown = CliRunner().invoke(growth.main, [*arguments, "--clusters", str(tmp_path)], catch_exceptions=False)
    lines = [line for line in shown.output.splitlines() if not line.startswith("generating")]

    plans = [line.split() for line in lines[2:-3]]
    assert [len(cells) for cells in plans] == [4 + len(growth.STAGES)] * 5  # two, two and the smaller cluster
    assert int(plans[3][1]) > int(plans[2][1])  # more nodes are hot above 20 % than above 60 %
    assert [line.partition(":")[0] for line in lines[-3:]] == ["per move", "per hot node", "per pod"]
    assert all(f"{stage} " in lines[-1] for stage in growth.STAGES)
