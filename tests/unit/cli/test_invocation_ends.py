"""What a user sees when something goes wrong: one line, and an exit code that says what."""

from __future__ import annotations

import json

import pytest

from rebalancer.errors import (
    ExitCode,
    InputError,
    LeaseHeldError,
    RebalancerError,
    RightsError,
    SafetyError,
    UnreachableError,
)
from tests.unit.cli.conftest import FakePipeline, Program


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("bad"), 2),
        (SafetyError("bad"), 3),
        (RightsError("bad"), 5),
        (UnreachableError("bad"), 6),
        (LeaseHeldError("bad"), 7),
    ],
)
def test_every_error_of_ours_is_one_line_and_its_exit_code(
    rebalancer_program: Program, pipeline: FakePipeline, error: Exception, code: int
) -> None:
    pipeline.failure = error
    result = rebalancer_program("plan")

    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "error: bad\n")


def test_each_mistake_of_a_policy_has_a_line_of_its_own_but_in_json_where_they_are_one_object(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    pipeline.failure = InputError("a is wrong; b too", lines=("a is wrong", "b too"))

    assert rebalancer_program("plan").stderr == "error: a is wrong\nerror: b too\n"
    (line,) = rebalancer_program("--log-format", "json", "plan").stderr.splitlines()
    assert json.loads(line)["message"] == "a is wrong; b too"


def test_a_defect_of_ours_is_one_line_too(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    pipeline.failure = ZeroDivisionError("division\nby zero")
    result = rebalancer_program("plan")

    assert result.exit_code == ExitCode.INTERNAL
    assert result.stderr == (
        "internal error: ZeroDivisionError: division by zero (please report; details with -v)\n"
    )


def test_a_defect_shows_its_traceback_only_with_v(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    pipeline.failure = ZeroDivisionError("by zero")
    result = rebalancer_program("-v", "plan")

    assert "internal error: ZeroDivisionError: by zero (please report)\n  Traceback" in result.stderr
    assert "in make_plan" in result.stderr


def test_a_defect_we_noticed_leaves_with_the_code_of_a_defect(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    pipeline.failure = RebalancerError("two plans for one input")

    assert rebalancer_program("plan").exit_code == ExitCode.INTERNAL


def test_an_interrupt_leaves_with_130(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    pipeline.failure = KeyboardInterrupt()
    result = rebalancer_program("plan")

    assert result.exit_code == 130
    assert result.stderr.strip() == "error: interrupted"


@pytest.mark.parametrize(
    "arguments",
    [
        ("plna",),
        ("plan", "--no-such-option"),
        ("plan", "-o", "xml"),
        ("plan", "--now", "yesterday"),
        ("run", "--max-duration", "10"),
        ("run", "--lease", "too/many/parts"),
        ("snapshot", "save"),
    ],
)
def test_wrong_usage_is_one_line_that_says_where_help_is_and_the_code_of_bad_input(
    rebalancer_program: Program, arguments: tuple[str, ...]
) -> None:
    result = rebalancer_program(*arguments)

    assert result.exit_code == ExitCode.BAD_INPUT
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith("--help)")


def test_a_misspelt_command_is_answered_with_the_one_it_resembles(rebalancer_program: Program) -> None:
    assert "plan" in rebalancer_program("plna").stderr.splitlines()[-1]


def test_json_logs_carry_errors_as_one_object_a_line(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    pipeline.failure = UnreachableError("no answer\x1b[2J", where="https://10.0.0.1")
    result = rebalancer_program("--log-format", "json", "plan")
    line = json.loads(result.stderr)

    assert result.exit_code == 6
    assert line["message"] == "https://10.0.0.1: no answer\x1b[2J"
    assert (line["level"], line["exitCode"]) == ("error", 6)
    assert "\x1b" not in result.stderr


def test_json_logs_keep_the_traceback_of_a_defect_on_the_line(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    pipeline.failure = ZeroDivisionError("by zero")
    result = rebalancer_program("-v", "--log-format", "json", "plan")
    lines = [json.loads(line) for line in result.stderr.splitlines()]

    assert "ZeroDivisionError" in lines[-1]["traceback"]


def test_control_characters_of_an_error_are_not_obeyed(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    pipeline.failure = InputError("pod \x1b[2J\u202e is odd")
    result = rebalancer_program("plan")

    assert result.stderr == "error: pod \\x1b[2J\\u202e is odd\n"


@pytest.mark.parametrize(
    "failure", [InputError("pod \x1b[2J\u202e\n is odd"), ValueError("\x9b2J\x1b]0;x\x07")]
)
def test_with_v_a_traceback_and_the_names_in_it_are_not_obeyed_either(
    rebalancer_program: Program, pipeline: FakePipeline, failure: Exception
) -> None:
    pipeline.failure = failure
    result = rebalancer_program("-v", "plan")

    assert "Traceback" in result.stderr
    assert result.stderr.replace("\n", "").isprintable()


def test_a_failure_that_cannot_be_put_into_words_is_still_one_line(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    class UnspeakableError(RebalancerError):
        def __str__(self) -> str:
            raise OSError(36, "File name too long")

    pipeline.failure = UnspeakableError("")
    result = rebalancer_program("plan")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1


def test_a_superfluous_argument_longer_than_any_path_is_wrong_usage(rebalancer_program: Program) -> None:
    result = rebalancer_program("plan", "n" * 5000)

    assert result.exit_code == 2
    assert result.stderr.startswith("error: Got unexpected extra argument")
