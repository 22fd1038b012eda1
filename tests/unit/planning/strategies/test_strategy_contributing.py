"""The strategy of CONTRIBUTING.md, with its test, works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rebalancer.planning.strategies import STRATEGIES
from rebalancer.policy.policy_file import schema
from tests.unit.planning.strategies.registered import registered

PAGE = Path(__file__).parents[4] / "CONTRIBUTING.md"


def test_the_example_of_a_strategy_passes_the_test_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    section = PAGE.read_text().partition("## Add a strategy")[2].partition("\n## ")[0]
    code, test = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    module = ModuleType("rebalancer.planning.strategies.age")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "age.py", "exec"), module.__dict__)
    names: dict[str, Any] = {}
    exec(compile(test, "test_age.py", "exec"), names)

    tests = [value for name, value in names.items() if name.startswith("test_")]
    with registered(module.__dict__["Age"]):
        for case in tests:
            case()
        assert "maxAge" in schema()["$defs"]["AgeSettings"]["properties"]
    assert len(tests) == 2


def test_the_excerpt_of_the_registry_names_the_first_strategy_and_another_one_before_the_new_one() -> None:
    names = [strategy.__name__ for strategy in STRATEGIES]
    listed = PAGE.read_text().partition("STRATEGIES: tuple[type[Strategy], ...] = (\n")[2].partition("\n)")[0]
    first, more, other, new = [line.strip().rstrip(",") for line in listed.splitlines()]

    assert (first, more, new) == (names[0], "...", "Age")
    assert other in names
