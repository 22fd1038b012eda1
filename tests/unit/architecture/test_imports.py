"""Slow imports happen where they are needed: planning a recorded cluster needs no network client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NETWORK = ["kubernetes", "urllib3", "requests"]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("rebalancer.run.run", [*NETWORK, "pandas", "rich", "filelock"]),
        # What a plan imports before it sends the first request: the answer is awaited meanwhile.
        ("rebalancer.run.plan", [*NETWORK, "rebalancer.scheduling.registry", "rebalancer.planning.planner"]),
        ("rebalancer.cli.program", [*NETWORK, "pandas", "numpy", "pydantic"]),
    ],
)
def test_importing_a_command_does_not_import(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {absent} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_a_plan_imports_nothing_that_it_does_not_use() -> None:
    unused = ["numpy.ma", "pandas", "jinja2", "prometheus_client", "opentelemetry", *NETWORK]
    code = f"""
import sys
from rebalancer.cli.program import main
try:
    main(["plan", "--from", "examples/hot-cluster", "-o", "name"])
finally:
    print([name for name in {unused} if name in sys.modules], file=sys.stderr)
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert "pod/shop/" in result.stdout
    assert result.stderr.splitlines()[-1] == "[]"
