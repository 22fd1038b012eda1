"""Help is found where people look for it, and a policy may come through a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import FakePipeline, Program


@pytest.mark.parametrize("words", [("plan",), ("policy", "show"), ("policy",)])
def test_help_of_a_command_is_the_commands_help(rebalancer_program: Program, words: tuple[str, ...]) -> None:
    assert rebalancer_program("help", *words).stdout == rebalancer_program(*words, "--help").stdout


def test_help_alone_lists_the_commands_and_an_unknown_one_is_an_error(rebalancer_program: Program) -> None:
    assert rebalancer_program("help").stdout == rebalancer_program("--help").stdout
    assert "No such command 'nope'" in rebalancer_program("help", "nope").stderr


def test_a_dash_is_the_policy_on_standard_input(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    rebalancer_program("plan", "--policy", "-")
    assert pipeline.asked[0].policy_path == Path("-")


@pytest.mark.parametrize("words", [[], ["policy"], ["snapshot"], ["journal"]], ids=" ".join)
def test_what_a_command_does_is_never_cut_in_a_list(rebalancer_program: Program, words: list[str]) -> None:
    shown = rebalancer_program(*words, "--help").stdout

    listed = shown.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed
    assert max(map(len, shown.splitlines())) <= 80
