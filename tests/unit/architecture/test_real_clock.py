"""No test depends on how long something takes here: only tests/waiting.py reads the clock of the machine.

Left out are tests/e2e, whose programs keep their own time, and programs that measure or are given time.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.rows import rows

TESTS = Path(__file__).parents[2]
WAITING = TESTS / "waiting.py"
# Programs beside the tests, which measure, or try for as long as they are told.
PROGRAMS = {
    "churn.py": "how fast changes are followed",
    "conformance/samples.py": "samples for so many seconds",
    "conformance/speed.py": "processor seconds of a decision",
    "fuzz/target.py": "an input that takes out of proportion is a finding; its test passes a clock",
    "fuzz/worker.py": "fuzzes for so many seconds",
    "integration/running/test_stops_at_random.py": "asks commands to stop at moments that are drawn",
    "integration/serving/handovers.py": "kills leaders at moments between two events, when started by hand",
    "ux/first_minutes.py": "how long a user's first commands take",
}
CLOCKS = frozenset({"time", "monotonic", "perf_counter", "process_time", "thread_time"})
CLOCKS |= {"clock_gettime", "sleep"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
OF_A_MOMENT = {"gmtime": 1, "localtime": 1, "ctime": 1, "strftime": 2}  # without so many arguments: of now
NOW = frozenset({"now", "utcnow", "today"})
# What a bound may be given to: a thread, an event, a process, a socket, an answer.
BOUNDED = frozenset({"wait", "wait_for", "join", "communicate", "settimeout", "result"})
TIMERS = frozenset({"Timer", "alarm", "setitimer"})
BOUNDED_BY_NAME = BOUNDED | {"run", "check_output", "check_call", "urlopen", "create_connection", "acquire"}
BOUNDED_BY_NAME |= {"get", "put"}  # of a queue
LEAST_BOUND_SECONDS = 60.0
# What a module has that reads a clock, waits for something with a bound, or starts a timer: most have none.
SUSPICIOUS = re.compile(
    r"\bimport\b.*\btime\b|\bfrom time\b|\btime\.|\b(?:datetime|date) as\b|\.(?:now|utcnow|today)\b"
    r"|\basyncio\b|\btimeout\b|\b(?:Timer|alarm|setitimer)\b|\.(?:wait_for|communicate)\("
    r"|\.(?:wait|join|settimeout|result)\(\s*[\d.]"
)


def modules() -> list[Path]:
    return sorted(
        path for path in TESTS.rglob("*.py") if path != WAITING and path.relative_to(TESTS).parts[0] != "e2e"
    )


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return nodes_of(path.read_text())


def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All of some source, or nothing where no word of it names a clock, a wait or a bound.

    To parse the source and to walk through its tree takes long.
    """
    if not SUSPICIOUS.search(text):
        return ()
    return tuple(ast.walk(ast.parse(text)))


def is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def number(node: ast.expr | None) -> float | None:
    """The number that a bound is written as; None for one that has a name, as those of tests/waiting.py."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return None if isinstance(node.value, bool) else float(node.value)
    return None


def clocks_read(every: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Lines that read the clock of the machine or sleep; sleep(0) only lets others go on."""
    of_the_machine = imports(every, "time")
    giving_way = {id(node.func) for node in every if isinstance(node, ast.Call) and number_of(node) == 0.0}
    for node in every:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func
            of_now = is_name(called.value, "time") and len(node.args) < OF_A_MOMENT.get(called.attr, 0)
            sleeps = is_name(called.value, "asyncio") and called.attr == "sleep" and number_of(node) != 0.0
            if of_now or sleeps:
                yield node.lineno, ast.unparse(called)
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield node.lineno, f"from time import {', '.join(name.name for name in node.names)}"
        if isinstance(node, ast.Import | ast.ImportFrom):  # under another name it would not be seen below
            renamed = {name.name for name in node.names if name.asname is not None}
            watched = {"time"} if isinstance(node, ast.Import) else {"datetime", "date"}
            yield from ((node.lineno, f"{name} under another name") for name in renamed & watched)
        if not isinstance(node, ast.Attribute) or id(node) in giving_way:
            continue
        if node.attr not in CLOCKS | NOW:
            continue
        owner = ast.unparse(node.value)
        if owner == "time" and node.attr in CLOCKS and of_the_machine:
            yield node.lineno, f"time.{node.attr}"
        if node.attr in NOW and owner.rpartition(".")[2] in {"datetime", "date", "Timestamp"}:
            yield node.lineno, f"{owner}.{node.attr}"


def imports(every: Sequence[ast.AST], module: str) -> bool:
    """Whether a name is that of a module; elsewhere it may be that of a fixture."""
    return any(
        name.name == module and name.asname is None
        for node in every
        if isinstance(node, ast.Import)
        for name in node.names
    )


def number_of(call: ast.Call) -> float | None:
    """The number that is the first argument of a call."""
    return number(call.args[0]) if call.args else None


def short_bounds(every: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Lines with a bound that what is slow exceeds without hanging, and timers, which race with the test."""
    for node in every:
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name.rpartition(".")[2] in TIMERS:
            yield node.lineno, ast.unparse(node)
        bounds: list[float | None] = []
        if name in BOUNDED_BY_NAME:
            bounds += [number(option.value) for option in node.keywords if option.arg == "timeout"]
        if name in BOUNDED and isinstance(node.func, ast.Attribute):
            bounds += [number(argument) for argument in node.args[-1:]]
        if any(bound is not None and 0 < bound < LEAST_BOUND_SECONDS for bound in bounds):
            yield node.lineno, ast.unparse(node)


def test_only_one_module_reads_the_clock_of_the_machine() -> None:
    found = {
        str(path.relative_to(TESTS)): lines for path in modules() if (lines := list(clocks_read(nodes(path))))
    }

    assert {name: lines for name, lines in found.items() if name not in PROGRAMS} == {}
    assert set(PROGRAMS) <= set(found), "a program that reads no clock needs no exception"


def test_nothing_is_awaited_for_less_than_a_hang_takes() -> None:
    found = {
        str(path.relative_to(TESTS)): lines
        for path in modules()
        if (lines := list(short_bounds(nodes(path))))
    }

    assert found == {}


@rows(
    "line",
    [
        "import time; time.sleep(1)",
        "import time; began = time.monotonic()",
        "import time; run(clock=time.time)",
        "from time import sleep",
        "import time as clock",
        "from datetime import datetime as moment",
        "signal.setitimer(signal.ITIMER_REAL, 1)",
        "waiting.get(timeout=5)",
        "import datetime; datetime.datetime.now()",
        "import time; time.strftime('%H:%M')",
        "import time; hour = time.gmtime().tm_hour",
        "import asyncio; await asyncio.sleep(0.1)",
        "import pandas as pd; pd.Timestamp.now('UTC')",
        "thread.join(5)",
        "process.wait(timeout=10)",
        "changed.wait_for(condition, 2.0)",
        "subprocess.run(command, timeout=30)",
        "threading.Timer(0.2, stop.set)",
    ],
)
def test_a_test_that_depends_on_time_is_found(line: str) -> None:
    every = nodes_of(line)
    assert [*clocks_read(every), *short_bounds(every)]


@rows(
    "line",
    [
        "import time; time.sleep(0)",
        "clock.time(); time.advance(5)",
        "import time; time.strftime('%H:%M', time.gmtime(0.0))",
        "event.wait(HANG_SECONDS)",
        "subprocess.run(command, timeout=120)",
        "','.join(words); options.get('name')",
    ],
)
def test_a_test_that_depends_on_none_is_not(line: str) -> None:
    every = nodes_of(line)
    assert not [*clocks_read(every), *short_bounds(every)]
