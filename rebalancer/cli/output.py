"""Results on stdout, progress on stderr; colour, bars and spinners only on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rebalancer.cli.logs import LOGGER
from rebalancer.reporting.render import Format, render

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from rebalancer.reporting.tables.text import Style

_MAX_WIDTH = 120  # columns: longer lines are hard to read


def console(*, stderr: bool = False) -> Console:
    """A console for untrusted text: no markup, no emoji, no highlighting."""
    from rebalancer.reporting.console import ReportConsole  # noqa: PLC0415 - imports rich

    return ReportConsole(sys.stderr if stderr else sys.stdout)


def style(target: Console, *, everything: bool = False) -> Style:
    """How tables look on this console."""
    from rebalancer.reporting.tables.text import ASCII, UNICODE, Style  # noqa: PLC0415 - not for JSON

    glyphs = ASCII if target.options.ascii_only else UNICODE
    return Style(width=min(target.width, _MAX_WIDTH), everything=everything, glyphs=glyphs)


def emit(
    value: Any, output_format: Format, table: Callable[[Any, Style], Text], *, everything: bool = False
) -> None:
    """Write one result to stdout in the format asked for, and nothing else."""
    if output_format is Format.TABLE:
        target = console()
        show(target, table(value, style(target, everything=everything)))
        return
    text = render(value, output_format, lambda: table(value, style(console())))
    sys.stdout.write(str(text))


def show(target: Console, text: Text) -> None:
    """Write a table whose lines are already laid out."""
    target.print(text, end="", soft_wrap=True)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Report what is being read: a spinner on a terminal, else a log line that -v shows."""
    from rich.text import Text  # noqa: PLC0415 - not for --help

    from rebalancer.reporting.words import words  # noqa: PLC0415

    if not sys.stderr.isatty():
        yield lambda message: LOGGER.debug("reading %s", words(message))
        return
    with console(stderr=True).status(Text("reading")) as status:
        yield lambda message: status.update(Text(f"reading {words(message)}"))


@contextlib.contextmanager
def progress_bar(noun: str, total: int) -> Iterator[Callable[[str], None]]:
    """Count steps towards a total: a bar on a terminal, else a log line a step that -v shows."""
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    from rebalancer.reporting.words import words  # noqa: PLC0415

    if not sys.stderr.isatty():
        yield lambda message: LOGGER.debug("%s", words(message))
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(noun, markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda message: bar.update(task, advance=1, description=words(message))
