"""Slow imports happen where they are needed: planning a recorded cluster needs no network client."""

from __future__ import annotations

import subprocess
import sys

import pytest

NETWORK = ["kubernetes", "urllib3", "requests"]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("rebalancer.run.run", [*NETWORK, "pandas", "rich", "filelock"]),
        ("rebalancer.cli.program", [*NETWORK, "pandas", "numpy", "pydantic"]),
    ],
)
def test_importing_a_command_does_not_import(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {absent} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
