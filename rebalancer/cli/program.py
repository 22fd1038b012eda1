"""The program: its global options, the table of its commands, and the completion of its words in kubectl.

A command's module is imported when the command is used, so that ``--help`` stays fast.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import ShellComplete

from rebalancer import __version__
from rebalancer.cli.invocation import (
    OutputClosedError,
    Session,
    guarded,
    program_name,
    set_up_logs,
    take_down_logs,
)
from rebalancer.errors import ExitCode, InputError

if TYPE_CHECKING:
    from importlib import metadata


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
# Headings of --help, in its order, by names of parameters; what a command has of its own comes before them.
_HEADINGS = {
    "The cluster": (
        *("source", "at", "max_dump_bytes", "kubeconfig", "context", "contexts"),
        *("kube_cluster", "kube_user", "acts_as", "as_groups"),
        *("request_seconds", "now"),
    ),
    "What is planned by": (
        *("policy_path", "policies", "state_path", "state_config_map", "scheduler_config", "assume_neutral"),
    ),
    "Rows": ("namespace", "all_namespaces", "labels", "fields", "sort", "hot_only", "everything", "top"),
    "Output": ("output_format", "no_headers", "width", "verbose"),
}


def _write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The options of a command in groups; few of them need none."""
    heading_of = {name: heading for heading, names in _HEADINGS.items() for name in names}
    groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *_HEADINGS)}
    records = [(parameter, parameter.get_help_record(ctx)) for parameter in command.get_params(ctx)]
    many = len(records) > _UNGROUPED
    for parameter, record in records:
        if record is not None and isinstance(parameter, click.Option):
            groups[heading_of.get(parameter.name or "", "Options") if many else "Options"].append(record)
    for heading, rows in groups.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _parse(command: click.Command, ctx: click.Context, args: list[str]) -> list[str]:
    """Parse the words of a command, where none is lost: ``-n -o json`` has no namespace that is called -o."""
    if ctx.resilient_parsing:  # a completion, whose words are not all there yet
        return type(command).parse_args(command, ctx, args)
    options = {name: item for item in command.get_params(ctx) for name in (*item.opts, *item.secondary_opts)}
    words = args[: args.index("--")] if "--" in args else args
    for word, value in itertools.zip_longest(words, words[1:]):
        option = options.get(word)
        if isinstance(option, click.Option) and not option.is_flag and (value is None or value in options):
            what = f", but {value} is an option" if value else ""
            raise click.BadOptionUsage(word, f"{word} needs a value{what}", ctx)
    if [word.partition("=")[0] for word in words].count("--from") > 1:
        several = "name one cluster; where several are compared, a pattern such as 'recorded/*' names them"
        raise click.BadOptionUsage("--from", f"--from is given twice: {several}", ctx)
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
    else:
        command.format_options = functools.partial(_write_options, command)  # type: ignore[method-assign]
        command.parse_args = functools.partial(_parse, command)  # type: ignore[method-assign]
    return command


class LazyGroup(click.Group):
    """Commands as a table of name to ``module:attribute``, listed in its order."""

    def __init__(self, *arguments: Any, lazy_commands: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy_commands = lazy_commands or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table, then those that other distributions bring."""
        return [*self._lazy_commands, *super().list_commands(ctx), *installed_commands()]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The program's own commands, then those of each other distribution under its name."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            heading = "Commands"
            if name in installed_commands():
                heading = f"Commands of {installed_commands()[name].distribution}"
            try:
                command = self.get_command(ctx, name)
            except InputError as error:  # one broken distribution takes no other command's help away
                sections.setdefault(heading, []).append((name, str(error)))
                continue
            if command is not None and not command.hidden:
                sections.setdefault(heading, []).append((name, command.get_short_help_str()))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

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
        """The command, imported now if a table names it, with the options that every command has."""
        if cmd_name in self._lazy_commands:
            module, attribute = self._lazy_commands[cmd_name].split(":")
            return _completed(getattr(import_module(module), attribute))
        if cmd_name in installed_commands():
            return _completed(installed_commands()[cmd_name].load())
        return super().get_command(ctx, cmd_name)


# The modules of rebalancer.cli.commands and the commands that each defines, in the order of --help.
_MODULES = {
    "plan": ("plan",),
    "run": ("run",),
    "serve": ("serve",),
    "nodes": ("nodes",),
    "questions": ("explain", "why_not", "what_if", "fit", "diff"),
    "agreement": ("agreement", "why"),
    **{name: (name,) for name in ("snapshot", "policy")},
    "simulate": ("simulate", "tune"),
    "journal": ("journal",),
    "about": ("demo", "version", "completion"),
}
COMMANDS = {
    name.replace("_", "-"): f"rebalancer.cli.commands.{module}:{name}"
    for module, names in _MODULES.items()
    for name in names
}

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
def installed_commands() -> dict[str, InstalledCommand]:
    """What other distributions bring, by name; a command of the program keeps its name."""
    from importlib import metadata  # noqa: PLC0415 - its parsers take time, and most commands are ours

    return {
        entry.name: InstalledCommand(entry.dist.name, entry)
        for entry in sorted(metadata.entry_points(group=COMMAND_GROUP), key=lambda entry: entry.name)
        if entry.name not in COMMANDS and entry.dist is not None
    }


@contextlib.contextmanager
def _closed_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosedError from error


class Program(LazyGroup):
    """The outermost group: runs inside the edge, and documents the exit codes."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **options: Any
    ) -> Any:
        """Run a command and leave with its exit code."""
        session = Session()
        options |= {"standalone_mode": False, "obj": session}
        run = super().main
        try:
            code = guarded(lambda: run(args, prog_name or program_name(), *rest, **options), session)
        finally:
            take_down_logs()
        sys.exit(code)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the arguments, which may print the help; the edge handles a closed output, not click."""
        with _closed_output():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a closed output as above."""
        with _closed_output():
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click calls it so
        """The exit codes, from the table of errors."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), code.meaning) for code in ExitCode])


@click.group(cls=Program, lazy_commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="REBALANCER_LOG_FORMAT",
    help="Format of the logs on stderr.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show more logs, and details of errors.")
@click.version_option(__version__, prog_name="rebalancer")
@click.pass_obj
def main(session: Session, log_format: str, verbose: bool) -> None:
    """Evict pods from hot Kubernetes nodes, only when the scheduler will place them somewhere better.

    Try `rebalancer demo` without a cluster of your own; `rebalancer plan` only reads.
    """
    session.log_format, session.verbose = log_format, verbose
    set_up_logs(session)


_FILES_TOO = 0  # cobra's ShellCompDirectiveDefault: the shell completes file names if there is no candidate
_NO_FILES = 4  # cobra's ShellCompDirectiveNoFileComp


def answer(words: Sequence[str]) -> str:
    """What to complete the last of these words to, as kubectl reads it.

    One candidate a line, its description behind a tab; the last line is a colon and a number, which tells
    kubectl's completion library what else the shell should do.
    """
    *arguments, incomplete = words or [""]
    completer = ShellComplete(main, {}, "kubectl rebalance", "")
    items = completer.get_completions(arguments, incomplete)
    candidates = [item for item in items if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in candidates]
    return "\n".join([*lines, f":{_NO_FILES if len(candidates) == len(items) else _FILES_TOO}"]) + "\n"


def complete() -> None:
    """``kubectl_complete-rebalance``, which kubectl runs to complete the words of ``kubectl rebalance``."""
    sys.stdout.write(answer(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)  # without waiting for an API server that has not answered in time
