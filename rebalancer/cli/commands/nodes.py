"""``rebalancer nodes``: the load and score of each node, and whether and why it is hot."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rebalancer.cli.logs import LOGGER
from rebalancer.cli.options import (
    ROW_FORMATS,
    Duration,
    node_choice_options,
    output_options,
    pipeline_options,
)
from rebalancer.cli.output import Output, Rows, emit, progress
from rebalancer.errors import InputError, RebalancerError, StopRequestedError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import TABLES, Format
from rebalancer.signals import stop_on_signal

if TYPE_CHECKING:
    from pandas import DataFrame

    from rebalancer.cluster.snapshot import Snapshot
    from rebalancer.reporting.chosen_rows import Choice
    from rebalancer.reporting.tables.nodes import NodeListing


_ORDERS = frozenset({"heat", "name", "score"})  # of nodes, besides every resource


@click.command(short_help="Show each node's load, its source, and why it is hot.")
@pipeline_options
@click.option("-w", "--watch", is_flag=True, help="Show the nodes repeatedly until interrupted.")
@click.option(
    "--every",
    type=Duration(),
    default="15s",
    show_default=True,
    help="How long --watch waits between two readings.",
)
@click.option("--hot", "hot_only", is_flag=True, help="Show only hot nodes.")
@click.option(
    "--sort",
    metavar="KEY",
    help="Order: heat (hot nodes first, then the highest load; the default of tables and HTML), name (of "
    "other formats), score, or a resource such as memory.",
)
@node_choice_options
@output_options(*ROW_FORMATS)
def nodes(
    options: PlanOptions,
    watch: bool,
    every: float,
    hot_only: bool,
    sort: str | None,
    choice: Choice,
    output: Output,
) -> None:
    """Show each node's load, where it comes from, its score, and whether it is hot and why. Only reads."""

    from rebalancer.reporting.chosen_rows import chosen_nodes  # noqa: PLC0415 - imports numpy
    from rebalancer.reporting.tables.nodes import nodes_table  # noqa: PLC0415 - heavy

    if watch and options.source is not None:
        raise InputError(
            "--watch looks at a live cluster, --from reads a recorded one", hint="give one or the other"
        )
    if watch and output.format in {Format.HTML, Format.PARQUET}:
        raise InputError(
            f"--watch writes again and again, and -o {output.format} is one file",
            hint="leave one of them out",
        )
    order = sort or ("heat" if output.format in {*TABLES, Format.HTML} else "name")
    if order not in _ORDERS:
        _check_resource(order, options)

    def show(found: tuple[NodeListing, Snapshot | None]) -> None:
        listing, snapshot = found
        rows = listing.nodes if snapshot is None else chosen_nodes(listing.nodes, choice, snapshot)
        shown = replace(listing, nodes=tuple(node for node in rows if node.hot or not hot_only))
        table = functools.partial(nodes_table, everything=listing, chosen_by=str(choice))
        page = functools.partial(_page, everything=listing, chosen_by=str(choice), top=output.top)
        emit(shown, output, table, Rows(_names, _frame, page))

    look = functools.partial(_listing, options, order, with_snapshot=bool(choice))
    show(look())
    if not watch:
        return
    with stop_on_signal() as signals:
        while not signals.stop.wait(every):
            try:
                found = signals.interruptibly(look)
            except StopRequestedError:
                return
            except RebalancerError as error:
                LOGGER.warning("%s", error)  # the next reading may succeed
                continue
            if output.format in TABLES:
                _begin_again()
            show(found)
            sys.stdout.flush()


def _check_resource(order: str, options: PlanOptions) -> None:
    """Refuse an order by what the policy's sources do not measure, before the cluster is read."""
    from rebalancer.policy.policy_file import (  # noqa: PLC0415 - imports pydantic
        default_policy,
        load_policy,
        scorable_resources,
    )

    loaded = default_policy() if options.policy_path is None else load_policy(options.policy_path)
    known = {*_ORDERS, *scorable_resources(loaded.policy)}
    if order not in known:
        raise InputError(
            f"--sort {order[:60]!a}: the policy's sources measure no such thing",
            hint=f"use one of {', '.join(sorted(known))}",
        )


def _listing(options: PlanOptions, order: str, *, with_snapshot: bool) -> tuple[NodeListing, Snapshot | None]:
    from rebalancer.reporting.tables.nodes import node_listing, sorted_nodes  # noqa: PLC0415
    from rebalancer.run.plan import make_plan, make_plan_and_snapshot  # noqa: PLC0415 - not for --help

    snapshot = None
    with progress() as report:
        looking = replace(options, progress=report, ignore_coverage=True)
        if with_snapshot:
            plan, snapshot = make_plan_and_snapshot(looking)
        else:
            plan = make_plan(looking)
    known = _ORDERS | {resource for node in plan.nodes for resource in node.load}
    if plan.nodes and order not in known:
        raise InputError(
            f"--sort {order[:60]!a}: no node has such a figure",
            hint=f"use one of {', '.join(sorted(known))}",
        )
    return node_listing(plan, tuple(sorted_nodes(plan.nodes, order))), snapshot


def _names(listing: NodeListing) -> Iterable[str]:
    return (f"node/{node.name}" for node in listing.nodes)


def _frame(listing: NodeListing) -> DataFrame:
    from rebalancer import analysis  # noqa: PLC0415 - pandas is only for CSV

    return analysis.nodes(listing.nodes)


def _page(listing: NodeListing, *, everything: NodeListing, chosen_by: str, top: int | None) -> str:
    from rebalancer.reporting.html.pages import nodes_page  # noqa: PLC0415 - imports jinja2

    return nodes_page(listing, everything, chosen_by, top)


def _begin_again() -> None:
    """Clear a terminal; elsewhere leave a line between two tables."""
    if sys.stdout.isatty():
        click.clear()
    else:
        click.echo()
