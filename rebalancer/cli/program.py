"""The program: its global options, the table of its commands, and the completion of its words in kubectl.

A command's module is imported when the command is used, so that ``--help`` stays fast.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import ShellComplete

from rebalancer import __version__
from rebalancer.cli.groups import LazyGroup
from rebalancer.cli.invocation import (
    OutputClosedError,
    Session,
    guarded,
    program_name,
    set_up_logs,
    take_down_logs,
)
from rebalancer.cli.options import DATA_FORMATS, OutputFormat, option
from rebalancer.cli.output import Output, write, write_document
from rebalancer.errors import ExitCode, InputError
from rebalancer.reporting.render import Format

# The commands by heading of --help, in its order: first those that everybody needs, in the order in which one
# learns them. Each is defined in a module of rebalancer.cli.commands.
_HEADINGS = {
    "Commands": ("demo", "nodes", "plan", "explain", "run", "policy", "snapshot"),
    "More commands": ("agreement", "serve", "journal", "pause", "resume", "completion"),
}
_DEFINED_IN = {"demo": "about", "completion": "about", "resume": "pause"}
COMMANDS = {
    name: f"rebalancer.cli.commands.{_DEFINED_IN.get(name, name)}:{name}"
    for names in _HEADINGS.values()
    for name in names
}


@contextlib.contextmanager
def _closed_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosedError from error


class Program(LazyGroup):
    """The outermost group: runs inside the edge, lists commands by heading, and documents the exit codes."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *others: Any, **options: Any
    ) -> Any:
        """Run a command and leave with its exit code."""
        session = Session()
        options |= {"standalone_mode": False, "obj": session}
        run = super().main
        try:
            code = guarded(lambda: run(args, prog_name or program_name(), *others, **options), session)
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by heading; those of another distribution under its name."""
        headings = {
            **_HEADINGS,
            **{f"Commands of {name}": names for name, names in self.added_commands().items()},
        }
        for heading, names in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self._short_help(ctx, name)) for name in names])

    def _short_help(self, ctx: click.Context, name: str) -> str:
        try:
            command = self.get_command(ctx, name)
        except InputError as error:  # one broken distribution takes no other command's help away
            return str(error)
        assert command is not None
        return command.short_help or ""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click calls it so
        """The exit codes, from the table of errors."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), code.meaning) for code in ExitCode])


@click.group(
    cls=Program,
    lazy_commands=COMMANDS,
    invoke_without_command=True,
    no_args_is_help=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="REBALANCER_LOG_FORMAT",
    help="Format of the logs on stderr.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show more logs, and details of errors.")
@click.option("--version", is_flag=True, help="Show the version, and those of Kubernetes.")
@option(
    *("-o --output version_format", OutputFormat(DATA_FORMATS), "FORMAT"),
    "The format of --version.",
)
@click.pass_context
def main(
    context: click.Context,
    log_format: str,
    version_format: tuple[Format, str] | None,
    *,
    verbose: bool,
    version: bool,
) -> None:
    """Evict pods from hot Kubernetes nodes, only when the scheduler will place them somewhere better.

    Try `rebalancer demo` without a cluster of your own; `rebalancer plan` only reads.
    """
    session = context.ensure_object(Session)
    session.log_format = log_format
    session.verbose = verbose
    set_up_logs(session)
    if version:
        chosen, template = version_format or (Format.TABLE, "")
        value = _version()
        if chosen is Format.TABLE:
            write(_version_text(value))
        else:
            write_document(value, Output(chosen, template=template))
        context.exit()
    if version_format is not None:
        raise click.BadOptionUsage(
            "-o", "-o stands behind the name of a command, or beside --version", context
        )
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


def _version() -> dict[str, Any]:
    """What this program is, and against which Kubernetes versions it is verified; no cluster is asked."""
    from rebalancer.scheduling.versions.verified import COMPARED  # noqa: PLC0415 - not for --help

    return {
        "apiVersion": "rebalancer/v1alpha1",
        "kind": "Version",
        "version": __version__,
        "verifiedKubernetes": dict(COMPARED),
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _version_text(value: Mapping[str, Any]) -> str:
    from rebalancer.scheduling.versions.verified import (  # noqa: PLC0415 - not for --help
        VERIFIED,
        compared_prerelease,
        verified_in_words,
    )

    verified = verified_in_words()
    newest = VERIFIED[-1]
    prerelease = compared_prerelease(newest)
    if prerelease:
        verified = f"{verified.removesuffix(newest)}{prerelease}"
    return (
        f"rebalancer {value['version']}\n"
        f"verified against kube-scheduler {verified}\n"
        f"Python {value['python']} on {value['platform']}\n"
    )


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
    candidates = [candidate for candidate in items if candidate.type == "plain"]
    lines = [
        f"{candidate.value}\t{candidate.help}" if candidate.help else str(candidate.value)
        for candidate in candidates
    ]
    return "\n".join([*lines, f":{_NO_FILES if len(candidates) == len(items) else _FILES_TOO}"]) + "\n"


def complete() -> None:
    """``kubectl_complete-rebalance``, which kubectl runs to complete the words of ``kubectl rebalance``."""
    sys.stdout.write(answer(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)  # without waiting for an API server that has not answered in time
