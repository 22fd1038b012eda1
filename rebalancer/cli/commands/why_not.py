"""``rebalancer why-not``: why nothing is moved, on one screen."""

from __future__ import annotations

import click
from msgspec.structs import replace

from rebalancer.cli.options import DOCUMENT_FORMATS, asked_again, output_options, pipeline_options
from rebalancer.cli.output import Output, emit, progress
from rebalancer.observe.plan_options import PlanOptions


@click.command("why-not")
@click.argument("subject", metavar="[NODE|POD]", nargs=-1)
@click.option(
    "-n", "--namespace", metavar="NAMESPACE", help="The namespace of a pod that is named without one."
)
@pipeline_options
@output_options(*DOCUMENT_FORMATS)
def why_not(subject: tuple[str, ...], namespace: str | None, options: PlanOptions, output: Output) -> None:
    """Explain why no pods, or no more pods, would move. Only reads.

    For the cluster or one node: the settings that keep load on hot nodes, with the share of each; or how far
    the nodes are from being hot. For a pod: every rule that keeps it, not only the first.

    \b
    rebalancer why-not
    rebalancer why-not node/node-1
    rebalancer why-not pod/shop/api-7d9f-03
    """

    from rebalancer.reporting.tables.questions import why_not_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.questions import why_nothing_moves  # noqa: PLC0415 - not for --help

    with progress() as report:
        looking = replace(options, progress=report)
        found = why_nothing_moves(looking, "/".join(subject), namespace or "")
    steps = tuple(asked_again(step, options) for step in found.next_steps)
    emit(replace(found, next_steps=steps), output, why_not_table)
