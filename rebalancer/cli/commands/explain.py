"""``rebalancer explain``: the whole because of one pod or one node."""

from __future__ import annotations

import dataclasses

import click

from rebalancer.cli.options import all_option, output_option, pipeline_options
from rebalancer.cli.output import emit, progress
from rebalancer.pipeline.options import PipelineOptions
from rebalancer.reporting.render import Format


@click.command()
@click.argument("subject", metavar="pod/NAMESPACE/NAME|node/NAME")
@pipeline_options
@output_option
@all_option
def explain(subject: str, options: PipelineOptions, output_format: Format, everything: bool) -> None:
    """Explain one pod or node in full. Only reads.

    Of a pod: may it be evicted, the scheduler's table for its replacement, where that would land, and
    what staying costs. Of a node: why it is hot, and each of its pods with its share and verdict.
    """
    from rebalancer.pipeline.explaining import explained  # noqa: PLC0415 - heavy
    from rebalancer.reporting.tables.explain import explain_table  # noqa: PLC0415

    with progress() as tell:
        explanation = explained(dataclasses.replace(options, progress=tell), subject)
    emit(explanation, output_format, explain_table, everything=everything)
