"""``rebalancer plan``: what would be evicted, why, and where it would land."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

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
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import DOCUMENTS, TABLES, Format

if TYPE_CHECKING:
    from pandas import DataFrame

    from rebalancer.cluster.snapshot import Snapshot
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
@click.option(
    "--advise",
    is_flag=True,
    help="Also say what the plan would be with a soft taint on the hot nodes (execution.steer), or without.",
)
def plan(
    options: PlanOptions, output: Output, choice: Choice, sort: str, other: Path | None, *, advise: bool
) -> None:
    """Show what would be evicted, why, and where it would land. Only reads.

    -n, -l and --field-selector filter the output only. --from also takes a report that -o html wrote, and
    shows its plan again.
    """
    options = replace(options, advise=advise)
    chosen = bool(choice) or sort != "wave"
    if other is not None:
        _write_difference(options, output, other, chosen=chosen)
        return
    recorded_plan = _plan_of_report(options)
    if chosen and output.format in {*DOCUMENTS, Format.HTML}:
        raise InputError(
            f"-n, -l, --field-selector and --sort choose and order rows, and -o {output.format} prints the "
            "whole plan",
            hint="leave one of them out",
        )
    if output.format is not Format.HTML:
        _write_rows(options, output, recorded_plan, choice, sort)
    elif recorded_plan is None:
        _write_page(options)
    else:
        raise InputError("this is a report already", where=str(options.source), hint="copy it")


def _plan_of_report(options: PlanOptions) -> Plan | None:
    """The plan of a report that --from names; None for a cluster."""
    if options.source is None or options.source.suffix.lower() not in (".html", ".htm"):
        return None
    from rebalancer.documents import read_bytes  # noqa: PLC0415 - imports yaml
    from rebalancer.reporting.html.embedded import MAX_PLAN_BYTES, read_plan  # noqa: PLC0415

    return read_plan(read_bytes(options.source, largest=MAX_PLAN_BYTES), str(options.source))


def _write_rows(
    options: PlanOptions, output: Output, recorded_plan: Plan | None, choice: Choice, sort: str
) -> None:
    """Write the plan to stdout, with the moves and pods of the choice in the order asked for."""
    whole, snapshot = _plan_and_snapshot(options, recorded_plan, choice)
    from rebalancer.reporting.chosen_rows import chosen_pods, sorted_moves  # noqa: PLC0415 - after the reading
    from rebalancer.reporting.tables.plan import plan_table  # noqa: PLC0415

    rows = sorted_moves(chosen_pods(whole, choice, snapshot), sort)
    if output.format in TABLES:
        emit(whole, output, functools.partial(plan_table, rows=rows, choice=str(choice)))
    else:
        emit(rows, output, plan_table, Rows(_names, _frame))


def _plan_and_snapshot(
    options: PlanOptions, recorded_plan: Plan | None, choice: Choice
) -> tuple[Plan, Snapshot | None]:
    """The plan, and the cluster that it was made for if pods cannot be chosen without that."""
    from rebalancer.run.plan import make_plan, make_plan_and_snapshot  # noqa: PLC0415 - not for --help

    if recorded_plan is not None:
        if choice.needs_snapshot:
            raise InputError("a plan does not hold what -l and this --field-selector choose by")
        return recorded_plan, None
    with progress() as report:
        options = replace(options, progress=report)
        if choice.needs_snapshot:
            return make_plan_and_snapshot(options)
        return make_plan(options), None


def _write_difference(options: PlanOptions, output: Output, other: Path, *, chosen: bool) -> None:
    """Write what changes with another policy to stdout."""
    from rebalancer.reporting.tables.plan import difference_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.questions import diff_policies  # noqa: PLC0415 - not for --help

    if output.format not in {*TABLES, *DOCUMENT_FORMATS}:
        raise InputError(
            f"--diff shows two plans side by side, -o {output.format} lists the rows of one",
            hint="leave one of them out",
        )
    if chosen:
        raise InputError("--diff compares whole plans", hint="leave out -n, -l, --field-selector and --sort")
    with progress() as report:
        difference = diff_policies(replace(options, progress=report), other)
    emit(difference, output, difference_table)


def _write_page(options: PlanOptions) -> None:
    """Write the plan as one HTML file to stdout."""
    from rebalancer.run.plan import make_reported_plan  # noqa: PLC0415 - not for --help

    with progress() as report:
        reported = make_reported_plan(replace(options, progress=report))
    write_page(reported.plan, reported.policy, reported.tables)


def _names(plan: Plan) -> Iterable[str]:
    return (f"pod/{move.pod.full_name}" for move in plan.moves)


def _frame(plan: Plan) -> DataFrame:
    from rebalancer import analysis  # noqa: PLC0415 - pandas is only for rows

    return analysis.moves(plan)
