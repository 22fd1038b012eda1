"""``rebalancer nodes``: the load and score of each node, and whether and why it is hot."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import click

from rebalancer import pipeline
from rebalancer.cli.logs import LOGGER
from rebalancer.cli.output import emit, progress
from rebalancer.cli.shared_options import Duration, all_option, output_option, pipeline_options
from rebalancer.errors import InputError, RebalancerError, StopRequestedError
from rebalancer.pipeline import PipelineOptions
from rebalancer.pipeline.signals import stop_on_signal
from rebalancer.reporting.render import Format

if TYPE_CHECKING:
    from rebalancer.reporting.tables.nodes import NodeListing


@click.command()
@pipeline_options
@click.option("-w", "--watch", is_flag=True, help="Show the nodes repeatedly until interrupted.")
@click.option(
    "--every",
    type=Duration(),
    default="15s",
    show_default=True,
    help="How long --watch waits between two readings.",
)
@output_option
@all_option
def nodes(
    options: PipelineOptions, watch: bool, every: float, output_format: Format, everything: bool
) -> None:
    """Show each node's load, where it comes from, its score, and whether it is hot and why. Only reads."""
    from rebalancer.reporting.tables.nodes import nodes_table  # noqa: PLC0415 - heavy

    if watch and options.source is not None:
        raise InputError(
            "--watch looks at a live cluster, --from reads a recorded one", hint="give one or the other"
        )
    emit(_listing(options), output_format, nodes_table, everything=everything)
    if not watch:
        return
    with stop_on_signal() as signals:
        while not signals.stop.wait(every):
            try:
                listing = signals.interruptibly(lambda: _listing(options))
            except StopRequestedError:
                return
            except RebalancerError as error:
                LOGGER.warning("%s", error)  # the next reading may succeed
                continue
            if output_format is Format.TABLE:
                _begin_again()
            emit(listing, output_format, nodes_table, everything=everything)
            sys.stdout.flush()


def _listing(options: PipelineOptions) -> NodeListing:
    from rebalancer.reporting.tables.nodes import node_listing  # noqa: PLC0415

    with progress() as report:
        plan = pipeline.make_plan(dataclasses.replace(options, progress=report, only_look=True))
    return node_listing(plan, plan.nodes)


def _begin_again() -> None:
    """Clear a terminal; elsewhere leave a line between two tables."""
    if sys.stdout.isatty():
        click.clear()
    else:
        click.echo()
