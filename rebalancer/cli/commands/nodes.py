"""``rebalancer nodes``: the load and score of each node, and whether and why it is hot."""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rebalancer import analysis
from rebalancer.cli.invocation import LOGGER
from rebalancer.cli.options import (
    DURATION,
    PLAN,
    ROW_FORMATS,
    node_choice_options,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, Rows, console, emit, with_progress
from rebalancer.errors import ExitCode, InputError, RebalancerError
from rebalancer.observe.plan_options import PlanOptions, policy_of
from rebalancer.reporting.render import TABLES, Format

if TYPE_CHECKING:
    from rebalancer.cluster.snapshot import Snapshot
    from rebalancer.reporting.chosen_rows import Choice
    from rebalancer.reporting.tables.nodes import NodeListing


_EVERY_SECONDS = 15.0
_LEAST_SECONDS = 1.0
_ORDERS = frozenset({"heat", "name", "score"})  # of nodes, besides every resource


@click.command(short_help="Show each node's load, its source, and why it is hot.")
@plan_options(**PLAN)
@click.option("-w", "--watch", is_flag=True, help="Show the nodes repeatedly until interrupted.")
@option(*("--every", DURATION, None, "How long --watch waits between two readings; by default 15s."))
@click.option("--hot", "hot_only", is_flag=True, help="Show only hot nodes.")
@option(
    *("--sort", None, "KEY"),
    "Order: heat (hot nodes first, then the highest load; the default of tables and HTML), name (of other "
    "formats), score, or a resource such as memory.",
)
@option(
    *("-L --label-columns labels_shown", None, "KEYS"),
    "Labels to show as columns, such as topology.kubernetes.io/zone; several with commas, or repeated.",
    multiple=True,
)
@node_choice_options
@output_options(*ROW_FORMATS)
def nodes(
    options: PlanOptions,
    watch: bool,
    every: float | None,
    hot_only: bool,
    sort: str | None,
    choice: Choice,
    labels_shown: tuple[str, ...],
    output: Output,
) -> int:
    """Show each node's load, where it comes from, its score, and whether it is hot and why. Only reads.

    \b
    rebalancer nodes --hot
    rebalancer nodes --watch --every 30s
    rebalancer nodes -l topology.kubernetes.io/zone=a --sort memory -o wide
    rebalancer nodes -o wide -L node.kubernetes.io/instance-type
    """
    _check_watch(options, output, every, watch=watch)
    order = sort or ("heat" if output.format in {*TABLES, Format.HTML} else "name")
    if order not in _ORDERS:
        _check_resource(order, options)

    labels = tuple(dict.fromkeys(key for keys in labels_shown for key in keys.split(",") if key))

    warned: set[str] = set()  # warnings that an earlier table of --watch has shown

    def show(reading: tuple[NodeListing, Snapshot]) -> None:
        from rebalancer.planning.assemble import listed_nodes  # noqa: PLC0415 - not before the reading
        from rebalancer.reporting.chosen_rows import chosen_nodes  # noqa: PLC0415
        from rebalancer.reporting.tables.nodes import nodes_table  # noqa: PLC0415

        listing, snapshot = reading
        rows = chosen_nodes(listing.nodes, choice, snapshot) if choice else listing.nodes
        rows = tuple(node for node in rows if node.hot or not hot_only)
        new = tuple(text for text in listing.warnings if text not in warned)
        warned.update(new if output.format in TABLES and not sys.stdout.isatty() else ())
        shown = replace(listing, nodes=listed_nodes(rows, snapshot, labels), warnings=new)
        table = functools.partial(nodes_table, everything=listing, chosen_by=str(choice), labels=labels)
        page = functools.partial(_page, everything=listing, chosen_by=str(choice), top=output.top)
        names = (f"node/{node.name}" for node in shown.nodes)
        emit(shown, output, table, Rows(names, lambda _: analysis.nodes(shown.nodes), page))

    look = functools.partial(_listing, options, order)
    show(look())
    if not watch:
        return int(ExitCode.DONE)
    from rebalancer.cluster.dumps.listing import free_cycles  # noqa: PLC0415 - imports numpy

    while True:  # until a signal ends the program
        time.sleep(every or _EVERY_SECONDS)
        try:
            reading = look()
        except RebalancerError as error:
            LOGGER.warning("%s", error)  # the next reading may succeed
            continue
        if output.format in TABLES and console().is_terminal and not console().is_dumb_terminal:
            click.clear()
        elif output.format in TABLES:
            click.echo()  # a line between two tables
        show(reading)
        sys.stdout.flush()
        free_cycles()


def _check_watch(options: PlanOptions, output: Output, every: float | None, *, watch: bool) -> None:
    """Refuse options of which one would be ignored."""
    if every is not None and not watch:
        raise InputError("--every says how often --watch reads", hint="add --watch")
    if every is not None and every < _LEAST_SECONDS:
        raise InputError("--every is shorter than a second", hint="write e.g. 5s")
    if watch and options.source is not None:
        raise InputError(
            "--watch looks at a live cluster, --from reads a recorded one", hint="give one or the other"
        )
    if watch and output.format is Format.HTML:
        raise InputError(
            "--watch writes again and again, and -o html is one file",
            hint="leave one of them out",
        )


def _check_resource(order: str, options: PlanOptions) -> None:
    """Refuse an order by what the policy's sources do not measure, before the cluster is read."""
    from rebalancer.policy.policy_file import scorable_resources  # noqa: PLC0415 - imports pydantic

    orders = {*_ORDERS, *scorable_resources(policy_of(options).policy)}
    if order not in orders:
        raise InputError(
            f"--sort {order[:60]!a}: the policy's sources measure no such thing",
            hint=f"use one of {', '.join(sorted(orders))}",
        )


def _listing(options: PlanOptions, order: str) -> tuple[NodeListing, Snapshot]:
    from rebalancer.run.plan import make_plan_and_snapshot  # noqa: PLC0415 - not for --help

    plan, snapshot = with_progress(
        make_plan_and_snapshot, replace(options, ignore_coverage=True), of_nodes=True
    )
    from rebalancer.reporting.tables.nodes import node_listing, sorted_nodes  # noqa: PLC0415 - imports rich

    orders = _ORDERS | {resource for node in plan.nodes for resource in node.load}
    if plan.nodes and order not in orders:
        raise InputError(
            f"--sort {order[:60]!a}: no node has such a figure",
            hint=f"use one of {', '.join(sorted(orders))}",
        )
    return node_listing(plan, tuple(sorted_nodes(plan.nodes, order))), snapshot


def _page(listing: NodeListing, *, everything: NodeListing, chosen_by: str, top: int | None) -> str:
    from rebalancer.reporting.html.pages import nodes_page  # noqa: PLC0415 - imports jinja2

    return nodes_page(listing, everything, chosen_by, top)
