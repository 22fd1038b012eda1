"""``rebalancer explain``: the full explanation for one pod or one node."""

from __future__ import annotations

import dataclasses

import click

from rebalancer import pipeline
from rebalancer.cli.output import Output, emit, progress
from rebalancer.cli.shared_options import DOCUMENT_FORMATS, output_options, pipeline_options
from rebalancer.pipeline import PipelineOptions


@click.command()
@click.argument("subject", metavar="pod/NAMESPACE/NAME|node/NAME")
@pipeline_options
@output_options(*DOCUMENT_FORMATS)
def explain(subject: str, options: PipelineOptions, output: Output) -> None:
    """Explain one pod or node in full. Only reads.

    For a pod: whether it may be evicted, how the scheduler scores the nodes for its replacement, where that
    would run, and what leaving it costs. For a node: why it is hot, and for each pod its share of the load
    and why it would be evicted or not.
    """
    from rebalancer.reporting.tables.explain import explain_table  # noqa: PLC0415 - imports rich

    with progress() as report:
        explanation = pipeline.explain_subject(dataclasses.replace(options, progress=report), subject)
    emit(explanation, output, explain_table)
