"""Results on stdout, progress on stderr; colour, bars and spinners only on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer.cli.invocation import LOGGER
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import TABLES, Format, to_csv, to_json, to_jsonpath, to_yaml
from rebalancer.reporting.words import plain, words

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console
    from rich.text import Text

    from rebalancer.execution.outcomes import Outcomes
    from rebalancer.planning.explanation import SchedulingTable
    from rebalancer.planning.plan import Plan
    from rebalancer.policy.schema import RebalancePolicy
    from rebalancer.reporting.tables.text import Style

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


def console(*, stderr: bool = False) -> Console:
    """A console for untrusted text: no markup, no emoji, no highlighting."""
    from rebalancer.reporting.console import ReportConsole  # noqa: PLC0415 - imports rich

    return ReportConsole(sys.stderr if stderr else sys.stdout)


class Output(msgspec.Struct, frozen=True):
    """What the user asked for: the format, and how many rows of a table."""

    format: Format = Format.TABLE
    everything: bool = False
    top: int | None = None
    no_headers: bool = False
    width: int | None = None  # of tables, instead of the terminal's
    template: str = ""  # of jsonpath


DEFAULT = Output()


class Rows(msgspec.Struct, frozen=True):
    """The main rows of a value, for the formats that list nothing else."""

    names: Iterable[str]  # kind/name of each
    frame: Callable[[Any], DataFrame]
    page: Callable[[Any], str] | None = None  # as one HTML file


def style(target: Console, output: Output = DEFAULT) -> Style:
    """How tables look on this console: in a pipe and with -o wide, a row is as wide as its names."""
    from rebalancer.reporting.tables.text import ASCII, UNICODE, Style  # noqa: PLC0415 - not for JSON

    wide = output.format is Format.WIDE
    return Style(
        width=output.width or target.width,
        bounded=output.width is not None or (target.is_terminal and not wide),
        everything=output.everything,
        glyphs=ASCII if target.options.ascii_only else UNICODE,
        wide=wide,
        top=output.top,
        no_headers=output.no_headers,
        markdown=output.format is Format.MARKDOWN,
    )


def emit(value: Any, output: Output, table: Callable[[Any, Style], Text], rows: Rows | None = None) -> None:
    """Write one result to stdout in the format asked for, and nothing else."""
    if output.format in TABLES:
        target = console()
        show(target, table(value, style(target, output)))
    elif rows is not None and output.format is Format.NAME:
        sys.stdout.writelines(f"{plain(name)}\n" for name in islice(rows.names, output.top))
    elif rows is not None and output.format is Format.CSV:
        write(to_csv(rows.frame(value)[: output.top]))
    elif rows is not None and rows.page is not None and output.format is Format.HTML:
        write(rows.page(value))
    else:
        write_document(value, output)


def write_document(value: Any, output: Output) -> None:
    """Write a value as a document to stdout: JSON, what a jsonpath names of it, or else YAML."""
    if output.format is Format.JSON:
        write(to_json(value, indent=2 if sys.stdout.isatty() else 0))
    elif output.format is Format.JSONPATH:
        write(to_jsonpath(value, output.template))
    else:
        write(to_yaml(value))


def write(text: str) -> None:
    """Write what a program or a browser reads to stdout: in UTF-8, whatever the locale is."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stdout.write(text)


def write_page(
    plan: Plan,
    policy: RebalancePolicy,
    tables: Mapping[str, SchedulingTable],
    outcomes: Outcomes | None = None,
) -> None:
    """Write a plan, and what became of it, as one HTML file to stdout."""
    from rebalancer.policy.policy_file import shown  # noqa: PLC0415 - imports pydantic
    from rebalancer.reporting.html.pages import html_report  # noqa: PLC0415 - imports jinja2

    without_secrets, _ = shown(policy)
    write(html_report(plan, to_yaml(without_secrets), tables, outcomes))


def show(target: Console, text: Text) -> None:
    """Write a table whose lines are already laid out."""
    target.print(text, end="", soft_wrap=True)


def with_progress(
    work: Callable[Concatenate[PlanOptions, Asked], Answer],
    options: PlanOptions,
    *asked: Asked.args,
    **more: Asked.kwargs,
) -> Answer:
    """What some work comes to, while what it is at is reported."""
    with progress() as report:
        return work(replace(options, progress=report), *asked, **more)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Report what the program is at: a spinner on a terminal, else a log line that -v shows."""
    if not sys.stderr.isatty():
        yield lambda message: LOGGER.debug("%s", words(message))
        return
    from rich.text import Text  # noqa: PLC0415 - not for --help

    with console(stderr=True).status(Text("starting")) as status:
        yield lambda message: status.update(Text(words(message)))


@contextlib.contextmanager
def progress_bar(noun: str, total: int) -> Iterator[Callable[[str], None]]:
    """Count steps towards a total: a bar on a terminal, else a log line a step that -v shows."""
    if not sys.stderr.isatty():
        yield lambda message: LOGGER.debug("%s", words(message))
        return
    from rebalancer.reporting.console import step_bar  # noqa: PLC0415 - imports rich

    with step_bar(console(stderr=True), noun) as bar:
        task = bar.add_task("", total=total)
        yield lambda message: bar.update(task, advance=1, description=words(message))
