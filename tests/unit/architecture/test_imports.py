"""Slow imports happen where they are needed: planning a recorded cluster needs no network client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
NETWORK = ["kubernetes", "urllib3", "requests"]
# Modules that are not named as their package is.
_MODULES = {
    "pyyaml": "yaml",
    "protobuf": "google.protobuf",
    "python-jsonpath": "jsonpath",
    "prometheus-client": "prometheus_client",
}


# What each module does without, in an order in which none may import what a later one does without.
ABSENT = [
    ("rebalancer.cli.program", [*NETWORK, "pandas", "numpy", "pydantic"]),
    # What a plan imports before it sends the first request: the answer is awaited meanwhile.
    ("rebalancer.run.plan", [*NETWORK, "rebalancer.scheduling.registry", "rebalancer.planning.planner"]),
    ("rebalancer.run.run", [*NETWORK, "pandas", "rich", "filelock"]),
]


def test_importing_a_command_does_not_import_what_few_of_its_runs_need() -> None:
    code = f"""
import importlib, sys
for module, absent in {ABSENT}:
    importlib.import_module(module)
    print(module, [name for name in absent if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [f"{module} []" for module, _ in ABSENT]


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


# Outputs of a plan, with what each imports besides, in an order in which none needs less than the one before.
OUTPUTS: list[tuple[str, set[str]]] = [("name", set()), ("json", set()), ("table", {"rich"})]


def test_a_plan_imports_nothing_that_it_does_not_use() -> None:
    code = f"""
import json, sys
from rebalancer.cli.program import main
for output in {[output for output, _ in OUTPUTS]}:
    try:
        main(["plan", "--from", "examples/hot-cluster", "-o", output])
    except SystemExit as error:
        assert not error.code
    print(json.dumps(list(sys.modules)), file=sys.stderr)
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert "shop/" in result.stdout
    imported_by_output = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("[")]
    for (_, more), imported in zip(OUTPUTS, imported_by_output, strict=True):
        packages = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
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
