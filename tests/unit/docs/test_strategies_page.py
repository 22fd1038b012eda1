"""The page of strategies names every strategy once, with the plugins of descheduler that it replaces."""

from __future__ import annotations

import re
from pathlib import Path

from rebalancer.planning.strategies import STRATEGIES

PAGE = (Path(__file__).parents[3] / "docs" / "strategies.md").read_text()
OTHERS = [
    ours for ours in STRATEGIES if ours.name != "hotNodes"
]  # which has a section of the policy to itself


def test_the_table_has_every_strategy_with_the_plugins_that_the_import_maps_to_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
    shown = {name: set(plugins.split(", ")) for name, plugins in rows}

    assert shown == {
        "hotNodes": {"LowNodeUtilization"},
        **{ours.name: set(ours.replaces) or {"none"} for ours in OTHERS},
    }


def test_every_strategy_has_an_example_and_a_section() -> None:
    example = PAGE.split("```")[1]
    for ours in OTHERS:
        assert f"  {ours.name}: " in example
        assert f"\n## {ours.name}\n" in PAGE
