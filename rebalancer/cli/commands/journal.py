"""``rebalancer journal``: read what runs recorded of their evictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalancer.cli.options import DOCUMENT_FORMATS, FILE, output_options
from rebalancer.cli.output import Output, emit
from rebalancer.cli.user_files import default_journal
from rebalancer.errors import InputError
from rebalancer.files import may_exist

if TYPE_CHECKING:
    from rich.text import Text

    from rebalancer.reporting.tables.text import Style

_MAX_SHOWN = 40


@click.group()
def journal() -> None:
    """Read the journal of earlier runs."""


def _file_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("path", type=FILE, required=False, metavar="[FILE]")(command)


@journal.command("show")
@_file_argument
@output_options(*DOCUMENT_FORMATS)
def show_journal(path: Path | None, output: Output) -> None:
    """Show what was recorded, the newest last: 40 lines of the table, or all with --all.

    Without FILE, the journal that runs on a terminal keep in your state folder.
    """
    from rebalancer.execution.journal import read_journal  # noqa: PLC0415 - not for --help

    _emit(read_journal(path or _journal_of_runs()), output, "nothing is recorded")


@journal.command("in-flight")
@_file_argument
@output_options(*DOCUMENT_FORMATS)
def show_in_flight(path: Path | None, output: Output) -> None:
    """Show the evictions whose outcome is unknown, because a run was killed while it made them."""
    from rebalancer.execution.journal import in_flight, read_journal  # noqa: PLC0415 - not for --help

    _emit(in_flight(read_journal(path or _journal_of_runs())), output, "no eviction is in flight")


def _journal_of_runs() -> Path:
    """The user's own journal. Raises InputError where no run has kept one yet."""
    path = default_journal()
    if not may_exist(path):
        raise InputError(
            "no run on a terminal has kept a journal here yet",
            where=str(path),
            hint="name the file that rebalancer run --journal wrote",
        )
    return path


def _emit(lines: Iterable[Mapping[str, Any]], output: Output, nothing: str) -> None:
    value = {"apiVersion": "rebalancer/v1alpha1", "kind": "Journal", "lines": list(lines)}
    emit(value, output, lambda shown, style: _table(shown, style, nothing))


def _table(value: Mapping[str, Any], style: Style, nothing: str) -> Text:
    from rebalancer.reporting.tables.text import Lines  # noqa: PLC0415 - imports rich
    from rebalancer.reporting.words import words  # noqa: PLC0415

    table = Lines(style)
    recorded = value["lines"]
    shown_lines = recorded[-table.shown(len(recorded), _MAX_SHOWN) :]
    if not recorded:
        table.add(nothing)
    table.more(len(recorded) - len(shown_lines), "line before these", indent=0, plural="lines before these")
    for line in shown_lines:
        shown = " ".join(
            words(str(line[key])) for key in ("time", "run", "event", "pod", "from") if line.get(key)
        )
        table.add(shown)
        if line.get("because"):
            table.message(str(line["because"]), 4, "dim")
    return table.text
