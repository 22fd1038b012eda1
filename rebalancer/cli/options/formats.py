"""``-o`` and the options that go with it: how a result is written, and how many of its rows."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from rebalancer.cli.options.decorated import Command, with_options
from rebalancer.cli.output import Output
from rebalancer.errors import InputError
from rebalancer.reporting.render import Format, parse_template

DATA_FORMATS = (Format.TABLE, Format.JSON, Format.YAML, Format.JSONPATH)
DOCUMENT_FORMATS = (Format.TABLE, Format.MARKDOWN, Format.JSON, Format.YAML, Format.JSONPATH)
ROW_FORMATS = (
    *(Format.TABLE, Format.WIDE, Format.NAME, Format.MARKDOWN),
    *(Format.JSON, Format.YAML, Format.JSONPATH, Format.CSV, Format.PARQUET),
    Format.HTML,
)
_ALIASES = {"md": Format.MARKDOWN}


class OutputFormat(click.ParamType[tuple[Format, str]]):
    """One of a command's formats; ``jsonpath=TEMPLATE`` brings its template, which is checked here."""

    name = "format"

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = tuple(formats)

    @property
    def shown(self) -> str:
        """The formats as help lists them."""
        return ", ".join("jsonpath=..." if member is Format.JSONPATH else member for member in self.formats)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Format, str]:
        """The format, and the template of jsonpath."""
        if isinstance(value, tuple):
            return value
        name, equals, template = str(value).partition("=")
        found = next((member for member in self.formats if member == _ALIASES.get(name, name)), None)
        if found is None or (equals and found is not Format.JSONPATH):
            self.fail(f"{str(value)[:60]!a} is none of {self.shown}", param, ctx)
        if found is Format.JSONPATH:
            if not template:
                self.fail("jsonpath needs a template, such as jsonpath='{.kind}'", param, ctx)
            parse_template(template)
        if found is Format.PARQUET:
            _check_parquet()
        return found, template

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's interface
        param: click.Parameter,  # noqa: ARG002 - click calls it so
        incomplete: str,
    ) -> list[click.shell_completion.CompletionItem]:
        """The formats that begin like this."""
        names = ("jsonpath=" if member is Format.JSONPATH else str(member) for member in self.formats)
        return [click.shell_completion.CompletionItem(name) for name in names if name.startswith(incomplete)]


def _check_parquet() -> None:
    """Refuse what would fail only after a cluster has been read, or would garble a terminal."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(
            "-o parquet needs pyarrow, which is not installed", hint="install rebalancer[parquet]"
        )
    if sys.stdout.isatty():
        raise InputError("Parquet is binary and would garble a terminal", hint="add: > FILE.parquet")


def output_options(*formats: Format, lists: bool = True) -> Callable[[Command], Command]:
    """Give a command ``-o`` and, for lists, how many rows to show, as one ``Output`` named ``output``."""

    def decorate(command: Command) -> Command:
        def wrapped(**values: Any) -> Any:
            found, template = values.pop("output_format")
            output = Output(
                format=found,
                everything=values.pop("everything", False),
                top=values.pop("top", None),
                no_headers=values.pop("no_headers", False),
                template=template,
            )
            return command(output=output, **values)

        return with_options(command, wrapped, _output_options(formats, lists=lists))

    return decorate


def _output_options(formats: Sequence[Format], *, lists: bool) -> list[Callable[[Any], Any]]:
    kind = OutputFormat(formats)
    options = [
        click.option(
            *("-o", "--output", "output_format"),
            type=kind,
            default=str(Format.TABLE),
            show_default=True,
            metavar="FORMAT",
            help=f"Output format: {kind.shown}.",
        ),
    ]
    if lists:
        options += [
            click.option(
                "--all", "everything", is_flag=True, help="Show every row of a table instead of a summary."
            ),
            click.option(
                "--top", type=click.IntRange(1), metavar="N", help="Show at most N rows of each list."
            ),
        ]
    if Format.CSV in formats:
        options.append(click.option("--no-headers", is_flag=True, help="Print only the rows of the table."))
    return options
