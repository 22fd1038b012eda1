"""``rebalancer nodes``: node by node, load, score, hot or not and why."""

from __future__ import annotations

import dataclasses

import click

from rebalancer.cli.options import PipelineOptions, all_option, output_option, pipeline_options
from rebalancer.cli.output import emit, progress
from rebalancer.reporting.render import Format


@click.command()
@pipeline_options
@output_option
@all_option
def nodes(options: PipelineOptions, output_format: Format, everything: bool) -> None:
    """Show each node's load and score, and whether it is hot and why. Only reads."""
    from rebalancer.cli import pipeline  # noqa: PLC0415 - heavy
    from rebalancer.reporting.nodes_table import node_listing, nodes_table  # noqa: PLC0415

    with progress() as tell:
        result = pipeline.make_plan(dataclasses.replace(options, progress=tell))
    emit(node_listing(result.plan, result.nodes), output_format, nodes_table, everything=everything)
