"""``rebalancer plan``: what would be evicted, why, and where it would land."""

from __future__ import annotations

import dataclasses

import click

from rebalancer import pipeline
from rebalancer.cli.output import emit, progress
from rebalancer.cli.shared_options import all_option, output_option, pipeline_options
from rebalancer.pipeline import PipelineOptions
from rebalancer.reporting.render import Format


@click.command()
@pipeline_options
@output_option
@all_option
def plan(options: PipelineOptions, output_format: Format, everything: bool) -> None:
    """Show what would be evicted, why, and where it would land. Only reads."""
    from rebalancer.reporting.tables.plan import plan_table  # noqa: PLC0415 - imports rich

    with progress() as report:
        found = pipeline.make_plan(dataclasses.replace(options, progress=report))
    emit(found, output_format, plan_table, everything=everything)
