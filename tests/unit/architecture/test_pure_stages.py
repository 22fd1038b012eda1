"""Stages that take values and return values: what no import shows is looked for in their calls.

An import contract in pyproject.toml keeps clocks, chance, processes and the network from them. Files, though,
are opened without an import, dates are imported for their arithmetic, and numpy for its arrays.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.rows import rows

ROOT = Path(__file__).parents[3]
FILES = frozenset(
    {"open", "read_text", "read_bytes", "write_text", "write_bytes", "stat", "exists", "iterdir"}
)
FILES |= {
    "is_file",
    "is_dir",
    "glob",
    "rglob",
    "mkdir",
    "unlink",
    "rename",
    "touch",
    "tofile",
    "fromfile",
    "memmap",
}
NOW = frozenset({"now", "utcnow", "today"})
BUILT_IN = frozenset({"open", "input", "print", "__import__"})
OF_A_SEED = frozenset({"default_rng", "Generator", "SeedSequence", "BitGenerator"})
READ_ELSEWHERE = {
    "rebalancer/policy/policy_file.py": "documents reads the file, and the wheel has one to start from",
}


def stages() -> list[str]:
    """The packages of the contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(item["source_modules"] for item in contracts if "do no I/O" in item["name"])


def folder_of(stage: str) -> Path:
    """Where the distribution of a stage lies."""
    return ROOT / "lab" if stage.startswith("rebalancer_lab.") else ROOT


def modules() -> Iterator[Path]:
    for stage in stages():
        path = folder_of(stage) / stage.replace(".", "/")
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def found_in(source: str) -> list[str]:
    """What opens files, reads the clock, or draws what no seed decides."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if is_impure(node)]


def is_impure(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in BUILT_IN
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        unseeded = node.func.attr == "default_rng" and not (node.args or node.keywords)
        return unseeded or node.func.attr in FILES
    if not isinstance(node, ast.Attribute):
        return False
    if node.attr not in NOW and not isinstance(node.value, ast.Attribute):
        return False
    owner = ast.unparse(node.value)
    now = node.attr in NOW and owner.rpartition(".")[2] in {"datetime", "date", "Timestamp"}
    return now or (owner in {"np.random", "numpy.random"} and node.attr not in OF_A_SEED)


def test_no_stage_that_returns_values_opens_a_file_reads_the_clock_or_draws_without_a_seed() -> None:
    found = {str(path.relative_to(ROOT)): found_in(path.read_text()) for path in modules()}

    assert {name: calls for name, calls in found.items() if calls and name not in READ_ELSEWHERE} == {}
    assert len(found) > 100
    assert all(found[name] for name in READ_ELSEWHERE), "what opens no file needs no exception"


@rows(
    "line",
    [
        "open('x')",
        "sys.stdout.write; print(1)",
        "path.read_text()",
        "datetime.now(UTC)",
        "datetime.date.today()",
        "pd.Timestamp.now()",
        "np.random.default_rng()",
        "np.random.seed(1)",
        "np.fromfile('x')",
    ],
)
def test_a_call_that_does_is_found(line: str) -> None:
    assert found_in(line)


@rows("line", ["np.random.default_rng(seed)", "self.load.now()", "np.random.Generator", "a.name"])
def test_a_call_that_does_not_is_none(line: str) -> None:
    assert not found_in(line)
