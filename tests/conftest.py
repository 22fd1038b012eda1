"""What holds for all tests."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import sys
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

# A property recorded under this name is a line of the summary at the end of all tests, whoever ran the test.
SUMMARY = "summary"
# What a test with chance in it draws from; printed with it, and where it turns out to be flaky.
SEED = "seed"
SAFETY = "safety"

# Against a real control plane, which takes programs that not every machine has.
END_TO_END = bool(os.environ.get("REBALANCER_E2E"))
collect_ignore = [] if END_TO_END else ["e2e"]

# With the real scheduler of this minor, which takes some minutes to build: make conformance.
ORACLE_MINOR = os.environ.get("REBALANCER_ORACLE", "")
if not ORACLE_MINOR:
    collect_ignore.append("conformance/oracle")
elif ORACLE_MINOR in ("1.20", "1.22", "1.26"):  # whose oracles decide, and search for nothing
    collect_ignore += [
        f"conformance/oracle/test_{name}.py" for name in ("extenders", "recorded_decisions", "searches")
    ]

# Installations from the package registry, which not every machine reaches: make installs.
if not os.environ.get("REBALANCER_INSTALLS"):
    collect_ignore.append("install")

# The code blocks of README and docs, and every command as a user types it: make docs.
if not os.environ.get("REBALANCER_DOCS"):
    collect_ignore += ["docs", "ux"]

# Where everything is installed that any test needs, as in CI, a test that is skipped has lost what it needs.
NO_SKIPS = bool(os.environ.get("REBALANCER_NO_SKIPS"))

# Many tests wait for programs that they started, so two at a time keep a core busy. A worker takes 300 MB.
WORKERS_A_CORE = 2
MAX_WORKERS = 8

# Programs that tests start are compiled once, not at every start: that is half of what a short command takes.
# So are test modules, whose assertions pytest rewrites before: that is 13 s for all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# As the program does: what tests leave for the collector of unused cycles is little beside what lives on.
gc.set_threshold(250_000)
# Under nohup a hangup is ignored, and in the background of a script an interrupt, also by programs that tests
# start; tests of signals send both.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# Properties are tried with all their examples by `make properties`, which CI runs, and with a part of them by
# `make test`, which whoever changes something waits for. So are tests with many cases that are alike.
ALL_EXAMPLES = bool(os.environ.get("REBALANCER_ALL_EXAMPLES"))
_SHARE_OF_EXAMPLES = 16  # one in so many
_Case = TypeVar("_Case")
_STATES = itertools.count()  # folders of tests


def examples(most: int) -> int:
    """How many examples a property is tried with, of so many."""
    return most if ALL_EXAMPLES else -(-most // _SHARE_OF_EXAMPLES)


def some_of(cases: Sequence[_Case]) -> Sequence[_Case]:
    """The cases of a test marked ``many_cases`` that are tried: of so many one in sixteen, spread evenly."""
    return cases if ALL_EXAMPLES else cases[::_SHARE_OF_EXAMPLES]


# A timed assertion is a defect: how long an example takes, or making one, depends on the rest of the machine.
settings.register_profile(
    "rebalancer",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rebalancer")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many tests `make test` runs at a time."""
    return min(MAX_WORKERS, WORKERS_A_CORE * (os.cpu_count() or 1))


def pytest_collection_finish() -> None:
    """Let the collector of unused cycles not search modules and tests again, which live to the end.

    That takes half a second where all tests are collected, and a service does it after each plan.
    """
    gc.freeze()


@pytest.fixture(autouse=True)
def no_state_of_earlier_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A run without options keeps its state in the user's folder: each test has one of its own.

    It is made by what first writes there: few tests do, and to make and to remove thousands takes long.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{next(_STATES)}"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option for whoever looks for tests that depend on others."""
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run modules, and their tests, in random order"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Write into the report which tests guard safety, and bring tests into the order that was asked for."""
    for item in items:
        if item.get_closest_marker(SAFETY) is not None:
            item.user_properties.append((SAFETY, "yes"))
    seed = config.getoption("shuffle")
    if seed is not None:
        items[:] = shuffled(items, random.Random(seed))


def shuffled(items: Iterable[pytest.Item], chance: random.Random) -> list[pytest.Item]:
    """Modules in any order, and in each its tests in any order: what a module shares is still made once."""
    by_module: dict[Path, list[pytest.Item]] = {}
    for item in items:
        by_module.setdefault(item.path, []).append(item)
    modules = list(by_module.values())
    chance.shuffle(modules)
    for tests in modules:
        chance.shuffle(tests)
    return [item for tests in modules for item in tests]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a skipped test fail where none may be."""
    report = yield
    if report.passed:
        report.keywords = {}  # which nobody reads, and a worker sends three times a test
    if NO_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"no test may be skipped here: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines that tests recorded for the summary."""
    reports = terminalreporter.stats.get("passed", [])
    lines = [value for report in reports for name, value in report.user_properties if name == SUMMARY]
    for line in sorted(map(str, lines)):
        terminalreporter.write_line(line)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            seeds = [str(value) for name, value in report.user_properties if name == SEED]
            if seeds and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid} {outcome}, seed {', '.join(seeds)}")
    if not END_TO_END:
        terminalreporter.write_line(
            "tests/e2e needs a real control plane and was left out: make e2e builds and runs it"
        )
