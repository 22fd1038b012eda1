from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

import rebalancer.cli
from tests.unit.cli.conftest import Program


@pytest.mark.parametrize(("arguments", "kept"), [((), False), (("--keep",), True)])
def test_the_demo_plays_its_scenario_and_leaves_with_its_code(
    rebalancer_program: Program, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], kept: bool
) -> None:
    def play(console: Any, style: Any, *, keep: bool) -> int:
        console.print(f"keep {keep}, {style.width} columns")
        return 3

    module: Any = ModuleType("rebalancer.cli.demo_scenario")
    module.play = play
    monkeypatch.setitem(sys.modules, "rebalancer.cli.demo_scenario", module)
    monkeypatch.setattr(rebalancer.cli, "demo_scenario", module, raising=False)
    result = rebalancer_program("demo", *arguments)

    assert (result.exit_code, result.stdout) == (3, f"keep {kept}, 80 columns\n")
