"""Slow imports happen where they are needed: planning a recorded cluster needs no network client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NETWORK = ["kubernetes", "urllib3", "requests"]
# Modules that are not named as their package is.
_MODULES = {
    "pyyaml": "yaml",
    "protobuf": "google.protobuf",
    "python-jsonpath": "jsonpath",
    "prometheus-client": "prometheus_client",
}


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


# What a plan of a recorded cluster may import besides Python's own modules and ours; a table needs rich too.
OF_A_PLAN = {
    *("annotated_types", "click", "cython_runtime", "msgspec", "numpy", "pydantic", "pydantic_core"),
    *("typing_extensions", "typing_inspection", "yaml", "zstandard"),
}
UNUSED = [
    "numpy.ma",
    "numpy.testing",
    "rich.progress",
    "asyncio",
    "multiprocessing",
    "unittest",
    "xml",
    "ssl",
]


@pytest.mark.parametrize(("output", "more"), [("name", set()), ("json", set()), ("table", {"rich"})])
def test_a_plan_imports_nothing_that_it_does_not_use(output: str, more: set[str]) -> None:
    code = f"""
import json, sys
from rebalancer.cli.program import main
try:
    main(["plan", "--from", "examples/hot-cluster", "-o", "{output}"])
finally:
    print(json.dumps(list(sys.modules)), file=sys.stderr)
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    imported = json.loads(result.stderr.splitlines()[-1])
    packages = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names

    assert "shop/" in result.stdout
    assert {name for name in packages if not name.startswith("_")} - OF_A_PLAN - {"rebalancer"} == more
    assert [name for name in UNUSED if name in imported] == []


def test_every_package_that_the_wheel_requires_is_imported_and_those_it_is_built_on_are_required() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[><=]", requirement)[0].lower() for requirement in required}
    modules = {name: _MODULES.get(name, name.replace("-", "_")) for name in names}
    source = "\n".join(path.read_text() for path in (ROOT / "rebalancer").rglob("*.py"))

    unused = [name for name, module in modules.items() if not re.search(rf"(from|import) {module}\b", source)]
    assert unused == []
    assert names >= {"kubernetes", "pandas", "numpy", "click", "tenacity"}
