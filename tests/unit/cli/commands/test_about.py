from __future__ import annotations

import sys
from typing import Any

import pytest

from rebalancer_demo import scenario
from tests.unit.cli.conftest import Program


@pytest.mark.parametrize(("arguments", "kept"), [((), False), (("--keep",), True)])
def test_the_demo_plays_its_scenario_and_leaves_with_its_code(
    rebalancer_program: Program, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], kept: bool
) -> None:
    def play(console: Any, style: Any, *, keep: bool) -> int:
        console.print(f"keep {keep}, {style.width} columns")
        return 3

    monkeypatch.setattr(scenario, "play", play)
    result = rebalancer_program("demo", *arguments)

    assert (result.exit_code, result.stdout) == (3, f"keep {kept}, 80 columns\n")


def test_a_demo_whose_own_import_fails_is_not_taken_for_a_missing_one(
    rebalancer_program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "rebalancer_demo.scenario")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    result = rebalancer_program("demo")

    assert "leaves the embedded cluster out" not in result.stderr
