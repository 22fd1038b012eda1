"""A group whose commands are imported when they are used, so that ``--help`` stays fast."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from rebalancer.cli.options.anywhere import with_log_options


class LazyGroup(click.Group):
    """Commands as a table of name to ``module:attribute``, listed in its order."""

    def __init__(self, *arguments: Any, lazy_commands: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy_commands = lazy_commands or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return [*self._lazy_commands, *super().list_commands(ctx)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of that name; an unknown name is an error with similar ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now if the table names it, with the options that every command has."""
        place = self._lazy_commands.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, attribute = place.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return with_log_options(command)
