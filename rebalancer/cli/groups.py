"""Groups of commands that are imported when they are used, and the options that every command has.

A command of another distribution comes by an entry point of the group ``rebalancer.commands``, whose name is
that of the command, behind that of its group and a dot where it has one:

    [project.entry-points."rebalancer.commands"]
    fit = "rebalancer_lab.what_if.commands:fit"                      rebalancer fit
    "policy.test" = "rebalancer_lab.policy_tests.commands:check"     rebalancer policy test
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rebalancer.cli.invocation import Session, set_up_logs
from rebalancer.errors import InputError

if TYPE_CHECKING:
    from importlib import metadata

COMMAND_GROUP = "rebalancer.commands"  # the entry points by which other distributions bring commands


class InstalledCommand(NamedTuple):
    """A command that another distribution brings, where that is installed beside the program."""

    distribution: str
    entry: metadata.EntryPoint

    def load(self) -> click.Command:
        """The command itself. Raises InputError where its distribution is broken."""
        try:
            command: click.Command = self.entry.load()
        except Exception as error:
            raise InputError(
                f"cannot be loaded: {type(error).__name__}: {error!s:.200}",
                where=f"command {self.entry.name} of {self.distribution}",
                hint=f"repair or uninstall {self.distribution}",
            ) from error
        return command


@functools.cache
def installed_commands() -> Mapping[str, InstalledCommand]:
    """What other distributions bring, by the names of their entry points."""
    from importlib import metadata  # noqa: PLC0415 - its parsers take time, and most commands are ours

    return {
        entry.name: InstalledCommand(entry.dist.name, entry)
        for entry in sorted(metadata.entry_points(group=COMMAND_GROUP), key=lambda entry: entry.name)
        if entry.dist is not None
    }


def _set(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Change the session and its logs, unless the option was not given here."""
    session = context.find_object(Session)
    if session is None or not value:
        return
    assert parameter.name is not None
    setattr(session, parameter.name, value)
    set_up_logs(session)


def _log_options() -> list[click.Option]:
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


_UNGROUPED = 8  # options that are seen at a glance
# Headings of --help, in its order, by options; what a command has of its own comes before them.
_HEADINGS = {
    "The cluster": (
        *("--from", "--at", "--max-dump-size", "--kubeconfig", "--context"),
        *("--cluster", "--user", "--as", "--as-group"),
        *("--request-timeout", "--now"),
    ),
    "What is planned by": (
        *("--policy", "--state", "--state-config-map", "--scheduler-config", "--assume-neutral"),
    ),
    "Rows": (
        *("--namespace", "--all-namespaces", "--selector", "--field-selector"),
        *("--sort", "--hot", "--all", "--top"),
    ),
    "Output": ("--output", "--no-headers", "--width", "--verbose"),
}


def _write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The options of a command in groups; few of them need none."""
    heading_of = {flag: heading for heading, flags in _HEADINGS.items() for flag in flags}
    groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *_HEADINGS)}
    records = [(parameter, parameter.get_help_record(ctx)) for parameter in command.get_params(ctx)]
    many = len(records) > _UNGROUPED
    for parameter, record in records:
        if record is None or not isinstance(parameter, click.Option):
            continue
        heading = heading_of.get(parameter.opts[-1], "Options") if many else "Options"
        groups[heading].append(record)
    for heading, rows in groups.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)
    if isinstance(command, click.Group):
        command.format_commands(ctx, formatter)


def _parse(command: click.Command, ctx: click.Context, args: list[str]) -> list[str]:
    """Parse the words of a command, where none is lost: ``-n -o json`` has no namespace that is called -o."""
    if ctx.resilient_parsing:  # a completion, whose words are not all there yet
        return type(command).parse_args(command, ctx, args)
    options = {
        name: parameter
        for parameter in command.get_params(ctx)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    words = args[: args.index("--")] if "--" in args else args
    for word, value in itertools.zip_longest(words, words[1:]):
        option = options.get(word)
        if isinstance(option, click.Option) and not option.is_flag and (value is None or value in options):
            what = f", but {value} is an option" if value else ""
            raise click.BadOptionUsage(word, f"{word} needs a value{what}", ctx)
    given = Counter(options.get(word.partition("=")[0]) for word in words)
    for option, times in given.items():
        if isinstance(option, click.Option) and not option.multiple and not option.is_flag and times > 1:
            raise click.BadOptionUsage(option.opts[-1], f"{option.opts[-1]} is given twice", ctx)
    return type(command).parse_args(command, ctx, args)


def _completed(command: click.Command) -> click.Command:
    """The command, and those of a group, with the options that may stand anywhere, and its help in groups."""
    if not any("--log-format" in parameter.opts for parameter in command.params):
        command.params += _log_options()
    # Its first sentence whole: lists of commands wrap it where click would cut it.
    command.short_help = command.get_short_help_str(sys.maxsize)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _completed(inner)
    if not isinstance(command, click.Group) or command.invoke_without_command:
        command.format_options = functools.partial(_write_options, command)  # type: ignore[method-assign]
        command.parse_args = functools.partial(_parse, command)  # type: ignore[method-assign]
    return command


class LazyGroup(click.Group):
    """Commands as a table of name to ``module:attribute``, listed in its order, and those that are added."""

    def __init__(
        self,
        *arguments: Any,
        lazy_commands: Mapping[str, str] | None = None,
        added_below: str = "",
        **options: Any,
    ) -> None:
        """``added_below``: how the names of entry points for this group begin, such as ``policy.``."""
        super().__init__(*arguments, **options)
        self._lazy_commands = lazy_commands or {}
        self._added_below = added_below

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names: of the table in its order, then those that other distributions add."""
        added = [name for names in self.added_commands().values() for name in names]
        return [*self._lazy_commands, *super().list_commands(ctx), *added]

    def added_commands(self) -> dict[str, list[str]]:
        """The names that each other distribution adds; a command of the program keeps its name."""
        names: dict[str, list[str]] = {}
        for full_name, command in installed_commands().items():
            group, dot, name = full_name.rpartition(".")
            is_own = name in self._lazy_commands or name in self.commands
            if group + dot == self._added_below and not is_own:
                names.setdefault(command.distribution, []).append(name)
        return names

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of that name, ``help plan`` for ``plan --help``; an error with similar names else."""
        if args == ["help"]:
            click.echo(ctx.get_help())
            ctx.exit()
        try:
            return super().resolve_command(ctx, [*args[1:], "--help"] if args[0] == "help" else args)
        except click.exceptions.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now if it is not there yet, with the options that every command has."""
        place = self._lazy_commands.get(cmd_name)
        if place is not None:
            module, attribute = place.split(":")
            command: click.Command = getattr(import_module(module), attribute)
            return _completed(command)
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        installed = installed_commands().get(self._added_below + cmd_name)
        return None if installed is None else _completed(installed.load())
