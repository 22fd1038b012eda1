"""``rebalancer fleet``: plans of several clusters, and what their schedulers decide, a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rebalancer.cli.options import DOCUMENT_FORMATS, DURATION, LIVE_PLAN, ROW_FORMATS, option, output_options
from rebalancer.cli.output import Output
from rebalancer_lab.fleet.options import CONTEXTS, PLAN_OF_EACH, several_clusters

if TYPE_CHECKING:
    from rebalancer_lab.fleet.clusters import Cluster


@click.group()
def fleet() -> None:
    """Ask several clusters the same question. Only reads.

    Clusters are named by --context, once for each, or recorded ones by a pattern: --from 'recorded/*'. The
    exit code is that of all of them, or 4 where they differ.
    """


@fleet.command()
@several_clusters(
    {field: plan_option for field, plan_option in PLAN_OF_EACH.items() if field != "state_path"}
)
@output_options(*ROW_FORMATS)
def plan(fleet: tuple[Cluster, ...], output: Output) -> int:
    """Plan for each cluster: hot nodes, movable pods, moves, and what blocks more. Only reads.

    \b
    rebalancer fleet plan --context eu --context us
    rebalancer fleet plan --from 'recorded/*' -o html > fleet.html
    """
    from rebalancer_lab.fleet.asking import show_plans  # noqa: PLC0415 - not for --help

    return show_plans(fleet, output)


@fleet.command()
@option(
    *("--for seconds", DURATION, "DURATION", "How long to follow the clusters."),
    default="10m",
    show_default=True,
)
@option("--decisions", click.IntRange(1), "N", "Stop after so many decisions of a cluster.")
@several_clusters(
    {
        **{
            field: plan_option
            for field, plan_option in LIVE_PLAN.items()
            if field not in ("now", "context", "state_path")
        },
        "contexts": CONTEXTS,
    }
)
@output_options(*DOCUMENT_FORMATS)
def agreement(seconds: float, decisions: int | None, fleet: tuple[Cluster, ...], output: Output) -> int:
    """Follow all clusters at once, and compare each decision of their schedulers with what is computed.

    \b
    rebalancer fleet agreement --for 1h --context eu --context us
    """
    from rebalancer_lab.fleet.asking import show_agreement  # noqa: PLC0415 - not for --help

    return show_agreement(fleet, output, seconds, decisions)
