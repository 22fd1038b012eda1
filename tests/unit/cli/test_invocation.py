"""The program under its two names, its completion in shells and in kubectl, and its version."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rebalancer import __version__
from rebalancer.cli.groups import installed_commands
from rebalancer.cli.program import COMMANDS, answer, main
from rebalancer.scheduling.versions.verified import COMPARED, verified_in_words
from tests.rows import rows
from tests.unit.cli.conftest import Program


def of_others() -> list[str]:
    """The commands that other distributions bring, but for those of a group."""
    return [name for name in installed_commands() if "." not in name]


def code_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """The exit code of the program where these words, with its own name, are those of the process."""
    monkeypatch.setattr(sys, "argv", list(words))
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


@pytest.mark.parametrize(
    ("started", "shown"),
    [
        ("/usr/local/bin/rebalancer", "rebalancer"),
        ("/root/.krew/bin/kubectl-rebalance", "kubectl rebalance"),
        ("kubectl-rebalance.exe", "kubectl rebalance"),
        ("/app/rebalancer/__main__.py", "rebalancer"),
    ],
)
def test_help_and_errors_show_the_command_that_was_typed(
    started: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(monkeypatch, started, "plan", "--help") == 0
    assert capsys.readouterr().out.startswith(f"Usage: {shown} plan [OPTIONS]")
    assert code_of(monkeypatch, started, "plan", "--nonsense") == 2
    assert f"(see: {shown} plan --help)" in capsys.readouterr().err


def test_kubectl_completes_commands_each_with_its_description() -> None:
    *lines, directive = answer([""]).splitlines()

    assert [line.split("\t")[0] for line in lines] == [*COMMANDS, *of_others()]
    assert all(len(line.split("\t")) == 2 for line in lines)
    assert directive == ":4"


@rows(
    "words, expected",
    [
        (["policy", "val"], ["validate", ":4"]),
        (["plan", "-o", "js"], ["json", "jsonpath=", ":4"]),
        (["plan", "--policy", ""], [":0"]),  # file names are the shell's to complete
        (["nonsense", "--pol"], [":4"]),
        ([], [*COMMANDS, *of_others(), ":4"]),
    ],
)
def test_kubectl_completes_subcommands_values_and_files(words: list[str], expected: list[str]) -> None:
    assert [line.split("\t")[0] for line in answer(words).splitlines()] == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_the_program(rebalancer_program: Program, shell: str) -> None:
    result = rebalancer_program("completion", shell)

    assert result.exit_code == 0
    assert f"_REBALANCER_COMPLETE={shell}_complete" in result.stdout


def test_the_script_for_bash_completes_a_command(rebalancer_program: Program, tmp_path: Path) -> None:
    program = tmp_path / "rebalancer"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rebalancer "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(rebalancer_program("completion", "bash").stdout)
    ask = f"""
        source {script}
        COMP_WORDS=({program} policy val) COMP_CWORD=2
        _rebalancer_completion {program}
        echo "${{COMPREPLY[@]}}"
    """

    answered = subprocess.run(
        ["bash", "--norc", "-c", ask], capture_output=True, text=True, timeout=60, check=True
    )

    assert answered.stdout.split() == ["validate"]


def test_an_unknown_shell_is_refused_with_those_that_are_known(rebalancer_program: Program) -> None:
    result = rebalancer_program("completion", "tcsh")

    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


def test_the_version_is_shown_with_the_schedulers_it_is_verified_against(rebalancer_program: Program) -> None:
    shown = rebalancer_program("--version").stdout
    value = json.loads(rebalancer_program("--version", "-o", "json").stdout)

    assert shown.splitlines()[0] == f"rebalancer {__version__}"
    assert value["version"] == __version__
    assert value["verifiedKubernetes"] == dict(COMPARED)
    verified_line = shown.splitlines()[1]
    assert verified_line.startswith(f"verified against kube-scheduler {verified_in_words()}")
    for release in COMPARED.values():
        assert ("-" in release) == (release in verified_line)


def paths_of(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, that of all first."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from paths_of(found, (*path, name))


def test_help_fits_a_terminal_of_80_columns() -> None:
    for words in paths_of(main):
        shown = CliRunner().invoke(main, [*words, "--help"], terminal_width=80).output
        assert shown.startswith("Usage:")
        assert [line for line in shown.splitlines() if len(line) > 80] == []


@rows(
    "option",
    [
        *("--cluster", "--user", "--as-group", "--request-timeout"),
        *("--width", "--no-headers", "--max-dump-size", "--assume-neutral"),
    ],
)
def test_options_that_few_need_are_taken_and_stand_in_no_help(option: str) -> None:
    taken = 0
    for words in paths_of(main):
        shown = CliRunner().invoke(main, [*words, "--help"], terminal_width=80).output
        assert f" {option} " not in shown
        command: click.Command = main
        for word in words:
            assert isinstance(command, click.Group)
            inner = command.get_command(click.Context(command), word)
            assert inner is not None
            command = inner
        taken += any(option in parameter.opts for parameter in command.params)
    assert taken
