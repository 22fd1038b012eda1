"""The program: its global options and the table of its commands."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from rebalancer import __version__
from rebalancer.cli.edge import OutputClosedError, guarded
from rebalancer.cli.invocation import program_name
from rebalancer.cli.lazy import LazyGroup
from rebalancer.cli.logs import set_up_logs, take_down_logs
from rebalancer.cli.session import Session
from rebalancer.errors import ExitCode

_NAMES = (
    *("plan", "run", "services.serve", "nodes", "explain"),
    *("questions.why_not", "questions.what_if", "questions.fit", "diff"),
    *("snapshot", "policy", "simulate", "journal", "demo", "version", "completion"),
)  # modules in rebalancer.cli.commands, in the order of --help


def _commands(modules: Iterable[str]) -> dict[str, str]:
    """Where each command is, by what it is called: ``why-not`` is ``why_not`` in its module."""
    found = {}
    for module in modules:
        function = module.rpartition(".")[2]
        found[function.replace("_", "-")] = f"rebalancer.cli.commands.{module}:{function}"
    return found


COMMANDS = _commands(_NAMES)


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
