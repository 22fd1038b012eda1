"""The public face: the page that describes it names what the contract allows, and its example works."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rebalancer.planning.plan import Plan

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "lab" / "public-face.md").read_text()


def allowed() -> set[str]:
    """The modules that the lab may import, by the contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (item for item in contracts if item["name"].startswith("The lab imports the public face"))
    return {line.partition(" -> ")[2] for line in contract["ignore_imports"]}


def test_the_page_names_every_module_of_the_contract_and_no_other() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)} - {"rebalancer"}

    assert {"rebalancer" if name == "__version__" else f"rebalancer.{name}" for name in named} == allowed()


def test_the_example_of_the_page_makes_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}

    exec(example, names)

    assert isinstance(names["plan"], Plan)
    assert names["plan"].moves
