"""Changes the program in one place at a time, and sees whether its unit tests notice: ``make mutants``.

A mutant is one changed operator, condition, number or result of a function. The tests that reach the changed
line are run on it, those of the module first; where none fails, the mutant survives, and either a
test is missing or the change makes no difference:

    rebalancer/planning/eviction/budgets.py:138  not spending.free  →  spending.free     survives

Tests are collected once, and run once to see which lines each reaches. Each mutant is a process that is
forked from there, in which the functions of the module get the changed code: it costs as much as the tests
until the first that fails, and no import.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import gc
import importlib
import io
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[1]
# What may not go wrong unnoticed: who is evicted and when, who may act, what is remembered, what is decoded.
MODULES = (
    "execution/waves", "execution/evict", "execution/verify", "execution/lease",
    "planning/eviction/budgets", "planning/eviction/quotas",
    "planning/eviction/rules", "planning/eviction/workload_rules", "planning/landing/landing_check",
    "state/run_state", "state/results", "state/stores", "service/policy_in_force",
    "cluster/live/failures", "cluster/live/discovery",
    "cluster/wire/json_items", "cluster/wire/known_fields", "cluster/wire/protobuf",
    "cluster/wire/watch_events", "deadlines", "signals",
)  # fmt: skip
# Tests of a module besides those of its own folder; a module that is in no folder has those with its name.
ALSO = {
    "planning/eviction/workload_rules": ("tests/unit/planning/test_planner_surge.py",),
    "cluster/live/discovery": ("tests/integration/reading/test_served_versions.py",),
    "cluster/live/failures": (
        "tests/unit/execution/test_evict.py",
        "tests/unit/execution/test_evict_verdicts.py",
        "tests/unit/load/prometheus/test_client.py",
    ),
    "deadlines": ("tests/unit/test_signals.py",),
}
LEAST_SHARE = 0.95
# A test that runs on is ended: by the processor's time, since a busy machine is none of the mutant's doing.
# One that waits for what never comes uses none, so it is ended by the clock: late enough for such a machine.
_LEAST_SECONDS = 4.0
_TIMES_AS_LONG = 5.0
_LEAST_WAIT_SECONDS = 30.0
_TIMES_AS_LONG_A_WAIT = 20.0
_MOST_SECONDS = 1200.0
_MADE_AT_IMPORT = "made when the module is imported, before any change of it; every test needs it"
_BRACE_FIRST = "a list begins with a brace, so its items never do"
_ROUNDED = "they differ at a billionth of a point, which is there for rounding"
# Survivors that are no gap, by module and change, with the reason.
EQUIVALENT = {
    ("state/results", "__new__: setattr(member, column, entry)  →  pass"): _MADE_AT_IMPORT,
    ("state/results", "__new__: return member  →  return None"): _MADE_AT_IMPORT,
    ("state/stores", "load: 1  →  2"): "a little more is read, and refused all the same",
    ("state/stores", "load: 2  →  3"): "a little more is read, and refused all the same",
    ("cluster/wire/json_items", "decode_head: 0  →  1"): _BRACE_FIRST,
    ("cluster/wire/json_items", "decode_head: 0  →  1 #2"): _BRACE_FIRST,
    ("cluster/wire/json_items", "decode_head: place >= 0  →  place > 0"): _BRACE_FIRST,
    ("cluster/wire/json_items", "_taken_reports: 0  →  1"): "only how soon a sibling is recognised",
    ("cluster/wire/watch_events", "__init__: 0  →  1"): "the first event is held to a byte less",
    ("cluster/wire/watch_events", "__init__: 0  →  1 #2"): "one byte more is waited for at the beginning",
    ("cluster/wire/watch_events", "events: 0  →  1 #2"): "a frame without bytes is passed over later",
    ("cluster/wire/protobuf", "pods: 0  →  1 #2"): "one byte more is waited for at the beginning",
    ("cluster/wire/protobuf", "__init__: 0  →  1 #3"): "it is set where the list begins, before it counts",
    (
        "cluster/wire/protobuf",
        "_field: at + 1  →  at - 1 #2",
    ): "no list is so long that its length needs ten bytes",
    ("cluster/wire/protobuf", "pods: at > first  →  at >= first"): "of no bytes there are no pods either",
    (
        "cluster/wire/protobuf",
        "class_and_reports: len(self._classes) >= _MAX_CACHED_CLASSES  →  len(self._classes) > "
        "_MAX_CACHED_CLASSES",
    ): "one class of 65,536 more is kept",
    (
        "cluster/wire/protobuf",
        "pods: length > MAX_ITEM_BYTES  →  length >= MAX_ITEM_BYTES",
    ): "one byte of 16,777,216",
    ("cluster/wire/protobuf", "__init__: 0  →  1 #2"): "one byte more is waited for at the beginning",
    (
        "cluster/wire/protobuf",
        "_state: not state or state.startswith(_RUNNING)  →  not state and state.startswith(_RUNNING)",
    ): "decoded, both are the state of one that runs",
    ("cluster/wire/protobuf", "__init__: 0  →  1"): "a byte too many is counted until the first pod is whole",
    (
        "cluster/wire/json_items",
        "_shared: not node_name or spec.count(_NODE_NAME) != 1  →  not node_name and "
        "spec.count(_NODE_NAME) != 1",
    ): "where a text occurs twice one copy is kept, so pods on two nodes still differ",
    (
        "cluster/wire/known_fields",
        "is_known_list: return not _refused(_decoders()[2], body)  →  return None",
    ): "each template of the list is asked for itself",
    ("planning/eviction/workload_rules", "moves_by_restart: 0  →  1"): "neither is more than one",
    (
        "planning/eviction/workload_rules",
        "moves_by_restart: 1  →  2",
    ): "of a Deployment that wants two why_no_surge says why not",
    ("planning/eviction/workload_rules", "rollout: continue  →  break"): (
        "no kind that is passed over is owned by one of those that roll out"
    ),
    ("planning/eviction/quotas", "room: continue  →  break #2"): (
        "one quota that cannot be read leaves no room already"
    ),
    (
        "execution/lease",
        "work: self._lost is not None or self._released  →  self._lost is not None and self._released",
    ): "the thread ends later only: renew_if_due asks for both itself",
    ("execution/lease", "write: 0  →  1"): "a lease never taken and one taken no times begin alike",
    ("execution/lease", "__init__: 0.0  →  1.0"): "it is set with the first record that is seen",
    (
        "execution/lease",
        "renewed_meanwhile: True  →  False",
    ): "whether the interpreter waits for it at its end",
    ("execution/lease", "acquire: 2  →  3"): "room for requests before and after the watching",
    ("execution/lease", "ensure: self.seconds_left > needed  →  self.seconds_left >= needed"): (
        "at exactly two thirds it is renewed, whether it was read again before or not"
    ),
    (
        "state/run_state",
        "cooldown_seconds: 60  →  61",
    ): "so many doublings are longer than any cooldown may be",
    ("planning/landing/landing_check", "serves: 1.0  →  2.0"): "the cost of landings is looked up more often",
    (
        "planning/landing/landing_check",
        "serves: np.count_nonzero(served) > np.count_nonzero(enough)  →  np.count_nonzero(served) >= "
        "np.count_nonzero(enough)",
    ): "the cost of landings is looked up more often",
    (
        "planning/landing/landing_check",
        "__init__: 0  →  1",
    ): "percent_of_allocatable divides alike, and looks first whether it may",
    (
        "planning/landing/landing_check",
        "_cool_enough: after.shape[-1] > len(PERCENT_RESOURCES)  →  after.shape[-1] >= "
        "len(PERCENT_RESOURCES)",
    ): "of no other resources nothing is changed",
    (
        "planning/landing/landing_check",
        "makes_room: 0.0  →  1.0",
    ): "without a rule the level is infinite, and so the greater",
    (
        "planning/landing/landing_check",
        "_worse: landings.after <= landings.before + _ROUNDING  →  "
        "landings.after < landings.before + _ROUNDING",
    ): _ROUNDED,
    (
        "planning/landing/landing_check",
        "serves: gains >= least * most_times  →  gains > least * most_times",
    ): _ROUNDED,
    ("planning/landing/landing_check", "serves: gains >= least  →  gains > least"): _ROUNDED,
    (
        "planning/landing/landing_check",
        "serves: gains >= least * self._times(landings)[:, None]  →  "
        "gains > least * self._times(landings)[:, None]",
    ): _ROUNDED,
    (
        "planning/landing/landing_check",
        "objection: points + _ROUNDING >= asked  →  points + _ROUNDING > asked",
    ): _ROUNDED,
    (
        "planning/landing/landing_check",
        "objection: points + _ROUNDING >= asked  →  points + _ROUNDING > asked #2",
    ): _ROUNDED,
    (
        "planning/landing/landing_check",
        "settings_behind: gains + _ROUNDING >= least * self._times(landings)[at]  →  "
        "gains + _ROUNDING > least * self._times(landings)[at]",
    ): _ROUNDED,
    (
        "planning/landing/landing_check",
        "settings_behind: gains + _ROUNDING >= least  →  gains + _ROUNDING > least",
    ): _ROUNDED,
    ("state/run_state", "bounded: 10  →  11"): "the bytes beside a name are estimated, and over-estimated",
    ("state/run_state", "bounded: left < MAX_BYTES // 4  →  left <= MAX_BYTES // 4"): "one byte of 230,000",
    ("state/run_state", "bounded: left < 0  →  left <= 0"): "one byte of 921,600",
    ("state/run_state", "bounded: 0  →  1"): "one byte of 921,600",
    ("state/run_state", "bounded: 0  →  1 #2"): "one byte of 921,600",
    ("state/run_state", "bounded: 0  →  1 #3"): "one byte of 921,600",
    ("state/run_state", "bounded: 1  →  2 #2"): "the comma after a move is counted twice",
    ("state/run_state", "decode: len(content) > 2 * MAX_BYTES  →  len(content) >= 2 * MAX_BYTES"): (
        "one byte of 1,843,200"
    ),
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
    lines: range  # of the statement it is in
    way: tuple[tuple[str, int | None], ...] = field(repr=False)
    which: int = 0  # of the changes of that node

    @property
    def name(self) -> str:
        """Where it is changed, and how."""
        return f"rebalancer/{self.module}.py:{self.line}  {self.change}"

    def tree(self) -> ast.Module:
        """The whole module, changed."""
        tree = _parsed(self.module)
        parent = _at(tree, self.way[:-1])
        name, index = self.way[-1]
        node = _at(tree, self.way)
        line = getattr(node, "lineno", 0)
        column = getattr(node, "col_offset", 0)
        changed = list(changes_of(node))[self.which](node)
        if index is None:
            setattr(parent, name, changed)
        else:
            getattr(parent, name)[index] = changed
        for part in ast.walk(changed):
            if isinstance(part, ast.expr | ast.stmt) and not hasattr(part, "lineno"):
                part.lineno = part.end_lineno = line
                part.col_offset = part.end_col_offset = column
        return ast.fix_missing_locations(tree)


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
        if isinstance(node, ast.Raise | ast.JoinedStr) or _is_message(node) or _is_cut(node):
            return
        if inside:
            yield way
        function = isinstance(node, ast.FunctionDef)
        for name, value in ast.iter_fields(node):
            if name in ("decorator_list", "annotation", "returns", "args") and not isinstance(node, ast.Call):
                continue
            items = (
                [(index, child) for index, child in enumerate(value)]
                if isinstance(value, list)
                else [(None, value)]
            )
            for index, child in items:
                if isinstance(child, ast.AST):
                    yield from below(child, [*way, (name, index)], inside or (function and name == "body"))

    yield from below(tree, [], False)


def _is_cut(node: ast.AST) -> bool:
    """Whether it says how much of a text is shown, such as ``[:200]``, or asks a zip to check the lengths."""
    strict = isinstance(node, ast.keyword) and node.arg == "strict"
    return strict or (isinstance(node, ast.Slice) and getattr(node.upper, "value", 0) in range(20, 1000))


def _is_message(node: ast.AST) -> bool:
    """Whether it writes a log line: its words are tested where it matters."""
    return isinstance(node, ast.Expr) and "LOGGER" in ast.unparse(node)[:12]


def _parsed(module: str) -> ast.Module:
    return ast.parse(_text_of(module))


@functools.cache  # a file that is edited meanwhile is not the module that was imported
def _text_of(module: str) -> str:
    return (ROOT / "rebalancer" / f"{module}.py").read_text()


def mutants_of(module: str) -> list[Mutant]:
    """Every mutant of a module."""
    tree = _parsed(module)
    mutants = []
    seen: Counter[str] = Counter()  # changes of a function that read alike are numbered
    functions = [function for function in ast.walk(tree) if isinstance(function, ast.FunctionDef)]
    for way in map(tuple, places(tree)):
        node = _at(tree, way)
        for which, change_of in enumerate(list(changes_of(node))):
            before = ast.unparse(node).splitlines()[0]
            after = ast.unparse(change_of(copy.deepcopy(node))).splitlines()[0]
            line = getattr(node, "lineno", 0)
            around = [
                function for function in functions if function.lineno <= line <= (function.end_lineno or 0)
            ]
            function = max(around, key=lambda function: function.lineno).name
            change = f"{function}: {before[:70]}  →  {after[:70]}"
            seen[change] += 1
            change += f" #{seen[change]}" if seen[change] > 1 else ""
            mutants.append(Mutant(module, line, change, _lines(tree, way), way, which))
    return mutants


def _lines(tree: ast.Module, way: tuple[tuple[str, int | None], ...]) -> range:
    """The lines of the statement that a node is in, without those of the statements in it."""
    statements = [
        node for end in range(1, len(way) + 1) if isinstance(node := _at(tree, way[:end]), ast.stmt)
    ]
    statement = statements[-1]
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    handlers = isinstance(statement, ast.Try)
    if not body or handlers:
        return range(statement.lineno, (statement.end_lineno or 0) + 1)
    first = body[0].pattern if isinstance(statement, ast.Match) else body[0]
    return range(statement.lineno, max(first.lineno, statement.lineno + 1))


def _at(tree: ast.AST, way: tuple[tuple[str, int | None], ...]) -> ast.AST:
    node: ast.AST = tree
    for name, index in way:
        value = getattr(node, name)
        node = value if index is None else value[index]
    return node


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class Trials:
    """A plugin of pytest: in place of running the tests it collected, it tries mutants on them."""

    def __init__(self, module: str, mutants: list[Mutant], jobs: int) -> None:
        self.module = module
        self.mutants = mutants
        self.jobs = jobs
        self.path = str(ROOT / "rebalancer" / f"{module}.py")
        self.survivors: list[Mutant] = []
        self.failed: list[str] = []  # tests that fail on the module as it is
        self._items: list[pytest.Item] = []
        self._reached: list[tuple[set[int], float]] = []  # by item: lines of the module, seconds of processor
        self._functions: dict[tuple[str, int], list[FunctionType]] = defaultdict(list)
        self._caches: list[functools._lru_cache_wrapper[Any]] = []  # of functions of the module

    def pytest_collection(self) -> None:
        """Properties draw the same examples for every mutant, keep none, and do not shrink what fails."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - not before pytest rewrites its assertions

        phases = (Phase.explicit, Phase.generate, Phase.target)
        settings.register_profile(
            "mutants", deadline=None, database=None, derandomize=True, phases=phases, print_blob=False
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every mutant."""
        self._items = session.items
        gc.unfreeze()  # what tests/conftest.py froze is not listed
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__.co_filename == self.path:
                code = function.__code__
                self._functions[code.co_qualname, code.co_firstlineno].append(function)
        if not self._functions:
            raise RuntimeError(f"no function of {self.path} is found, and so none can be changed")
        of = "rebalancer." + self.module.replace("/", ".")
        wrappers = [
            wrapper for wrapper in gc.get_objects() if isinstance(wrapper, functools._lru_cache_wrapper)
        ]
        self._caches = [wrapper for wrapper in wrappers if wrapper.__module__ == of]
        gc.collect()
        gc.freeze()
        with tempfile.TemporaryDirectory() as folder:
            self._see_what_is_reached(Path(folder))
            if not self.failed:
                self._try_all(Path(folder))
        gc.unfreeze()
        return True

    def _see_what_is_reached(self, folder: Path) -> None:
        written = folder / "reached"
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                written.write_bytes(pickle.dumps(self._traced(folder / "traced")))
                os._exit(0)
            os._exit(99)
        os.waitpid(child, 0)
        self._reached, self.failed = pickle.loads(written.read_bytes())  # noqa: S301 - our own

    def _traced(self, folder: Path) -> tuple[list[tuple[set[int], float]], list[str]]:
        """The lines that each test reaches and how long it takes, and which fail."""
        lines: set[int] = set()

        def each_line(frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return each_line

        def each_call(frame: FrameType, _event: str, _argument: object) -> Any:
            return each_line if frame.f_code.co_filename == self.path else None

        self._in_a_folder(folder)
        threading.settrace(each_call)
        reached = []
        failed = []
        for test, following in zip(self._items, [*self._items[1:], None], strict=True):
            lines.clear()
            self._forget()
            began = time.process_time()
            sys.settrace(each_call)
            passed = self._passes(test, following)
            sys.settrace(None)
            reached.append((set(lines), time.process_time() - began))
            failed += [] if passed else [test.nodeid]
        return reached, failed

    def _forget(self) -> None:
        """What a test before has computed is computed again, or this one would not reach the lines."""
        for cache in self._caches:
            cache.cache_clear()

    def _in_a_folder(self, folder: Path) -> None:
        """Folders of tests are numbered by looking at all of them: each process has its own."""
        folder.mkdir()
        self._items[0].config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]

    @staticmethod
    def _passes(test: pytest.Item, following: pytest.Item | None) -> bool:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return not any(report.failed for report in runtestprotocol(test, log=False, nextitem=following))

    def _tests_of(self, mutant: Mutant) -> list[tuple[pytest.Item, float]]:
        """The tests that reach its line and how long each takes, its own and the fastest first."""
        reaching = [
            (test, seconds)
            for test, (lines, seconds) in zip(self._items, self._reached, strict=True)
            if not lines.isdisjoint(mutant.lines)
        ]
        modules: dict[str, list[float]] = defaultdict(list)
        for test, seconds in reaching:
            modules[test.nodeid.partition("::")[0]].append(seconds)
        own = f"test_{mutant.module.rpartition('/')[2]}"
        order = {
            module: (not Path(module).name.startswith(own), sum(times) / len(times))
            for module, times in modules.items()
        }
        return sorted(reaching, key=lambda pair: order[pair[0].nodeid.partition("::")[0]])

    def _try_all(self, folder: Path) -> None:
        waiting = list(reversed(self.mutants))
        running = dict[int, tuple[Mutant, float, Path]]()
        while waiting or running:
            while waiting and len(running) < self.jobs:
                mutant = waiting.pop()
                items = self._tests_of(mutant)
                if not items:
                    self._survives(mutant, "no test reaches it")
                    continue
                own = folder / str(len(waiting))
                child = os.fork()
                if child == 0:
                    os.setpgid(0, 0)
                    with suppress(BaseException):
                        os._exit(self._try(mutant, items, own))
                    os._exit(99)
                running[child] = (mutant, time.monotonic() + _MOST_SECONDS, own)
            for child, (mutant, end, own) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                if not ended and time.monotonic() < end:
                    continue
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                if not ended:
                    os.waitpid(child, 0)
                elif status == 0:
                    self._survives(mutant, "survives")
                del running[child]
                shutil.rmtree(own, ignore_errors=True)
            time.sleep(0.01)

    def _survives(self, mutant: Mutant, word: str) -> None:
        self.survivors.append(mutant)
        sys.__stdout__.write(f"{word}  {mutant.name}\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]

    def _try(self, mutant: Mutant, items: list[tuple[pytest.Item, float]], folder: Path) -> int:
        """1 when a test fails on the mutant."""
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(null, stream)
        self._in_a_folder(folder)
        self._forget()
        for code in _codes(compile(mutant.tree(), self.path, "exec")):
            for function in self._functions.get((code.co_qualname, code.co_firstlineno), ()):
                if code.co_freevars == function.__code__.co_freevars:
                    function.__code__ = code
        following = [*(test for test, _ in items[1:]), None]
        for (test, seconds), after in zip(items, following, strict=True):
            limit = int(time.process_time() + _LEAST_SECONDS + _TIMES_AS_LONG * seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            signal.setitimer(signal.ITIMER_REAL, _LEAST_WAIT_SECONDS + _TIMES_AS_LONG_A_WAIT * seconds)
            if not self._passes(test, after):
                return 1
        return 0


def _test_paths(module: str) -> list[str]:
    """The folder or files that hold its tests."""
    folder, _, name = module.rpartition("/")
    if folder:
        return [f"tests/unit/{folder}", *ALSO.get(module, ())]
    files = sorted(path.relative_to(ROOT) for path in (ROOT / "tests" / "unit").glob(f"test_{name}*.py"))
    return [*map(str, files), *ALSO.get(module, ())]


def try_module(module: str, each: int, seed: int, jobs: int, match: str = "") -> tuple[int, list[Mutant]]:
    """How many mutants of a module were tried, and which survived.

    Raises RuntimeError where the tests fail already.
    """
    importlib.import_module("rebalancer." + module.replace("/", "."))
    chosen = [
        mutant
        for mutant in mutants_of(module)
        if (module, mutant.change) not in EQUIVALENT
        and match in mutant.name
        and "super()" not in mutant.change  # code that no longer knows its class fits no function
    ]
    random.Random(f"{seed} {module}").shuffle(chosen)  # noqa: S311 - a sample that can be repeated
    chosen = chosen[:each] if each else chosen
    trials = Trials(module, chosen, jobs)
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()):
        code = pytest.main(
            [
                *_test_paths(module),
                "-q",
                "-s",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
            ],
            plugins=[trials],
        )
    if trials.failed or code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(
            f"the tests of {module} fail as it is: {trials.failed or output.getvalue()[-2000:]}"
        )
    return len(chosen), trials.survivors


def main() -> int:
    """Try a sample of the mutants of each module; 1 where fewer than ``LEAST_SHARE`` are killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", default=list(MODULES), metavar="MODULE", help="such as execution/lease"
    )
    parser.add_argument(
        "--each", type=int, default=40, help="mutants of a module, chosen at random; 0 for all"
    )
    parser.add_argument("--match", default="", metavar="TEXT", help="only mutants whose line holds this text")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    options = parser.parse_args()
    tried = survived = 0
    for module in options.modules:
        child_times = os.times()
        count, survivors = try_module(module, options.each, options.seed, options.jobs, options.match)
        tried = tried + count
        survived = survived + len(survivors)
        spent = os.times()
        seconds = sum(spent[:4]) - sum(child_times[:4])
        sys.stdout.write(
            f"{module}: {count - len(survivors)} of {count} killed, {seconds:.0f} s of processor\n"
        )
        sys.stdout.flush()
    share = (tried - survived) / max(tried, 1)
    sys.stdout.write(f"mutants: {tried - survived} of {tried} killed, {share:.1%}\n")
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
