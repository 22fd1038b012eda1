"""The lab's commands are completed and helped with as those of the program are."""

from __future__ import annotations

import pytest

from rebalancer.cli.program import answer
from tests.rows import rows
from tests.unit.cli.conftest import Program
from tests.unit.cli.test_completion import RECORDED, completed


@rows(
    "words, some",
    [
        (["fit", "pod.yaml", "--from", RECORDED, "-n", ""], ["default", "shop"]),
        (["what-if", "--from", RECORDED, "--drain", "node-1"], ["node-1"]),
        (["what-if", "--from", RECORDED, "--add-node", ""], ["node-1="]),
        (["what-if", "--from", RECORDED, "--scale", "deploy"], ["deployment/shop/web="]),
    ],
)
def test_names_of_a_recording_are_completed(words: list[str], some: list[str]) -> None:
    names = completed(*words)

    assert set(some) <= set(names)
    assert all(name.startswith(words[-1]) for name in names)


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["tim"], "timeline"), (["timeline", "ba"], "backfill"), (["policy", "te"], "test")],
)
def test_commands_are_completed(words: list[str], expected: str) -> None:
    assert answer(words).splitlines()[0].startswith(f"{expected}\t")


@pytest.mark.parametrize(
    "command", ["simulate", "fit", "what-if", "shadow", "fleet plan", "timeline replay", "tune"]
)
def test_help_shows_examples(rebalancer_program: Program, command: str) -> None:
    shown = rebalancer_program(*command.split(), "--help").stdout

    assert [line for line in shown.splitlines() if line.startswith(f"  rebalancer {command} ")]


def test_several_recordings_that_a_shell_made_of_a_pattern_are_answered_with_the_pattern_in_quotes(
    rebalancer_program: Program,
) -> None:
    result = rebalancer_program("fleet", "plan", "--from", "all/one", "all/other", "all/third")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "for all of several quote the pattern: --from 'all/*'" in result.stderr


def test_commands_stand_under_the_name_of_the_distribution_below_those_of_the_program(
    rebalancer_program: Program,
) -> None:
    shown = rebalancer_program("--help").stdout

    headings = ["\nCommands:\n", "\nMore commands:\n", "\nCommands of rebalancer-lab:\n", "\nExit codes:\n"]
    places = [shown.index(heading) for heading in headings]
    assert places == sorted(places)
    listed = shown[places[2] : places[3]]
    for name in ("what-if", "fit", "simulate", "shadow", "timeline", "tune", "fleet"):
        assert f"\n  {name} " in listed
