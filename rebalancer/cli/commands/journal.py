"""``rebalancer journal``: read what runs recorded of their evictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalancer import analysis
from rebalancer.cli.options import DOCUMENT_FORMATS, FILE, default_journal, output_options
from rebalancer.cli.output import Output, Rows, emit
from rebalancer.errors import InputError
from rebalancer.files import may_exist
from rebalancer.reporting.render import TABLES, Format

if TYPE_CHECKING:
    from rich.text import Text

    from rebalancer.reporting.tables.text import Style

_MAX_SHOWN = 40
_FILE_ARGUMENT = click.argument("path", type=FILE, required=False, metavar="[FILE]")


@click.group()
def journal() -> None:
    """Read the journal of earlier runs."""


@journal.command("show")
@_FILE_ARGUMENT
@output_options(*DOCUMENT_FORMATS, Format.CSV)
def show_journal(path: Path | None, output: Output) -> None:
    """Show what was recorded, the newest last: 40 lines of the table, or all with --all.

    Without FILE, the journal that runs on a terminal keep in your state folder.
    """
    from rebalancer.execution.journal import read_journal  # noqa: PLC0415 - not for --help

    _emit(read_journal(path or _journal_of_runs()), output, "nothing is recorded")


@journal.command("in-flight")
@_FILE_ARGUMENT
@output_options(*DOCUMENT_FORMATS, Format.CSV)
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
    if output.top is not None and output.format not in {*TABLES, Format.CSV}:
        raise InputError(
            f"--top chooses rows, and -o {output.format} prints all", hint="leave out one of them"
        )
    value = {"apiVersion": "rebalancer/v1alpha1", "kind": "Journal", "lines": list(lines)}
    rows = Rows((), lambda shown: analysis.journal(shown["lines"]))
    emit(value, output, lambda shown, style: _table(shown, style, nothing), rows)


def _table(value: Mapping[str, Any], style: Style, nothing: str) -> Text:
    """A heading for each run, and below it a row for each of its lines."""
    from rebalancer.reporting.tables.text import Column, Lines, write_table  # noqa: PLC0415 - imports rich
    from rebalancer.reporting.words import words  # noqa: PLC0415

    recorded = value["lines"]
    table = Lines(style, {line["from"] for line in recorded if line.get("from")})
    shown_lines = recorded[-table.shown(len(recorded), _MAX_SHOWN) :]
    if not recorded:
        table.add(nothing)
    table.more(len(recorded) - len(shown_lines), "line before these", indent=0, plural="lines before these")

    def column(title: str, key: str, *, node: bool = False, leads: bool = False) -> Column:
        return Column(title, lambda line: words(str(line.get(key) or "")), node=node, leads=leads)

    columns = [
        column("TIME", "time", leads=True),
        column("EVENT", "event", leads=True),
        column("POD", "pod"),
        column("FROM", "from", node=True),
        Column("TO", lambda line: words(_target(line)), node=True),
        column("RESULT", "result"),
        Column("WHY", lambda line: words(_why(line)), sentence=True),
    ]
    for run, of_run in groupby(shown_lines, lambda line: str(line.get("run", ""))):
        lines = list(of_run)
        dry = any(line.get("dryRun") for line in lines)
        table.heading(f"RUN {words(run)}", "dry run: nothing was changed" if dry else "")
        write_table(table, columns, lines)
    table.say_what_is_left_out()
    return table.text


def _target(line: Mapping[str, Any]) -> str:
    """Where the replacement landed; before that, where it most likely will."""
    landings = line.get("landings")
    if line.get("node") or not isinstance(landings, Mapping) or not landings:
        return str(line.get("node") or "")
    likeliest = max(landings, key=lambda name: float(landings[name]))
    others = len(landings) - 1
    return f"{likeliest} +{others}" if others else str(likeliest)


_COUNTS = {"wave": "wave", "moves": "moves", "hotNodes": "hot nodes", "exitCode": "exit code"}


def _why(line: Mapping[str, Any]) -> str:
    """The reason of a line; of one that is about no pod, else what it counts."""
    counts = (f"{words} {line[key]}" for key, words in _COUNTS.items() if key in line and "pod" not in line)
    return str(line.get("because") or ", ".join(counts))
