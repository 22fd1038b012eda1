"""``rebalancer what-if``: what a change of the cluster would do, without making it."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import replace

from rebalancer.cli.options import DOCUMENT_FORMATS, FILE, output_options, pipeline_options
from rebalancer.cli.output import Output, emit, progress
from rebalancer.observe.plan_options import PlanOptions

_COMPARED = "What if the scheduler had this KubeSchedulerConfiguration? The same pods by both."


@click.command("what-if")
@click.option(
    "--drain",
    "drained",
    multiple=True,
    metavar="NODE",
    help="Cordon a node and evict its pods, as kubectl drain does; may be repeated.",
)
@click.option("--cordon", "cordoned", multiple=True, metavar="NODE", help="Cordon a node; may be repeated.")
@click.option(
    "--add-node",
    "added",
    multiple=True,
    metavar="NODE=N",
    help="Add N nodes like NODE; may be repeated.",
)
@click.option(
    "--scale",
    "scaled",
    multiple=True,
    metavar="KIND/[NS/]NAME=N",
    help="Scale a workload to N replicas, e.g. deploy/shop/api=5; may be repeated.",
)
@click.option(
    "--current-scheduler-config",
    "current",
    type=FILE,
    metavar="FILE",
    help="The KubeSchedulerConfiguration before the change, instead of the policy's.",
)
@pipeline_options
@output_options(*DOCUMENT_FORMATS)
def what_if(
    drained: tuple[str, ...],
    cordoned: tuple[str, ...],
    added: tuple[str, ...],
    scaled: tuple[str, ...],
    current: Path | None,
    options: PlanOptions,
    output: Output,
) -> None:
    """Show what a change would do to pods and nodes. Only reads; nothing is changed.

    Shows where the affected pods would land, which stay because of a budget, which fit nowhere, and the hot
    nodes before and after. Changes may be combined.

    \b
    rebalancer what-if --drain node-1 --drain node-2
    rebalancer what-if --drain node-1 --add-node node-2=1
    rebalancer what-if --scale deployment/shop/api=12
    rebalancer what-if --scheduler-config other.yaml --from recorded/
    """
    from rebalancer.questions.changes import parse_changes  # noqa: PLC0415 - not for --help
    from rebalancer.reporting.tables.questions import what_if_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.questions import what_if_changed  # noqa: PLC0415 - not for --help

    with progress() as report:
        found = what_if_changed(
            replace(options, progress=report, scheduler_config=current),
            parse_changes(drained, cordoned, added, scaled),
            options.scheduler_config,
        )
    emit(found, output, what_if_table)


for _parameter in what_if.params:
    if _parameter.name == "scheduler_config" and isinstance(_parameter, click.Option):
        _parameter.help = _COMPARED
