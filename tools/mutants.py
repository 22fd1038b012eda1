"""Changes the program in one place at a time, and sees whether its unit tests notice: ``make mutants``.

A mutant is one changed operator, condition, number or result of a function. The tests of its module are run
on it; where none fails, the mutant survives, and either a test is missing or the change makes no difference:

    rebalancer/planning/eviction/budgets.py:138  not spending.free  →  spending.free     survives

The tests are imported once. Each mutant is a process that is forked from there, in which the functions of
the module get the changed code, so that one costs as much as its tests and no import.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import importlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ROOT = Path(__file__).parents[1]
# What may not go wrong unnoticed: who is evicted and when, who may act, what is remembered, what is decoded.
MODULES = (
    "execution/waves", "execution/evict", "execution/verdicts", "execution/verify", "execution/lease",
    "planning/eviction/budgets", "planning/eviction/quotas",
    "planning/eviction/workload_rules", "planning/landing/landing_check",
    "state/run_state", "state/results", "state/samples", "state/stores",
    "cluster/wire/json_items", "cluster/wire/protobuf", "cluster/wire/watch_events",
)  # fmt: skip
LEAST_SHARE = 0.95
# Survivors that are no gap, by module and change, with the reason.
EQUIVALENT = {
    ("planning/eviction/budgets", "room: continue  →  break"): (
        "one quota that cannot be read leaves no room already"
    ),
    (
        "execution/lease",
        "work: self._lost is not None or self._released  →  self._lost is not None and self._released",
    ): "the thread ends later only: renew_if_due asks for both itself",
}

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    module: str  # execution/lease
    line: int
    change: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Where it is changed, and how."""
        return f"rebalancer/{self.module}.py:{self.line}  {self.change}"


def changes_of(node: ast.AST) -> Iterator[Callable[[ast.AST], ast.AST]]:
    """The ways to change one node: each takes a copy of it and gives what stands in its place."""
    match node:
        case ast.Compare(ops=[comparison]) if type(comparison) in _COMPARISONS:
            yield lambda copied: _with(copied, ops=[_COMPARISONS[type(comparison)]()])
        case ast.BoolOp(op=operation):
            other = ast.Or() if isinstance(operation, ast.And) else ast.And()
            yield lambda copied: _with(copied, op=other)
        case ast.UnaryOp(op=ast.Not()):
            yield lambda copied: copied.operand  # type: ignore[attr-defined]
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield lambda copied: _with(copied, test=ast.UnaryOp(ast.Not(), copied.test))  # type: ignore[attr-defined]
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _OPERATORS:
            yield lambda copied: _with(copied, op=_OPERATORS[type(operator)]())
        case ast.Constant(value=bool() as value):
            yield lambda copied: _with(copied, value=not value)
        case ast.Constant(value=int() | float() as number):
            yield lambda copied: _with(copied, value=number + 1)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield lambda copied: _with(copied, value=ast.Constant(None))
        case ast.Continue():
            yield lambda _copied: ast.Break()
        case ast.Expr(value=ast.Call()):
            yield lambda _copied: ast.Pass()


def _with(node: ast.AST, **changed: object) -> ast.AST:
    for name, value in changed.items():
        setattr(node, name, value)
    return node


def places(tree: ast.Module) -> Iterator[list[tuple[str, int | None]]]:
    """The way to each node that may change: inside functions, but not what is only said or declared."""

    def below(
        node: ast.AST, way: list[tuple[str, int | None]], inside: bool
    ) -> Iterator[list[tuple[str, int | None]]]:
        if isinstance(node, ast.Raise | ast.JoinedStr) or _is_message(node):
            return
        if inside:
            yield way
        function = isinstance(node, ast.FunctionDef)
        for name, value in ast.iter_fields(node):
            if name in ("decorator_list", "annotation", "returns", "args") and not isinstance(node, ast.Call):
                continue
            items = (
                [(index, item) for index, item in enumerate(value)]
                if isinstance(value, list)
                else [(None, value)]
            )
            for index, item in items:
                if isinstance(item, ast.AST):
                    yield from below(item, [*way, (name, index)], inside or (function and name == "body"))

    yield from below(tree, [], False)


def _is_message(node: ast.AST) -> bool:
    """Whether it writes a log line: its words are tested where it matters."""
    return isinstance(node, ast.Expr) and "LOGGER" in ast.unparse(node)[:12]


def mutants_of(module: str) -> list[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse((ROOT / "rebalancer" / f"{module}.py").read_text())
    found = []
    functions = [item for item in ast.walk(tree) if isinstance(item, ast.FunctionDef)]
    for way in places(tree):
        node = _at(tree, way)
        for change in changes_of(node):
            copied = copy.deepcopy(tree)
            parent, (name, index) = _at(copied, way[:-1]), way[-1]
            before = ast.unparse(_at(copied, way)).splitlines()[0]
            changed = change(_at(copied, way))
            if index is None:
                setattr(parent, name, changed)
            else:
                getattr(parent, name)[index] = changed
            for item in ast.walk(changed):
                ast.copy_location(item, node) if not hasattr(item, "lineno") else None
            ast.fix_missing_locations(copied)
            after = ast.unparse(changed).splitlines()[0]
            line = getattr(node, "lineno", 0)
            around = [item for item in functions if item.lineno <= line <= (item.end_lineno or 0)]
            function = max(around, key=lambda item: item.lineno).name
            found.append(Mutant(module, line, f"{function}: {before[:70]}  →  {after[:70]}", copied))
    return found


def _at(tree: ast.AST, way: list[tuple[str, int | None]]) -> ast.AST:
    node: ast.AST = tree
    for name, index in way:
        value = getattr(node, name)
        node = value if index is None else value[index]
    return node


def tests_of(module: str) -> list[str]:
    """The unit tests that mirror a module, and those of what is beside it in its folder."""
    folder, _, name = module.rpartition("/")
    unit = ROOT / "tests" / "unit" / folder
    own = sorted(unit.glob(f"test_{name}*.py"))
    others = sorted(path for path in unit.glob("test_*.py") if path not in own)
    return [str(path.relative_to(ROOT)) for path in (*own, *others)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def put_in_place(mutant: Mutant) -> None:
    """Give the functions of the module the mutant's code, whoever holds them."""
    path = str(ROOT / "rebalancer" / f"{mutant.module}.py")
    changed = {
        (item.co_qualname, item.co_firstlineno): item for item in _codes(compile(mutant.tree, path, "exec"))
    }
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == path:
            code = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                function.__code__ = code


def run_tests(tests: list[str], *options: str) -> int:
    """The exit code of pytest, whose words nobody reads."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return int(pytest.main([*tests, "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options]))


def is_killed(mutant: Mutant, tests: list[str], seconds: float) -> bool:
    """Whether a test fails on the mutant, or it does not end."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        with suppress(BaseException):
            put_in_place(mutant)
            os._exit(run_tests(tests))
        os._exit(99)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def try_module(module: str, each: int, seed: int) -> tuple[int, list[Mutant]]:
    """How many mutants of a module were tried, and which survived.

    Raises RuntimeError where the tests fail already.
    """
    tests = tests_of(module)
    importlib.import_module("rebalancer." + module.replace("/", "."))
    run_tests(tests, "--collect-only")  # imports them
    chosen = [mutant for mutant in mutants_of(module) if (module, mutant.change) not in EQUIVALENT]
    random.Random(f"{seed} {module}").shuffle(chosen)  # noqa: S311 - a sample that can be repeated
    chosen = chosen[:each] if each else chosen
    began = time.monotonic()
    if is_killed(Mutant(module, 0, "", ast.parse("")), tests, 3600.0):
        raise RuntimeError(f"the tests of {module} fail as it is")
    seconds = 60.0 + 10 * (time.monotonic() - began)
    survivors = []
    for mutant in chosen:
        if not is_killed(mutant, tests, seconds):
            survivors.append(mutant)
            sys.stdout.write(f"survives  {mutant.name}\n")
            sys.stdout.flush()
    return len(chosen), survivors


def main() -> int:
    """Try a sample of the mutants of each module; 1 where fewer than ``LEAST_SHARE`` are killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", default=list(MODULES), metavar="MODULE", help="such as execution/lease"
    )
    parser.add_argument(
        "--each", type=int, default=40, help="mutants of a module, chosen at random; 0 for all"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tried = survived = 0
    for module in options.modules:
        began = time.monotonic()
        count, survivors = try_module(module, options.each, options.seed)
        tried, survived = tried + count, survived + len(survivors)
        seconds = time.monotonic() - began
        sys.stdout.write(f"{module}: {count - len(survivors)} of {count} killed, {seconds:.0f} s\n")
        sys.stdout.flush()
    share = (tried - survived) / max(tried, 1)
    sys.stdout.write(f"mutants: {tried - survived} of {tried} killed, {share:.1%}\n")
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
