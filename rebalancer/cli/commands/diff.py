"""``rebalancer diff``: what changes from one plan to another, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalancer.cli.output import Output, emit
from rebalancer.cli.shared_options import DOCUMENT_FORMATS, FILE, output_options
from rebalancer.errors import InputError

if TYPE_CHECKING:
    from rebalancer.planning.plan import Plan


@click.command()
@click.argument("first", type=FILE, metavar="PLAN")
@click.argument("second", type=FILE, metavar="OTHER_PLAN")
@output_options(*DOCUMENT_FORMATS)
def diff(first: Path, second: Path, output: Output) -> None:
    """Show what changes from one plan to another, and why.

    A plan is a file that rebalancer plan -o json or -o html wrote.
    """
    from rebalancer.planning.explanation.difference import difference  # noqa: PLC0415 - imports msgspec
    from rebalancer.reporting.tables.difference import difference_table  # noqa: PLC0415 - imports rich

    emit(difference(_plan(first), _plan(second)), output, difference_table)


def _plan(path: Path) -> Plan:
    from rebalancer.reporting.html.embedded import MAX_PLAN_BYTES, read_plan  # noqa: PLC0415

    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", where=str(path)) from error
    if len(content) > MAX_PLAN_BYTES:
        raise InputError(f"larger than {MAX_PLAN_BYTES} bytes, so it is no plan", where=str(path))
    return read_plan(content, str(path))
