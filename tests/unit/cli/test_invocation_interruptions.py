"""A signal that comes at any place of the program's edge ends it with an exit code, and with no traceback."""

from __future__ import annotations

import signal
from collections.abc import Callable

import click
import pytest

from rebalancer.cli.invocation import Session, guarded, take_down_logs
from rebalancer.errors import ExitCode, InputError
from tests.interruptions import signalled_everywhere


def succeeds() -> None:
    click.echo("done")


def fails() -> None:
    raise InputError("no such node")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(("command", "code"), [(succeeds, ExitCode.DONE), (fails, ExitCode.BAD_INPUT)])
def test_a_signal_at_any_place_ends_a_command_with_its_code_or_that_of_an_interruption(
    command: Callable[[], None], code: ExitCode, number: signal.Signals
) -> None:
    codes: set[int | str] = set()
    before = signal.getsignal(number)
    signal.signal(number, signal.SIG_DFL)
    try:

        def work() -> None:
            try:
                codes.add(guarded(command, Session()))
            except KeyboardInterrupt:
                codes.add("a traceback")
            assert signal.getsignal(number) is signal.SIG_DFL

        places = signalled_everywhere(work, number)
    finally:
        signal.signal(number, before)
        take_down_logs()

    assert codes == {code, ExitCode.INTERRUPTED}
    assert places > 50  # the edge has that many
