"""Every command of the table ends as it must, says what it must, and fits its terminal."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer_demo import Sandbox
from rebalancer_demo.scenario import demo_cluster
from tests.conftest import SUMMARY
from tests.ux.terminal import ROOT
from tests.ux.trials import EXAMPLE, TRIALS, Trial, policy_files

_MEASURED: dict[str, list[tuple[int, int]]] = defaultdict(list)  # by group: lines and widest column


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    with demo_cluster() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cluster: Sandbox) -> Path:
    """A folder as the commands expect it, with wrong files beside the right ones."""
    path = tmp_path_factory.mktemp("user")
    for name in ("examples", "policies"):
        (path / name).symlink_to(ROOT / name)
    (path / "empty").mkdir()
    (path / "empty.html").write_text("<html></html>")
    for name, text in policy_files().items():
        (path / name).write_text(text)
    cluster.write_kubeconfig(path / "kubeconfig")
    for name, form in (("report.html", "html"), ("plan.json", "json")):
        words = ["plan", *EXAMPLE.replace("examples", str(ROOT / "examples")).split(), "-o", form]
        (path / name).write_text(CliRunner().invoke(main, words).stdout)
    return path


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: f"{trial.group}: {trial.command}"[:100])
def test_a_command_does_what_a_user_expects(
    trial: Trial, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    result = CliRunner().invoke(main, trial.words)

    lines = result.stdout.splitlines()
    widest = max(map(len, lines), default=0)
    _MEASURED[trial.group].append((len(lines), widest))
    assert result.exit_code == trial.code, result.output
    assert (len(lines) <= trial.lines, widest <= trial.columns) == (True, True), (len(lines), widest)
    text = result.stderr if trial.code else result.stdout
    assert [words for words in trial.says if words not in text] == [], text[:2000]
    assert [words for words in ("Traceback", *trial.never) if words in result.output] == []
    _check_stderr(trial, result)


def _check_stderr(trial: Trial, result: Result) -> None:
    """An error is one line; what succeeds says nothing beside its result unless it was asked to."""
    if trial.code:
        assert len(result.stderr.splitlines()) == 1, result.stderr
        assert result.stderr.startswith("error: ")
    elif trial.group != "live" and "-v" not in trial.words:
        assert result.stderr == ""


def test_the_table_is_as_large_as_the_trial_by_hand_was(
    record_property: Callable[[str, object], None],
) -> None:
    assert len(TRIALS) >= 256

    record_property(SUMMARY, f"ux: {len(TRIALS)} commands")
    for group, measured in _MEASURED.items():
        figures = [count for count, _ in measured if count]
        median = statistics.median(figures) if figures else 0
        worse = sum(1 for trial in TRIALS if trial.group == group and trial.before)
        figures_of_group = f"{len(measured)} commands, median {median:g} lines"
        record_property(SUMMARY, f"ux: {group}: {figures_of_group}; {worse} were worse before")
