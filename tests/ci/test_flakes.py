"""A failure that does not repeat is reported, and of a safety test it fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.flakes import Ended, decide, main, read_report
from tests.rows import rows

PASSED, FAILED = Ended(False), Ended(True)
GUARD = Ended(True, safety=True, seeds=("6",))
ROOT = Path(__file__).parents[2]
END_TO_END = ROOT / "tests" / "e2e"
NO_SAFETY = {
    "test_landings.py",
    "test_manifests.py",
    "test_rights.py",
    "test_article_stack.py",
    "test_network_traffic.py",
    "test_backfill.py",
    "test_bench_loading.py",
    "test_chart.py",
    "test_extender.py",
    "test_demo_policy.py",
    "test_protected_clusters.py",
    "test_replanning.py",
}


def test_a_suite_without_failures_passes_without_a_word() -> None:
    assert decide({"a": PASSED}, None).passed
    assert decide({"a": PASSED}, None).lines == ()


def test_a_test_that_fails_and_then_passes_is_named_as_flaky_with_its_seed() -> None:
    decision = decide({"a": PASSED, "b": Ended(True, seeds=("3", "17"))}, {"b": PASSED})

    assert decision.passed
    assert decision.lines == ("FLAKY b seed 3, 17",)


def test_a_safety_test_that_fails_and_then_passes_fails_the_run() -> None:
    decision = decide({"budgets": GUARD, "b": FAILED}, {"budgets": PASSED, "b": PASSED})

    assert not decision.passed
    assert decision.lines == (
        "FLAKY budgets seed 6: a safety test, so this fails the run",
        "FLAKY b",
    )


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        ({"a": FAILED}, {"a": FAILED}, "FAILED a: twice"),
        ({"a": FAILED}, None, "FAILED a: it was not run again"),
        ({"a": FAILED, "b": FAILED}, {"b": PASSED}, "FAILED a: it was not run again"),
        ({"a": FAILED}, {"a": PASSED, "b": FAILED}, "FAILED b: in the second run only"),
        ({}, None, "FAILED the suite: its first run left no report of any test"),
        ({}, {"a": PASSED}, "FAILED the suite: its first run left no report of any test"),
    ],
)
def test_what_fails_twice_or_was_not_run_again_fails_the_run(
    first: dict[str, Ended], second: dict[str, Ended] | None, line: str
) -> None:
    decision = decide(first, second)

    assert not decision.passed
    assert line in decision.lines


SUITE = """
import pytest

@pytest.mark.safety
def test_guard(record_property):
    record_property("seed", 6)
    assert FAILS

def test_other():
    assert FAILS

@pytest.fixture
def broken():
    yield
    assert FAILS

def test_teardown(broken):
    pass
"""


def run_suite(folder: Path, report: Path, *, fails: bool) -> None:
    (folder / "test_suite.py").write_text(f"FAILS = {not fails}\n{SUITE}")
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    command += [f"--rootdir={folder}", f"--junitxml={report}", str(folder)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, timeout=120)


def test_the_reports_that_pytest_writes_are_read_with_markers_and_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, first, second = tmp_path / "suite", tmp_path / "first.xml", tmp_path / "second.xml"
    suite.mkdir()
    run_suite(suite, first, fails=True)
    run_suite(suite, second, fails=False)
    found = {test.rpartition("::")[2]: ended for test, ended in read_report(first).items()}

    assert found == {"test_guard": GUARD, "test_other": FAILED, "test_teardown": FAILED}
    assert main([str(first), str(second)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["FLAKY"] * 3
    assert "test_guard seed 6: a safety test" in lines[0]
    assert main([str(second)]) == 0
    assert main([str(tmp_path / "missing.xml")]) == 1


CHANCE = (
    "random.Random(",
    "from bench.loaded_clusters import",
    *(f"tests.e2e.{module} import" for module in ("moments", "landing_runs", "agreement_scene")),
)


@rows("path", sorted(END_TO_END.glob("test_*.py")))
def test_every_end_to_end_module_with_chance_in_it_records_its_seeds(path: Path) -> None:
    text = path.read_text()

    assert any(word in text for word in CHANCE) == ('record_property("seed"' in text)


@rows("path", sorted(END_TO_END.glob("test_*.py")))
def test_every_end_to_end_module_says_whether_it_guards_safety(path: Path) -> None:
    marked = "pytestmark = pytest.mark.safety" in path.read_text()

    assert marked != (path.name in NO_SAFETY)
