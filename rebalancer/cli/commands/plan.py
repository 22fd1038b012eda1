"""``rebalancer plan``: what would be evicted, why, and where it would land."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalancer import pipeline
from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    FILE,
    ROW_FORMATS,
    output_options,
    pipeline_options,
    pod_choice_options,
)
from rebalancer.cli.output import Output, Rows, emit, progress, write_page
from rebalancer.errors import InputError
from rebalancer.pipeline import PipelineOptions
from rebalancer.reporting.render import DOCUMENTS, TABLES, Format

if TYPE_CHECKING:
    from pandas import DataFrame

    from rebalancer.planning.plan import Plan
    from rebalancer.reporting.chosen_rows import Choice

_ORDERS = ("wave", "gain", "chance", "pod", "from", "to")


@click.command()
@pipeline_options
@output_options(*ROW_FORMATS)
@pod_choice_options
@click.option(
    "--sort",
    type=click.Choice(_ORDERS),
    default="wave",
    show_default=True,
    help="Order of the moves: as they are carried out, the highest gain or chance first, or by name.",
)
@click.option(
    "--diff",
    "other",
    type=FILE,
    metavar="OTHER_POLICY",
    help="Show what changes with another policy, and why, instead of the plan.",
)
def plan(options: PipelineOptions, output: Output, choice: Choice, sort: str, other: Path | None) -> None:
    """Show what would be evicted, why, and where it would land. Only reads.

    With -n, -l and --field-selector you choose what is listed; the plan is the same. --from also takes a
    report that -o html wrote, and shows its plan again.
    """
    if other is not None:
        _write_difference(options, output, other, chosen=bool(choice) or sort != "wave")
        return
    from rebalancer.reporting.chosen_rows import chosen_pods, sorted_moves  # noqa: PLC0415 - imports numpy
    from rebalancer.reporting.tables.plan import Listed, plan_table  # noqa: PLC0415 - imports rich

    again = _shown_again(options)
    chosen = bool(choice) or sort != "wave"
    if chosen and output.format in {*DOCUMENTS, Format.HTML}:
        raise InputError(
            f"-n, -l, --field-selector and --sort choose and order rows, and -o {output.format} prints the "
            "whole plan",
            hint="leave one of them out",
        )
    if output.format is Format.HTML:
        if again is not None:
            raise InputError("this is a report already", where=str(options.source), hint="copy it")
        _write_page(options)
        return
    snapshot = None
    with progress() as report:
        options = dataclasses.replace(options, progress=report)
        if again is not None:
            if choice.needs_snapshot:
                raise InputError("a plan does not hold what -l and this --field-selector choose by")
            found = again
        elif choice.needs_snapshot:
            found, snapshot = pipeline.make_plan_and_snapshot(options)
        else:
            found = pipeline.make_plan(options)
    rows = sorted_moves(chosen_pods(found, choice, snapshot), sort) if chosen else found
    listed = Listed(rows, str(choice)) if choice else None
    if output.format in TABLES:
        shown = found if choice else rows
        emit(shown, output, functools.partial(plan_table, listed=listed))
    else:
        emit(rows, output, plan_table, Rows(_names, _frame))


def _shown_again(options: PipelineOptions) -> Plan | None:
    """The plan of a report that --from names; None for a cluster."""
    from rebalancer.documents import read_bytes  # noqa: PLC0415 - imports yaml
    from rebalancer.reporting.html.embedded import MAX_PLAN_BYTES, read_plan  # noqa: PLC0415

    if options.source is None or options.source.suffix.lower() not in (".html", ".htm"):
        return None
    return read_plan(read_bytes(options.source, largest=MAX_PLAN_BYTES), str(options.source))


def _write_difference(options: PipelineOptions, output: Output, other: Path, *, chosen: bool) -> None:
    """Write what changes with another policy to stdout."""
    from rebalancer.reporting.tables.plan import difference_table  # noqa: PLC0415 - imports rich

    if output.format not in {*TABLES, *DOCUMENT_FORMATS}:
        raise InputError(
            f"--diff shows two plans side by side, -o {output.format} lists the rows of one",
            hint="leave one of them out",
        )
    if chosen:
        raise InputError("--diff compares whole plans", hint="leave out -n, -l, --field-selector and --sort")
    with progress() as report:
        found = pipeline.diff_policies(dataclasses.replace(options, progress=report), other)
    emit(found, output, difference_table)


def _write_page(options: PipelineOptions) -> None:
    """Write the plan as one HTML file to stdout."""
    with progress() as report:
        found = pipeline.make_reported_plan(dataclasses.replace(options, progress=report))
    write_page(found.plan, found.policy, found.tables)


def _names(plan: Plan) -> Iterable[str]:
    return (f"pod/{move.pod.full_name}" for move in plan.moves)


def _frame(plan: Plan) -> DataFrame:
    from rebalancer import analysis  # noqa: PLC0415 - pandas is only for rows

    return analysis.moves(plan)
