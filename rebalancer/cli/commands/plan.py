"""``rebalancer plan``: what would be evicted, why, and where it would land."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from rebalancer import pipeline
from rebalancer.cli.output import Output, Rows, emit, progress
from rebalancer.cli.shared_options import ROW_FORMATS, output_options, pipeline_options
from rebalancer.errors import InputError
from rebalancer.pipeline import PipelineOptions
from rebalancer.reporting.render import DOCUMENTS, TABLES, Format, to_yaml

if TYPE_CHECKING:
    from pandas import DataFrame

    from rebalancer.planning.plan import Plan


@click.command()
@pipeline_options
@output_options(*ROW_FORMATS, Format.HTML)
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    help="Show only the pods of this namespace; the plan is the same.",
)
def plan(options: PipelineOptions, output: Output, namespace: str | None) -> None:
    """Show what would be evicted, why, and where it would land. Only reads."""
    from rebalancer.reporting.tables.plan import of_namespace, plan_table  # noqa: PLC0415 - imports rich

    if namespace is not None and output.format in {*DOCUMENTS, Format.HTML}:
        raise InputError(
            f"-n chooses rows of a table, and -o {output.format} prints the whole plan",
            hint="leave one of them out",
        )
    if output.format is Format.HTML:
        _write_page(options)
        return
    with progress() as report:
        found = pipeline.make_plan(dataclasses.replace(options, progress=report))
    if output.format not in TABLES and namespace is not None:
        found = of_namespace(found, namespace)
    emit(found, output, functools.partial(plan_table, namespace=namespace), Rows(_names, _frame))


def _write_page(options: PipelineOptions) -> None:
    """Write the plan as one HTML file to stdout."""
    from rebalancer.policy import shown  # noqa: PLC0415 - imports pydantic
    from rebalancer.reporting.html.report import ReportInputs, html_report  # noqa: PLC0415 - imports jinja2

    with progress() as report:
        found = pipeline.make_reported_plan(dataclasses.replace(options, progress=report))
    policy, _ = shown(found.policy)
    sys.stdout.write(html_report(ReportInputs(found.plan, to_yaml(policy), found.tables)))


def _names(plan: Plan) -> Iterable[str]:
    return (f"pod/{move.pod.full_name}" for move in plan.moves)


def _frame(plan: Plan) -> DataFrame:
    from rebalancer import analysis  # noqa: PLC0415 - pandas is only for CSV

    return analysis.moves(plan)
