"""``rebalancer agreement``: does the cluster's scheduler decide as the model computes?"""

from __future__ import annotations

import click
from msgspec.structs import replace

from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    DURATION,
    LIVE_PLAN,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, progress
from rebalancer.observe.plan_options import PlanOptions


@click.command(short_help="Compare each decision of the scheduler with what is computed.")
@option(
    *("--for seconds", DURATION, "DURATION", "How long to follow the cluster."),
    default="10m",
    show_default=True,
)
@option("--decisions", click.IntRange(1), "N", "Stop after so many decisions.")
@plan_options(**{field: item for field, item in LIVE_PLAN.items() if field != "now"})
@output_options(*DOCUMENT_FORMATS)
def agreement(seconds: float, decisions: int | None, options: PlanOptions, output: Output) -> None:
    """Follow the cluster, and compare each decision of its schedulers with what is computed. Only reads.

    For every pod that a scheduler binds, the decision is computed on the cluster as it was just before: is
    the node chosen one of those computed, and with what chance? A miss names the plugins that could be the
    difference. A signal ends it early, and what was found so far is shown.

    \b
    rebalancer agreement --for 1h
    rebalancer agreement --decisions 1000 -o json
    """
    from rebalancer.reporting.tables.agreement import agreement_table, headline  # noqa: PLC0415 - imports rich
    from rebalancer.run.agreement import watch_agreement  # noqa: PLC0415 - imports the whole pipeline

    with progress() as report:
        found = watch_agreement(
            replace(options, progress=report),
            seconds,
            decisions,
            lambda tally: report(f"the cluster's decisions: {headline(tally.decisions, tally.landed)}"),
        )
    emit(found, output, agreement_table)
