"""Who is asked before a run evicts anything, and where its journal goes."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rebalancer.deadlines import StopRequest
from rebalancer.errors import StopRequestedError
from tests.unit.cli.conftest import ACTS, POLICY, FakePipeline, Program
from tests.waiting import no_hang

run = importlib.import_module("rebalancer.cli.commands.run")  # whose command has the same name


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user at a terminal; returns the state folder."""
    monkeypatch.setattr("rebalancer.cli.commands.run._is_watched", lambda: True)
    monkeypatch.setattr("rebalancer.cli.commands.run._can_be_asked", lambda: True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "rebalancer"


def test_on_a_terminal_nothing_is_evicted_without_a_yes(
    rebalancer_program: Program, pipeline: FakePipeline, terminal: Path
) -> None:
    result = rebalancer_program("run", POLICY)

    assert "Evict 2 pods of namespace shop on production? [y/N]" in result.stderr
    assert "Outcome" not in result.stdout
    assert result.exit_code in (2, 130)


def test_the_first_line_of_a_run_that_asks_nobody_says_the_same(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    sentence = "2 pods of namespace shop on production"
    assert rebalancer_program(*ACTS).stderr.splitlines()[0] == f"info: evicts {sentence}"
    dry_run = rebalancer_program("run", POLICY, "--dry-run")
    assert dry_run.stderr.splitlines()[0] == f"info: would evict {sentence}"


@pytest.mark.parametrize(
    ("answer", "evicts"), [("y\n", True), (" Yes \n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_on_a_terminal_only_a_yes_evicts(
    rebalancer_program: Program, pipeline: FakePipeline, terminal: Path, answer: str, evicts: bool
) -> None:
    result = rebalancer_program("run", POLICY, typed=answer)

    assert ("Outcome" in result.stdout) == evicts
    assert ("nothing was evicted" in result.stderr) != evicts


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user at a terminal who types nothing."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as nobody, os.fdopen(writing, "w"):
        monkeypatch.setattr(sys, "stdin", nobody)
        yield


@pytest.mark.usefixtures("silent")
def test_a_question_that_nobody_answers_frees_the_lease_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_CONFIRMATION_SECONDS", 0.5)
    with (
        no_hang("a question is over"),
        pytest.raises(StopRequestedError, match=r"not confirmed within 0 s: nothing was evicted"),
    ):
        run._confirmed("Evict 2 pods?", StopRequest())


@pytest.mark.usefixtures("silent")
def test_a_question_is_over_when_a_signal_asks_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopRequest()
    nobody = sys.stdin

    def asked_meanwhile() -> str:
        stop.set()
        return nobody.readline()

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=asked_meanwhile))
    with no_hang("a question is over"), pytest.raises(StopRequestedError, match="asked to stop"):
        run._confirmed("Evict 2 pods?", stop)


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal as Unix has it")
def test_what_was_typed_before_the_question_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    master, terminal = os.openpty()
    asked: list[str] = []

    def answered_now() -> str:
        asked.append(capsys.readouterr().err)
        os.write(master, b"n\n")
        return typed.readline()

    with os.fdopen(terminal) as typed:
        os.write(master, b"y\n")
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=answered_now, fileno=typed.fileno))
        confirmed = run._confirmed("Evict 2 pods?", StopRequest())
    os.close(master)

    assert asked == ["Evict 2 pods? [y/N]: "]
    assert not confirmed


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal as Unix has it")
def test_a_terminal_that_is_closed_during_the_question_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed() -> str:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=closed))
    with pytest.raises(StopRequestedError, match="the terminal was closed: nothing was evicted"):
        run._confirmed("Evict 2 pods?", StopRequest())


@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_scripts_and_dry_runs_are_not_asked(
    rebalancer_program: Program, pipeline: FakePipeline, terminal: Path, option: str
) -> None:
    result = rebalancer_program("run", POLICY, option)

    assert "[y/N]" not in result.stderr
    assert "Outcome" in result.stdout


def test_without_a_terminal_a_run_needs_a_yes_and_reads_nothing_before_it(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program("run", POLICY)

    assert result.exit_code == 2
    assert "nobody can be asked: there is no terminal (add --yes" in result.stderr
    assert pipeline.run_asked == []
    assert rebalancer_program(*ACTS).exit_code == 0


def in_a_pod(monkeypatch: pytest.MonkeyPatch, account: Path) -> None:
    for name in ("token", "ca.crt"):
        (account / name).write_text("of the pod")
    monkeypatch.setattr("rebalancer.cluster.live.login._SERVICE_ACCOUNT", account)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


@pytest.mark.parametrize("missing", ["HOST", "PORT", "token", "ca.crt"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_pod_whose_login_would_be_by_a_kubeconfig_needs_a_yes(
    rebalancer_program: Program,
    pipeline: FakePipeline,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    missing: str,
    is_empty: bool,
) -> None:
    in_a_pod(monkeypatch, tmp_path)
    if not missing.isupper():
        (tmp_path / missing).write_text("")
        if not is_empty:
            (tmp_path / missing).unlink()
    elif is_empty:
        monkeypatch.setenv(f"KUBERNETES_SERVICE_{missing}", "")
    else:
        monkeypatch.delenv(f"KUBERNETES_SERVICE_{missing}")
    result = rebalancer_program("run", POLICY)

    assert (result.exit_code, pipeline.run_asked) == (2, [])
    assert "nobody can be asked" in result.stderr


@pytest.mark.parametrize(
    ("option", "may_act"),
    [(None, True), ("--kubeconfig=k", False), ("--context=c", False), ("--cluster=c", False)],
)
def test_a_pod_may_act_by_its_own_account_and_needs_a_yes_for_any_other(
    rebalancer_program: Program,
    pipeline: FakePipeline,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str | None,
    may_act: bool,
) -> None:
    in_a_pod(monkeypatch, tmp_path)
    result = rebalancer_program("run", POLICY, *filter(None, [option]))

    assert (result.exit_code == 0) == may_act, result.stderr
    assert ("info: evicts 2 pods of namespace shop on production" in result.stderr) == may_act


@pytest.mark.parametrize("command", [("run", "--yes"), ("run", "--dry-run"), ("serve", "--act")])
def test_nothing_acts_without_a_policy_and_the_refusal_names_what_writes_one(
    rebalancer_program: Program, pipeline: FakePipeline, command: tuple[str, ...]
) -> None:
    result = rebalancer_program(*command)

    assert result.exit_code == 2
    assert "none is given (rebalancer policy init writes one; then --policy FILE)" in result.stderr


def test_on_a_terminal_the_journal_is_a_file_of_the_user(
    rebalancer_program: Program, pipeline: FakePipeline, terminal: Path
) -> None:
    result = rebalancer_program(*ACTS)

    assert pipeline.run_asked[0].journal == terminal / "journal.jsonl"
    assert f"journal: {terminal / 'journal.jsonl'}" in result.stderr
    assert terminal.stat().st_mode & 0o777 == 0o700


def test_a_user_without_a_home_is_asked_for_a_journal(
    rebalancer_program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_arguments: object) -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", nobody)
    result = rebalancer_program("journal", "show")

    assert result.exit_code == 2
    assert result.stderr == "error: this user has no home folder, where journals are kept (name a file)\n"
