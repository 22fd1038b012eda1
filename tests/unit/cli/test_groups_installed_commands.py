"""Commands that other distributions bring by the entry point group ``rebalancer.commands``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rebalancer.cli.groups import COMMAND_GROUP

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = """
import click

@click.command(short_help="Say hello.")
def hello() -> None:
    click.echo("hello")

@click.command(short_help="Another plan.")
def plan() -> None:
    click.echo("not the program's plan")
"""


def install(folder: Path, distribution: str, entries: str) -> None:
    """Lay a distribution out as pip does, with these entry points."""
    described = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[{COMMAND_GROUP}]\n{entries}\n")


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    (tmp_path / "greeting.py").write_text(COMMAND)
    return tmp_path


@pytest.fixture
def rebalancer(site_packages: Path) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rebalancer", *arguments],
            env={**os.environ, "PYTHONPATH": str(site_packages)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_an_installed_command_runs_and_stands_in_help_under_its_distribution(
    site_packages: Path, rebalancer: Run
) -> None:
    install(site_packages, "friendly-commands", "hello = greeting:hello")

    help_text = rebalancer("--help").stdout

    assert "Commands of friendly-commands:\n  hello  Say hello.\n" in help_text
    assert rebalancer("hello").stdout == "hello\n"
    assert rebalancer("help", "hello").stdout.startswith("Usage: rebalancer hello")


def test_a_command_that_is_not_installed_is_named_nowhere(rebalancer: Run) -> None:
    help_text = rebalancer("--help").stdout
    result = rebalancer("hello")

    assert "hello" not in help_text
    assert result.returncode == 2
    assert "No such command 'hello'" in result.stderr


def test_no_distribution_takes_a_command_of_the_program(site_packages: Path, rebalancer: Run) -> None:
    install(site_packages, "friendly-commands", "plan = greeting:plan")

    assert rebalancer("plan", "--help").stdout.startswith("Usage: rebalancer plan [OPTIONS]\n\n  Show")
    assert "friendly-commands" not in rebalancer("--help").stdout


def test_a_broken_distribution_is_named_and_takes_no_other_command_away(
    site_packages: Path, rebalancer: Run
) -> None:
    install(site_packages, "broken-commands", "ruin = no_such_module:ruin")

    help_result = rebalancer("--help")
    result = rebalancer("ruin")

    assert help_result.returncode == 0
    assert "  plan " in help_result.stdout
    assert "repair or uninstall broken-commands" in " ".join(help_result.stdout.split())
    assert result.returncode == 2
    assert result.stderr == (
        "error: command ruin of broken-commands: cannot be loaded: ModuleNotFoundError: "
        "No module named 'no_such_module' (repair or uninstall broken-commands)\n"
    )
