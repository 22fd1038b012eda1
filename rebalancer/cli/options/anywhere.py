"""``-v`` and ``--log-format``, which may stand before a command's name or after it."""

from __future__ import annotations

from typing import Any

import click

from rebalancer.cli.logs import set_up_logs
from rebalancer.cli.session import Session


def _set(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Change the session and its logs, unless the option was not given here."""
    session = context.find_object(Session)
    if session is None or not value:
        return
    assert parameter.name is not None
    setattr(session, parameter.name, value)
    set_up_logs(session)


def log_options() -> list[click.Option]:
    """The two options, new for each command that has them."""
    return [
        click.Option(
            ["--log-format"],
            type=click.Choice(["text", "json"]),
            expose_value=False,
            hidden=True,
            callback=_set,
            is_eager=True,
        ),
        click.Option(
            ["-v", "--verbose"],
            is_flag=True,
            expose_value=False,
            callback=_set,
            is_eager=True,
            help="Show more logs, and details of errors.",
        ),
    ]


def with_log_options(command: click.Command) -> click.Command:
    """The command, and those of a group, with the options that may stand anywhere."""
    if not any("--log-format" in parameter.opts for parameter in command.params):
        command.params += log_options()
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_log_options(inner)
    return command
