"""``rebalancer shadow``: what another scheduler configuration would do with the pods that are bound now."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import replace

from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    DURATION,
    FILE,
    LIVE_PLAN,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, progress
from rebalancer.observe.plan_options import PlanOptions


@click.command(short_help="Try another scheduler configuration beside the one in force.")
@click.argument("other", type=FILE, metavar="FILE")
@option(
    *("--for seconds", DURATION, "DURATION", "How long to follow the cluster."),
    default="10m",
    show_default=True,
)
@option("--decisions", click.IntRange(1), "N", "Stop after so many decisions.")
@plan_options(**{field: plan_option for field, plan_option in LIVE_PLAN.items() if field != "now"})
@output_options(*DOCUMENT_FORMATS)
def shadow(other: Path, seconds: float, decisions: int | None, options: PlanOptions, output: Output) -> None:
    """Follow the cluster, and compute where another configuration would place each pod. Only reads.

    Each pod that a scheduler binds is placed by the KubeSchedulerConfiguration FILE too, on the cluster as it
    really was just before. The answer says how many pods would be on another node, and what that does to the
    fullest nodes. A signal ends it early, and what was found so far is shown.

    \b
    rebalancer shadow other-scheduler.yaml --for 1h
    """
    from rebalancer.agreement.tables import headline  # noqa: PLC0415 - imports rich
    from rebalancer_lab.shadow.following import follow  # noqa: PLC0415 - imports the whole pipeline
    from rebalancer_lab.shadow.tables import shadow_table  # noqa: PLC0415 - imports rich

    with progress() as report:
        answer = follow(
            replace(options, progress=report),
            other,
            seconds,
            decisions,
            lambda tally: report(f"the cluster's decisions: {headline(tally.decisions, tally.landed)}"),
        )
    emit(answer, output, shadow_table)
