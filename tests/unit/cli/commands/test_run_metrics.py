"""Metrics that a run writes or pushes: however it ends, and never in place of something else."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from rebalancer.errors import LeaseHeldError, StopRequestedError
from tests import loopback
from tests.integration.reading.test_slow_servers import slow_server
from tests.unit.cli.conftest import ACTS, FakePipeline, Program
from tests.waiting import ended, no_hang


def test_metrics_are_written_when_the_run_ends(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    path = tmp_path / "rebalancer.prom"
    rebalancer_program(*ACTS, "--metrics-textfile", str(path))

    assert 'rebalancer_runs_total{exit_code="0"} 1.0' in path.read_text()
    assert "rebalancer_run_exit_code 0.0" in path.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["rebalancer.prom"]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (LeaseHeldError("held by another"), 7),
        (StopRequestedError("asked to stop"), 130),
        (ValueError("x"), 1),
    ],
)
def test_metrics_are_written_however_the_run_ends(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path, failure: BaseException, code: int
) -> None:
    pipeline.failure = failure
    path = tmp_path / "rebalancer.prom"
    result = rebalancer_program(*ACTS, "--metrics-textfile", str(path))

    assert result.exit_code == code
    assert f"rebalancer_run_exit_code {float(code)}" in path.read_text()
    assert "rebalancer_hot_nodes 2.0" in path.read_text()  # it had a plan by then, and no outcomes
    assert "rebalancer_evictions_total{" not in path.read_text()


def test_metrics_that_cannot_be_written_are_refused_before_the_run(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    result = rebalancer_program(*ACTS, "--metrics-textfile", str(tmp_path / "no" / "folder" / "m.prom"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "its folder does not exist (make it, or give another --metrics-textfile)" in result.stderr


def test_metrics_are_pushed_when_the_run_ends(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    pushed: list[tuple[str, str, str]] = []

    def pushgateway(request: loopback.Request) -> loopback.Answer:
        pushed.append((request.method, request.path, request.body.decode()))
        return loopback.Answer(status=202)

    with loopback.answering(pushgateway) as url:
        result = rebalancer_program(*ACTS, "--metrics-push", url)

    assert result.exit_code == 0
    [(method, path, metrics)] = pushed
    assert (method, path) == ("PUT", "/metrics/job/rebalancer")
    assert 'rebalancer_runs_total{exit_code="0"} 1.0' in metrics


def test_metrics_that_cannot_be_pushed_do_not_change_the_run(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program(*ACTS, "--metrics-push", "http://127.0.0.1:9")

    assert result.exit_code == 0
    assert "warning: cannot push metrics to http://127.0.0.1:9" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_gateway_that_drips_its_answer_holds_no_run_up(
    rebalancer_program: Program, pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalancer.cli.commands.run._PUSH_SECONDS", 0.5)
    with slow_server(b"", b"HTTP/1.1 202 Accepted\r\nX-Long: " + b"a" * 60_000) as url, no_hang("it ends"):
        result = rebalancer_program(*ACTS, "--metrics-push", url)

    assert result.exit_code == 0
    assert f"warning: cannot push metrics to {url}: no whole answer within" in result.stderr


@pytest.mark.parametrize(
    "address", ["no-such-scheme://x", "foo", "http://[", "http://127.0.0.1:x", "http://"]
)
def test_an_address_that_is_none_is_refused_before_the_run(
    rebalancer_program: Program, pipeline: FakePipeline, address: str
) -> None:
    result = rebalancer_program(*ACTS, "--metrics-push", address)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--metrics-push is not the address of a Pushgateway" in result.stderr


def test_metrics_go_into_what_is_no_file_and_never_in_its_place(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    rebalancer_program(*ACTS, "--metrics-textfile", str(tmp_path / "pipe"))
    ended(reader, awaited="the metrics are written into the pipe")

    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert "rebalancer_" in found[0]


def test_metrics_follow_a_link(rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "metrics.prom")
    rebalancer_program(*ACTS, "--metrics-textfile", str(tmp_path / "link"))

    assert (tmp_path / "link").is_symlink()
    assert "rebalancer_" in (tmp_path / "metrics.prom").read_text()


@pytest.mark.parametrize("address", ["http://bob:x/hidden@127.0.0.1:1", "http://bob:hidden/x@127.0.0.1:1"])
def test_a_login_in_a_bad_address_of_a_pushgateway_is_not_shown(
    rebalancer_program: Program, pipeline: FakePipeline, address: str
) -> None:
    result = rebalancer_program(*ACTS, "--metrics-push", address)

    assert "--metrics-push is not the address of a Pushgateway" in result.stderr
    assert "hidden" not in result.stderr


@pytest.mark.parametrize("address", ["http://bob:hidden@127.0.0.1:1", "http://127.0.0.1:1/?token=hidden"])
def test_what_could_not_be_sent_to_a_pushgateway_is_refused_before_the_run_and_not_shown(
    rebalancer_program: Program, pipeline: FakePipeline, address: str
) -> None:
    result = rebalancer_program(*ACTS, "--metrics-push", address)

    assert (result.exit_code, pipeline.run_asked) == (2, [])
    assert "--metrics-push takes an address without a login, ? and #" in result.stderr
    assert "hidden" not in result.stderr
