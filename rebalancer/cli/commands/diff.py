"""``rebalancer diff``: what changes from one plan to another, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalancer.cli.options import DOCUMENT_FORMATS, FILE, output_options
from rebalancer.cli.output import Output, emit

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
    from rebalancer.planning.plan import difference  # noqa: PLC0415 - imports msgspec
    from rebalancer.reporting.tables.plan import difference_table  # noqa: PLC0415 - imports rich

    emit(difference(_plan(first), _plan(second)), output, difference_table)


def _plan(path: Path) -> Plan:
    from rebalancer.documents import read_bytes  # noqa: PLC0415 - imports yaml
    from rebalancer.reporting.html.embedded import MAX_PLAN_BYTES, read_plan  # noqa: PLC0415

    return read_plan(read_bytes(path, largest=MAX_PLAN_BYTES), str(path))
