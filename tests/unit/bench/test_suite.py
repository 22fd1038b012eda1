"""The measuring suite on clusters too small to time: that it runs, compares and leaves nothing out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from bench import suite
from bench.beside_descheduler import alternating, evictions_in
from bench.measuring import REBALANCER, Measurement, Size, best, exponent, of_command, of_stage
from bench.stages import STAGES, measure
from tests.rows import rows

SIZE = Size(4, 30)


def a_measurement(
    stage: str = "read", size: Size | None = SIZE, wall: float = 1.0, user: float = 1.0, peak: int = 1 << 20
) -> Measurement:
    return Measurement(stage, size, wall, user, 0.0, peak)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return suite.a_dump(SIZE, tmp_path_factory.mktemp("clusters"))


def test_a_stage_is_measured_in_a_process_of_its_own(dump: Path) -> None:
    found = of_stage("plan", SIZE, dump, suite.POLICY)

    assert (found.stage, found.size) == ("plan", SIZE)
    assert found.wall_seconds > 0
    assert found.peak_bytes > 10 << 20
    assert found.about


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_says_what_it_did(stage: str, dump: Path) -> None:
    assert measure(stage, dump, suite.POLICY)["about"]


def test_a_generated_cluster_is_made_once(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", _never)
    assert suite.a_dump(SIZE, dump.parent) == dump


def _never(*_: object, **__: object) -> None:
    raise AssertionError("generated again")


def test_a_command_that_fails_stops_the_suite_with_what_it_said() -> None:
    with pytest.raises(SystemExit, match="no such file"):
        of_command("dump→plan", None, (*REBALANCER, "plan", "--from", "/nowhere"))


@rows("text", ["0/5", "5/-1", "5", "a/b", "5/5,", ""])
def test_sizes_that_are_no_cluster_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 100/3000,1000/30000"):
        suite.sizes_of(text)


def test_the_memory_of_a_command_is_not_that_of_the_benchmark_that_starts_it() -> None:
    held = np.ones(1 << 26, np.uint8)
    assert of_command("nothing", None, [sys.executable, "-c", ""]).peak_bytes < held.nbytes


def test_the_least_of_each_figure_counts() -> None:
    found = best([a_measurement(wall=2.0, user=1.0, peak=5), a_measurement(wall=1.0, user=2.0, peak=9)])
    assert (found.wall_seconds, found.user_seconds, found.peak_bytes) == (1.0, 1.0, 5)


def test_ten_times_the_pods_in_a_hundred_times_the_time_is_an_exponent_of_two() -> None:
    small, large = a_measurement(size=Size(1, 10)), a_measurement(size=Size(5, 100), user=100.0)
    assert exponent(small, large) == pytest.approx(2.0)
    assert exponent(a_measurement(size=None), large) is None


def test_the_table_and_the_file_hold_every_stage_and_a_comparison_its_ratios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "folder" / "new.json"
    arguments = ["--sizes", "4/30,8/60", "--repeat", "1", "--out", str(out), "--clusters", str(tmp_path)]
    monkeypatch.setattr(suite, "of_command", lambda stage, size, _: a_measurement(stage, size))
    monkeypatch.setattr(suite, "of_stage", lambda stage, size, *_: a_measurement(stage, size, user=2.0))
    monkeypatch.setattr(suite, "a_dump", lambda size, _: tmp_path)

    def run(*more: str) -> str:
        return CliRunner().invoke(suite.main, [*arguments, *more]).stdout

    lines = run().splitlines()
    found = json.loads(out.read_text())
    assert all(len(line) <= 80 for line in lines[1:])
    assert [line.split()[0] for line in lines[2:4]] == ["--help", "validate"]
    stages = [item["stage"] for item in found["results"] if item["size"]]
    assert stages == [stage for stage in (*suite.STAGES, "dump→plan") for _ in range(2)]
    assert lines[5].split()[-1] == "0.00"  # the same time for twice the pods

    old = out.rename(tmp_path / "old.json")
    monkeypatch.setattr(suite, "of_stage", lambda stage, size, *_: a_measurement(stage, size, user=4.0))
    compared = [line for line in run("--compare", str(old)).splitlines() if line.startswith("read")]
    assert [line.split()[-3:] for line in compared] == [["1.00", "2.00", "1.00"]] * 2
    assert all(len(line) <= 80 for line in compared)


def test_sizes_that_are_none_are_refused() -> None:
    result = CliRunner().invoke(suite.main, ["--sizes", "100"])
    assert result.exit_code == 2
    assert "NODES/PODS" in result.stderr


@pytest.mark.parametrize("content", [b"not json", b"{}", b"[1]"])
def test_what_is_no_result_of_the_suite_is_refused_in_a_line(content: bytes, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_bytes(content)
    result = CliRunner().invoke(suite.main, ["--rows", "build", "--compare", str(old)])

    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {old}: not written by this suite: ")
    assert len(result.output.splitlines()) == 1


def test_programs_are_measured_in_turn_and_compared_by_their_medians() -> None:
    taken: list[str] = []

    def one(name: str, seconds: list[float]) -> Measurement:
        taken.append(name)
        return a_measurement(wall=seconds.pop(), user=2.0, peak=10_000_000)

    ours, theirs = [1.0, 9.0, 2.0], [4.0, 4.0, 5.0]
    rows = alternating(SIZE, lambda: one("ours", ours), lambda: one("theirs", theirs), 3)
    assert taken == ["ours", "theirs"] * 3
    assert rows == [
        "| 30 / 4 | rebalancer plan | 2.0 | 2.0 | 10 |",
        "| 30 / 4 | descheduler --dry-run | 2.0 | 4.0 | 10 |",
        "| | ratio | 1.00 | 0.50 | 1.00 |",
    ]


def test_real_runs_are_refused_where_nothing_else_says_beside_whom() -> None:
    done = CliRunner().invoke(suite.main, ["--runs"])
    assert done.exit_code == 2
    assert "--runs goes with --beside-descheduler" in done.output


def test_what_the_descheduler_evicts_is_the_total_that_its_log_ends_with() -> None:
    log = 'I1201 descheduler.go:252] "Number of evictions/requests" totalEvicted=40 evictionRequests=0\n'
    assert evictions_in(f"I1201 starting\n{log}I1201 stopped\n") == 40
    with pytest.raises(ValueError, match="totalEvicted"):
        evictions_in("I1201 starting\n")
